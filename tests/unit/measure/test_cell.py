"""One cell on one rank: its stages, its clocks, and the order in which everything is let go of."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gtpbench.measure.calibrate import Counts
from gtpbench.measure.cell import CellRun, RankCell
from gtpbench.record.model import Clock
from gtpbench.workloads.collective import CollectiveWorkload
from tests.unit.measure.kernels import make_arm, make_case
from tests.unit.workloads.fakes import LoggingBackend

MIB = 2**20


class OneRank:
    """A set of one rank."""

    def agree_max(self, value: float) -> float:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [json.loads(json.dumps(value))]


class Cell:
    """A 64 MiB all-gather on a backend that logs; two slots."""

    def __init__(self, clock: str, *, arm: str = "symm", backend: LoggingBackend | None = None) -> None:
        self.backend = backend or LoggingBackend()
        self.stages: list[str] = []
        workload = CollectiveWorkload(
            self.backend,
            make_case("all_gather", 64 * MIB),
            make_arm(arm),
            seed=0,
            cache_bytes=50 * MIB,
            sweep_max_bytes=64 * MIB,
        )
        self.run = CellRun(
            workload,
            OneRank(),  # type: ignore[arg-type]
            self._stage,
            clock=clock,
            epoch_ns=time.perf_counter_ns(),
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.stages.append(name)
        yield

    def finish(self) -> RankCell:
        """What the rank tells."""
        (told,) = self.run.finish(corrupt=False, stage_seconds=lambda: {"blocks": 1.0}, communicator_us=7.0)
        return RankCell.model_validate_json(told)

    def whole(self, counts: dict[Clock, Counts], *, warmup: int = 3) -> RankCell:
        """Prepared, one block, finished."""
        self.run.prepare()
        self.run.block(counts, warmup_iterations=warmup)
        return self.finish()


BOTH: dict[Clock, Counts] = {"graph": Counts(samples=2, k=16), "stream": Counts(samples=5, k=2)}


@pytest.mark.parametrize(
    ("clock", "policy", "expected"),
    [
        ("both", "default", ["registration", "first_collective", "capture", "warmup"]),
        ("both", "zero", ["registration", "copy_engine", "capture", "warmup"]),
        ("graph", "default", ["registration", "first_collective", "capture"]),
        ("stream", "default", ["registration", "first_collective", "warmup"]),
        ("host", "default", ["registration", "first_collective", "warmup"]),
    ],
)
def test_each_step_of_preparing_has_a_stage(clock: str, policy: str, expected: list[str]) -> None:
    """With a timeout of its own: the first collective apart, by copy engines under its own name."""
    cell = Cell(clock, backend=LoggingBackend(cta_policy=policy))
    found = cell.run.prepare()
    assert expected == cell.stages
    assert {"both": ["graph", "stream"]}.get(clock, [clock]) == list(found)


def test_a_cell_goes_through_its_stages() -> None:
    """Blocks, then proof before verification, which writes new data, then teardown."""
    cell = Cell("both")
    cell.whole(BOTH)
    assert ["blocks", "proof", "verify", "teardown"] == cell.stages[4:]


def test_everything_is_let_go_of_in_order() -> None:
    """The graph holds on to buffers, and they to the pool: graph, views, deregistration, memory."""
    cell = Cell("both")
    cell.run.prepare()
    cell.run.block(BOTH, warmup_iterations=3)
    cell.backend.taken()
    cell.finish()
    log = cell.backend.taken()
    assert ["graph gone", *["view gone"] * 4, "deregister window symm", "free window symm"] == log


def test_a_block_runs_every_clock() -> None:
    """A warm-up where there is one, rounded up to whole intervals, then the timed samples: 16 + 32 captured
    operations are two graphs and one, 4 + 10 are called."""
    told = Cell("both").whole(BOTH)
    assert {"graph": 16, "stream": 2} == {name: clock.k for name, clock in told.clocks.items()}
    assert {"graph": 2, "stream": 5} == {name: len(clock.timed.time_us[0]) for name, clock in told.clocks.items()}
    assert {"graph": 1, "stream": 2} == {name: len(clock.warmup.time_us[0]) for name, clock in told.clocks.items()}
    assert {"graph": "previous_replay", "stream": "nothing"} == {n: c.alignment for n, c in told.clocks.items()}
    assert 16 + 32 + 4 + 10 == told.operations
    assert (100.0,) * 5 == told.clocks["stream"].timed.time_us[0]


def test_an_arm_that_goes_on_needs_no_warmup() -> None:
    """None is run and none is told."""
    told = Cell("both").whole(BOTH, warmup=0)
    assert {()} == {clock.warmup.time_us for clock in told.clocks.values()}
    assert 32 + 10 == told.operations


def test_a_longer_graph_of_another_arm_is_captured_once() -> None:
    """Before the arm's first block, and kept for the others; what is told is that capture's time."""
    cell = Cell("graph")
    cell.run.prepare()
    cell.backend.taken()
    for _ in range(3):
        cell.run.block({"graph": Counts(samples=1, k=64)}, warmup_iterations=1)
    assert ["graph gone"] == cell.backend.taken()
    told = cell.finish()
    assert 64 == told.clocks["graph"].k
    assert told.capture_us is not None


@pytest.mark.parametrize(
    ("clock", "k", "resident"),
    [
        ("graph", 1, (True, False)),  # 32 MiB sent, 64 MiB received
        ("graph", 16, (False, False)),  # both slots: 64 and 128 MiB
        ("stream", 1, (False, False)),  # one operation an interval, but the next interval takes the next slot
        ("host", 1, (False, False)),
    ],
)
def test_a_graph_alone_uses_fewer_slots(clock: Clock, k: int, resident: tuple[bool, bool]) -> None:
    """Called operations rotate on from one interval to the next, so that all slots are used."""
    told = Cell(clock).whole({clock: Counts(samples=2, k=k)})
    assert resident == (told.sides["send"].l2_resident, told.sides["recv"].l2_resident)


def test_evidence_is_of_every_clock_of_a_device() -> None:
    """With the states that bear on the path; the host's clock has none, and its cell no capture."""
    told = Cell("both").whole(BOTH)
    assert [("graph_nodes", "graph"), ("cupti", "stream")] == [(item.source, item.clock) for item in told.evidence]
    assert all({"windows": 2, "null_windows": 0} == item.counters for item in told.evidence)
    host = Cell("host").whole({"host": Counts(samples=1, k=1)})
    assert ((), None) == (host.evidence, host.capture_us)


