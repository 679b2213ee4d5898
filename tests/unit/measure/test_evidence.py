"""What a rank shows of the kernels in the objects it timed."""

import time

import pytest

from gtpbench.errors import StageTimeout
from gtpbench.measure.clocks import CallClock, GraphClock, TimedClock
from gtpbench.measure.evidence import kernel_evidence
from gtpbench.record.model import Clock, KernelRow, RankEvidence
from tests.unit.measure.scripted import ScriptedBackend

COUNTERS = {"windows": 2, "null_windows": 0}
GRAPH = RankEvidence(
    rank=1,
    source="graph_nodes",
    clock="graph",
    calls=4,
    kernels=(KernelRow(name="_Z21ncclDevKernel_AllGather", grid=16, count=4),),
    counters=COUNTERS,
)
STREAM = RankEvidence(
    rank=1,
    source="cupti",
    clock="stream",
    calls=6,
    kernels=(
        KernelRow(name="ncclDevKernel_AllGather", grid=16, count=4),
        KernelRow(name="Memcpy DtoD (Device -> Device)", kind="memcpy", grid=None, count=2),
    ),
    counters=COUNTERS,
)


def _clocks(backend: ScriptedBackend, *names: Clock) -> list[TimedClock]:
    """The graph with four operations, calls with intervals of six."""
    made: list[TimedClock] = []
    for name in names:
        shared = {"queue": None, "epoch_ns": time.perf_counter_ns()}
        clock: TimedClock = (
            GraphClock(backend, backend.step, **shared)  # type: ignore[arg-type]
            if name == "graph"
            else CallClock(backend, backend.step, name=name, **shared)  # type: ignore[arg-type]
        )
        clock.prepare(4 if name == "graph" else 6)
        made.append(clock)
    return made


def _evidence(backend: ScriptedBackend, *names: Clock) -> tuple[RankEvidence, ...]:
    return kernel_evidence(_clocks(backend, *names), rank=1, counters=COUNTERS)


def test_each_clock_of_a_device_has_a_piece() -> None:
    """The nodes of the timed graph, and what ran when the stream's operations were called again."""
    assert (GRAPH, STREAM) == _evidence(ScriptedBackend(), "graph", "stream")
    assert (GRAPH,) == _evidence(ScriptedBackend(), "graph")
    assert (STREAM,) == _evidence(ScriptedBackend(), "stream")


def test_the_hosts_clock_shows_no_kernels() -> None:
    """Nothing is run again for it."""
    backend = ScriptedBackend()
    assert () == _evidence(backend, "host")
    assert [] == backend.log


@pytest.mark.parametrize(("refused", "kept"), [("observe", STREAM), ("trace", GRAPH)])
def test_why_a_rank_could_not_look_is_kept(refused: str, kept: RankEvidence) -> None:
    """As a piece without kernels, the counters in it all the same; the other clock's piece is whole."""
    backend = ScriptedBackend()
    backend.refuses.add(refused)
    found = _evidence(backend, "graph", "stream")
    (blind,) = [item for item in found if item.error is not None]
    lost = GRAPH if refused == "observe" else STREAM
    assert (f"{refused} needs a package", None, ()) == (blind.error, blind.calls, blind.kernels)
    assert (1, lost.source, lost.clock, COUNTERS) == (blind.rank, blind.source, blind.clock, blind.counters)
    assert kept in found
    assert 2 == len(found)


def test_a_failure_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the backend cannot do is kept as text: a rank that did not come ends the cell."""
    backend = ScriptedBackend()
    clocks = _clocks(backend, "graph", "stream")

    def late(_: object) -> None:
        raise StageTimeout("rank 0 did not come")

    monkeypatch.setattr(backend, "barrier", late)
    with pytest.raises(StageTimeout):
        kernel_evidence(clocks, rank=1, counters=COUNTERS)
