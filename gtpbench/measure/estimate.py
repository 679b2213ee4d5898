"""What a clock needs before the first timed block: the time of one operation, and how many make an interval."""

from statistics import median

from gtpbench.measure.calibrate import Estimate
from gtpbench.measure.clocks import GraphClock, TimedClock
from gtpbench.measure.ranks import Ranks

FIRST_CALLS = 3
MIN_US = 2000.0
"""A first estimate shorter than this is repeated with more operations: small operations start cold."""
FIRST_CAPTURE = 16
MAX_CAPTURE = 512
REPLAYS = 10
SETTLED = 0.02
"""A graph is long enough when twice as many operations change the time of one by less than this."""


def estimate(clock: TimedClock, ranks: Ranks, *, fixed_k: int | None) -> Estimate:
    """Warm the clock up and estimate. Collective.

    Args:
        fixed_k: operations in an interval where the workload prescribes them.
    """
    if isinstance(clock, GraphClock):
        return _graph(clock, ranks, fixed_k=fixed_k)
    if fixed_k is not None:
        clock.prepare(fixed_k)
        return Estimate(us=_one(clock, ranks, fixed_k), k=fixed_k)
    _one(clock, ranks, FIRST_CALLS)
    us = _one(clock, ranks, FIRST_CALLS)
    if us * FIRST_CALLS < MIN_US:
        us = _one(clock, ranks, max(FIRST_CALLS, round(MIN_US / max(us, 1.0))))
    return Estimate(us=us)


def _one(clock: TimedClock, ranks: Ranks, k: int) -> float:
    clock.prepare(k)
    return ranks.agree_max(clock.run(1).time_us[0])


def _graph(clock: GraphClock, ranks: Ranks, *, fixed_k: int | None) -> Estimate:
    """Double the captured operations until the median of some replays no longer changes."""
    k = fixed_k or FIRST_CAPTURE
    us = _replayed(clock, ranks, k)
    while fixed_k is None and k < MAX_CAPTURE:
        longer = _replayed(clock, ranks, 2 * k)
        settled = abs(longer - us) < SETTLED * us
        k, us = 2 * k, longer
        if settled:
            break
    return Estimate(us=us, k=k)


def _replayed(clock: GraphClock, ranks: Ranks, k: int) -> float:
    clock.prepare(k)
    clock.run(1)
    return ranks.agree_max(median(clock.run(REPLAYS).time_us))
