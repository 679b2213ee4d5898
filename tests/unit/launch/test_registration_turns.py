"""What a launch does otherwise where registration is timed."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gtpbench.launch import run as run_module
from gtpbench.launch import turns
from gtpbench.launch.rank import Rank
from gtpbench.measure.calibrate import Counts
from gtpbench.measure.registration import RegistrationRun
from gtpbench.plan import Plan
from tests.examples import make_plan

ARMS = ("registered", "symm")


class Values:
    """An exchange that knows both arms' estimates; keeps what is sent to the supervisor too."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        assert key.startswith("estimate/0/")
        return json.dumps({"host": [2e6, 1]}).encode()

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def _plan(**changed: Any) -> Plan:
    workload = {"kind": "registration", "buffer_sizes": ["1M"], "num_buffers": [1, 4], "max_total_bytes": "1G"}
    return make_plan(workload=workload, arms=list(ARMS), backend="nccl_torch", **changed)


def _rank(plan: Plan) -> Rank:
    values = Values()
    rank = Rank(
        spec=SimpleNamespace(rank=0, set_id=0, scenario=plan.scenario),  # type: ignore[arg-type]
        plan=plan,
        board=None,  # type: ignore[arg-type]
        events=values,  # type: ignore[arg-type]
        control=None,  # type: ignore[arg-type]
        fault=None,
        epoch_ns=0,
    )
    rank.exchange, rank.ranks, rank.case = values, None, 0  # type: ignore[assignment]
    return rank


@pytest.mark.parametrize("functional", [False, True])
def test_a_block_is_one_repetition(functional: bool) -> None:
    """Whatever the estimates and the budget; the watchdog hears how long it may take."""
    rank = _rank(_plan(functional=functional))
    assert {"host": Counts(samples=1, k=1)} == turns._counts(rank, [(0, list(ARMS))], "symm")
    (told,) = rank.events.sent  # type: ignore[attr-defined]
    assert ({"host": [1, 1]}, 2.0) == (told["counts"], told["block_seconds"])


def test_the_first_of_each_kind_in_a_process_is_known() -> None:
    """Plain registration does not set up what the first window does."""
    plan = _plan()
    rank = _rank(plan)
    backend: Any = SimpleNamespace(queue=lambda name: name)
    firsts = []
    for case in plan.cases:
        for arm in ARMS:
            run = turns._cell(rank, backend, case, arm)
            assert isinstance(run, RegistrationRun)
            firsts.append(run._is_first)
    assert [True, True, False, False] == firsts


def test_nccls_log_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That launch runs collectives; there are none, and a workload of one is refused."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a launch was started to read the log")

    monkeypatch.setattr(run_module, "read_paths", never)
    plan = _plan()
    run = run_module.Run(
        plan=plan,
        skipped={},
        place=None,  # type: ignore[arg-type]
        folder=None,
        scratch=tmp_path,
        command=(),
        conclude=lambda _: run_module.ExitCode.OK,
        examine=lambda _: (),
        observer=None,  # type: ignore[arg-type]
    )
    run._read_paths(0)
    assert {} == run.paths
    with pytest.raises(AssertionError, match="registration/1x1048576/n2 is no collective"):
        turns.make_workload(_rank(plan), None, plan.cases[0], "symm")  # type: ignore[arg-type]
