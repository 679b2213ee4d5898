"""What is read of NCCL's log, cell by cell, and what the supervisor keeps of it."""

from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import ExitCode
from gtpbench.launch import log_pass, path_log
from gtpbench.launch.attempt import Failure, Finished
from gtpbench.launch.place import builtin_place
from gtpbench.plan import build_plan
from gtpbench.scenario.load import build_scenario

SPACE = "NCCL INFO Symmetric VA size=140GB"
RING = "NCCL INFO AllGather: 32768 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}"
SYMMETRIC = "NCCL INFO AllGather [Symmetric]: 32768 Bytes -> Kernel AllGather_LL nchannels 8 nthreads 512 nWorks 1"


def _write(path: Path, *messages: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"host:1:1 [0] {message}\n" for message in messages)


def test_each_cell_gets_its_own_lines_once_and_what_lasts(tmp_path: Path) -> None:
    """Before the first cell only the address space counts; repeated choices are one line; hosts' names stay out."""
    path = tmp_path / "nccl.log"
    _write(path, "NCCL INFO AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}", SPACE)
    log = log_pass._Log(path)
    _write(path, RING, RING, "NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>")
    assert [SPACE, RING] == log.new_lines()
    _write(path, SYMMETRIC)
    assert [SPACE, SYMMETRIC] == log.new_lines()
    assert [SPACE] == log.new_lines()


def test_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    """NCCL makes the file with its first word."""
    path = tmp_path / "nccl.log"
    log = log_pass._Log(path)
    assert [] == log.new_lines()
    _write(path, RING)
    assert [RING] == log.new_lines()


def _read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: Finished | Failure) -> Any:
    table = {
        "name": "x", "arms": ["none", "symm"], "backend": "nccl_torch", "num_ranks": 2,
        "workload": {"collectives": ["all_gather"], "sizes": ["64K"]},
        "measure": {"clock": "both"},
    }  # fmt: skip
    plan = build_plan(build_scenario(table, origin="test"))

    class FakeAttempt:
        def __init__(self, **given: Any) -> None:
            assert given["reads_paths"]
            assert given["decide"]() is None
            self._given = given

        def run(self) -> Finished | Failure:
            self._given["on_hello"](0, {})
            self._given["on_turn"](3)
            self._given["on_cell"]({"case": 0, "arm": "none", "lines": [RING]})
            return outcome

    monkeypatch.setattr(path_log, "Attempt", FakeAttempt)
    return path_log.read_paths(
        plan,
        place=builtin_place(2),
        launch=0,
        live=[(0, ["none", "symm"])],
        sets=plan.sets,
        log_dir=tmp_path,
        interrupted=lambda: False,
    )


def test_lines_are_kept_by_cell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As rank 0 of each set sent them."""
    assert {(0, "none"): (RING,)} == _read(monkeypatch, tmp_path, Finished(code=None))


def test_a_failure_is_told_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The timed launches go on without the log."""
    failure = Failure(
        status="timeout", code="timeout", text="stuck", exit_code=ExitCode.FAILED,
        set_id=0, stage="capture", case=0, arm=0,
    )  # fmt: skip
    assert failure == _read(monkeypatch, tmp_path, failure)
