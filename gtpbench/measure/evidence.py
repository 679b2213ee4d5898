"""What one rank can show of the kernels in the objects it timed."""

from collections.abc import Callable, Iterable, Mapping

from gtpbench.backends.base import KernelSeen
from gtpbench.errors import UnsupportedError
from gtpbench.measure.clocks import CallClock, GraphClock, TimedClock
from gtpbench.record.model import KernelRow, RankEvidence


def kernel_evidence(
    clocks: Iterable[TimedClock], *, rank: int, counters: Mapping[str, int]
) -> tuple[RankEvidence, ...]:
    """One piece of evidence for each clock of a device. Collective: the stream's operations run once more.

    Args:
        counters: states of the rank's process that bear on the path, kept with each piece.
    """
    found = []
    for clock in clocks:
        if isinstance(clock, GraphClock):
            found.append(_look(clock, clock.observe, source="graph_nodes", rank=rank, counters=counters))
        elif isinstance(clock, CallClock) and clock.name == "stream":
            found.append(_look(clock, clock.trace, source="cupti", rank=rank, counters=counters))
    return tuple(found)


def _look(
    clock: TimedClock,
    look: Callable[[], tuple[int, tuple[KernelSeen, ...]]],
    *,
    source: str,
    rank: int,
    counters: Mapping[str, int],
) -> RankEvidence:
    try:
        calls, seen = look()
    except UnsupportedError as error:
        return RankEvidence(rank=rank, source=source, clock=clock.name, error=str(error), counters=dict(counters))
    return RankEvidence(
        rank=rank,
        source=source,
        clock=clock.name,
        calls=calls,
        kernels=tuple(KernelRow(name=row.name, kind=row.kind, grid=row.grid, count=row.count) for row in seen),
        counters=dict(counters),
    )
