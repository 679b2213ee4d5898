"""A launch's callbacks: what is recorded of what ranks sent, and when."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import ExitCode
from gtpbench.launch import run as run_module
from gtpbench.launch.attempt import Failure, Finished
from gtpbench.launch.place import builtin_place
from gtpbench.launch.results import RunFolder
from gtpbench.launch.run import Run
from gtpbench.plan import Plan
from gtpbench.record.environment import Environment, Finding, RankPlace
from tests.examples import make_plan
from tests.unit.launch.cells import make_cell

FINDING = Finding(code="load", severity="note", text="the host is busy", advice="times will scatter")


class Watcher:
    """Keeps what a run tells."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def progress(self, *, done: int, total: int, text: str) -> None:
        pass


Script = Callable[[dict[str, Any]], Finished | Failure]


class Launches:
    """A run of two sets, `none` on gloo and `symm` on cpu_window, whose attempts are played by the test."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *scripts: Script, plan: Plan | None = None):
        self.plan = plan or make_plan()
        self.folder = RunFolder.create(tmp_path / "out", self.plan)
        self.watcher = Watcher()
        self.examined: list[Environment] = []
        attempts = iter(scripts)

        class Played:
            def __init__(self, **arguments: Any) -> None:
                self._arguments = arguments

            def run(self) -> Finished | Failure:
                return next(attempts)(self._arguments)

        monkeypatch.setattr(run_module, "Attempt", Played)
        self.run = Run(
            plan=self.plan,
            skipped={},
            place=builtin_place(2),
            folder=self.folder,
            scratch=tmp_path,
            command=("gtpbench", "run"),
            conclude=lambda records: ExitCode.OK,
            examine=self._examine,
            observer=self.watcher,
        )

    def _examine(self, environment: Environment) -> tuple[Finding, ...]:
        self.examined.append(environment)
        return (FINDING,)

    def cells(self) -> list[tuple[str, int]]:
        """(arm, attempt) of what is recorded as measured, in order."""
        return [
            (record.arm, record.execution.attempt)
            for record in self.folder.records
            if record.status == "ok" and record.execution is not None
        ]


def hello(set_id: int) -> tuple[int, dict[str, Any]]:
    """What a set's rank 0 sends when its ranks have met."""
    places = [
        RankPlace(
            rank=rank,
            local_rank=rank,
            node=0,
            host="h",
            pid=1000 + 10 * set_id + rank,
            cpus=(rank,),
            numa=None,
            gpu=None,
            pci=None,
            lsa_domain=None,
        )
        for rank in range(2)
    ]
    told = [place.model_dump_json() for place in places]
    return set_id, {"event": "hello", "places": told, "libraries": [], "interfaces": ["lo"]}


def cell(arm: str) -> dict[str, Any]:
    """What a set's rank 0 sends at the end of a cell."""
    return {"event": "cell", "case": 0, "arm": arm, "ranks": [make_cell(rank).model_dump_json() for rank in range(2)]}


def failed(*, set_id: int, arm: int) -> Failure:
    """A rank died in the blocks of the only case."""
    return Failure(
        status="error",
        code="died",
        text="rank 1 was ended by SIGKILL",
        exit_code=ExitCode.FAILED,
        set_id=set_id,
        stage="blocks",
        case=0,
        arm=arm,
    )


def test_an_early_cell_waits_for_the_last_hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes of different processes have no order: a cell read before every set has said hello is kept, and recorded
    once, with the launch's environment, when the last one has."""
    seen: list[list[tuple[str, int]]] = []

    def script(attempt: dict[str, Any]) -> Finished:
        attempt["on_hello"](*hello(0))
        attempt["on_cell"](cell("none"))
        seen.append(launches.cells())
        assert [] == launches.examined
        attempt["on_hello"](*hello(1))
        seen.append(launches.cells())
        attempt["on_cell"](cell("symm"))
        return Finished(code=0)

    launches = Launches(tmp_path, monkeypatch, script)
    assert ExitCode.OK == launches.run.execute()
    assert [[], [("none", 0)]] == seen
    assert [("none", 0), ("symm", 0)] == launches.cells()
    (environment,) = launches.folder.environments.values()
    assert {environment.environment_id} == {record.environment_id for record in launches.folder.records}
    assert {"0", "1"} == set(environment.ranks)
    assert (FINDING,) == environment.findings
    assert [str(FINDING)] == launches.watcher.warnings


def test_early_cells_keep_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""

    def script(attempt: dict[str, Any]) -> Finished:
        attempt["on_cell"](cell("symm"))
        attempt["on_hello"](*hello(1))
        attempt["on_cell"](cell("none"))
        attempt["on_hello"](*hello(0))
        return Finished(code=0)

    launches = Launches(tmp_path, monkeypatch, script)
    launches.run.execute()
    assert [("symm", 0), ("none", 0)] == launches.cells()


def test_an_early_cell_of_a_failed_attempt_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the hello of every set it has no environment, so it never counts: the next attempt runs it."""
    live: list[Any] = []

    def first(attempt: dict[str, Any]) -> Failure:
        attempt["on_hello"](*hello(0))
        attempt["on_cell"](cell("none"))
        return failed(set_id=1, arm=1)

    def second(attempt: dict[str, Any]) -> Finished:
        live.append(attempt["live"])
        attempt["on_hello"](*hello(0))
        assert [] == launches.cells()
        attempt["on_cell"](cell("none"))
        return Finished(code=0)

    launches = Launches(tmp_path, monkeypatch, first, second)
    launches.run.execute()
    assert [[(0, ["none"])]] == live
    assert [("none", 1)] == launches.cells()
    assert [("symm", "error")] == [(r.arm, r.status) for r in launches.folder.records if r.status != "ok"]


def test_a_record_counts_its_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the timed blocks of all clocks: two blocks of three intervals of two operations."""

    def script(attempt: dict[str, Any]) -> Finished:
        for set_id in (0, 1):
            attempt["on_hello"](*hello(set_id))
        attempt["on_cell"](cell("none"))
        attempt["on_cell"](cell("symm"))
        return Finished(code=0)

    launches = Launches(tmp_path, monkeypatch, script)
    launches.run.execute()
    for record in launches.folder.records:
        assert record.execution is not None
        assert 12 == record.execution.num_iterations
    assert [0, 1] == [record.execution.set_id for record in launches.folder.records if record.execution]


def test_later_launches_run_what_earlier_ones_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples and k that a folder's records show are given to the ranks, by case, arm and clock."""
    given: list[dict[Any, Any]] = []

    def script(attempt: dict[str, Any]) -> Finished:
        given.append(dict(attempt["counts"]))
        for set_id in (0, 1):
            attempt["on_hello"](*hello(set_id))
        for arm in ("none", "symm"):
            attempt["on_cell"](cell(arm))
        return Finished(code=0)

    launches = Launches(tmp_path, monkeypatch, script, script)
    launches.run.execute()
    launches.run.execute()
    assert given[0] == {}
    assert given[1] == {(0, arm, "host"): (3, 2) for arm in ("none", "symm")}