@pytest.mark.parametrize(
    ("arm", "before", "number", "first"),
    [
        ("symm", {"window": 0, "registered": 0}, 2, True),
        ("symm", {"window": 2, "registered": 0}, 2, False),
        ("symm", {"window": 0, "registered": 2}, 2, True),  # the first window, though not the first registration
        ("registered", {"window": 4, "registered": 0}, 2, True),
        ("registered", {"window": 0, "registered": 1}, 2, False),
        ("symm:recv", {"window": 0, "registered": 0}, 1, True),
        ("none", {"window": 0, "registered": 0}, 0, False),
    ],
)
def test_the_first_registration_of_a_kind_is_marked(arm: str, before: dict[str, int], number: int, first: bool) -> None:
    """It sets up more than those that follow in the same process. What is counted is this cell's buffers."""
    cell = Cell("graph", arm=arm)
    cell.backend.registrations.update(before)
    told = cell.whole({"graph": Counts(samples=1, k=16)})
    assert (number, first) == (told.num_registrations, told.first_registration)
    assert 7.0 == told.communicator_us


def test_another_arms_registrations_do_not_count() -> None:
    """It is prepared in the same process before this cell finishes."""
    cell = Cell("graph", arm="symm:recv")
    cell.run.prepare()
    cell.backend.registrations.update({"window": 5, "registered": 2})
    cell.run.block({"graph": Counts(samples=1, k=16)}, warmup_iterations=1)
    told = cell.finish()
    assert (1, True) == (told.num_registrations, told.first_registration)


def test_memory_is_free_before_and_used_afterwards() -> None:
    """Before anything of the cell is allocated, and while its two allocations live."""
    told = Cell("graph").whole({"graph": Counts(samples=1, k=16)})
    assert (1000, 998) == (told.memory.free_before_bytes, told.memory.free_after_bytes)
