"""Injected faults: when they fire."""

import os
import signal
from typing import Any

import pytest

from gtpbench.launch.faults import VARIABLE, Fault


def _fault(monkeypatch: pytest.MonkeyPatch, text: str) -> Fault:
    monkeypatch.setenv(VARIABLE, text)
    fault = Fault.from_environment()
    assert fault is not None
    return fault


@pytest.mark.parametrize("text", [None, "", "  "])
def test_without_the_variable_there_is_none(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    """Nor with an empty one."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if text is not None:
        monkeypatch.setenv(VARIABLE, text)
    assert Fault.from_environment() is None


HERE: dict[str, Any] = {"rank": 1, "attempt": 0, "stage": "warmup", "arm": "symm", "case": "all_gather/bf16/65536/n2"}


@pytest.mark.parametrize(
    ("text", "changed", "fires"),
    [
        ("hang stage=warmup rank=1 arm=symm", {}, True),
        ("hang", {}, True),
        ("hang stage=blocks", {}, False),
        ("hang rank=0", {}, False),
        ("hang rank=1", {"rank": 11}, False),
        ("hang arm=none", {}, False),
        ("hang case=65536", {}, True),
        ("hang case=131072", {}, False),
        ("hang rank=1", {"attempt": 1}, False),
        ("hang rank=1 always=1", {"attempt": 1}, True),
        ("die rank=1", {}, False),
    ],
)
def test_conditions(monkeypatch: pytest.MonkeyPatch, text: str, changed: dict[str, Any], fires: bool) -> None:
    """All that are given must hold; in the first attempt only unless told otherwise."""
    assert fires == _fault(monkeypatch, text).applies("hang", **{**HERE, **changed})


def test_raise_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error the tool does not know."""
    with pytest.raises(RuntimeError, match="injected fault"):
        _fault(monkeypatch, "raise stage=warmup").fire()


@pytest.mark.parametrize(("text", "call"), [("die", "kill"), ("hang", "sleep")])
def test_die_and_hang_do_not_come_back(monkeypatch: pytest.MonkeyPatch, text: str, call: str) -> None:
    """SIGKILL to the process itself; sleep without end."""
    called: list[tuple[str, tuple[Any, ...]]] = []

    def note(name: str) -> Any:
        def noted(*args: Any) -> None:
            called.append((name, args))
            raise InterruptedError

        return noted

    monkeypatch.setattr("os.kill", note("kill"))
    monkeypatch.setattr("time.sleep", note("sleep"))
    with pytest.raises(InterruptedError):
        _fault(monkeypatch, text).fire()
    assert [call] == [name for name, _ in called]
    if call == "kill":
        assert (os.getpid(), signal.SIGKILL) == called[0][1]
