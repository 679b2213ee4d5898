"""Iteration counts, fixed before the first timed block and equal for all arms of a case. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gtpbench.scenario.schema import Measure

MIN_INTERVAL_US = 50.0
"""A timed interval is at least this long, so that the clock's resolution and the stamps do not show."""
MAX_SAMPLES_PER_BLOCK = 50
"""Beyond this an interval takes more operations instead, so that records stay small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What every arm of a case runs in each of its blocks, on one clock."""

    samples: int
    k: int

    @property
    def iterations(self) -> int:
        """Operations in one block."""
        return self.samples * self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an arm found out before the first timed block, on one clock."""

    us: float
    """Microseconds of one operation, maximum over ranks."""
    k: int | None = None
    """Operations an interval needs before its start no longer shows; None where only its length counts."""


def choose_counts(
    measure: Measure, estimates: Mapping[str, Estimate], *, num_cases: int, num_clocks: int = 1
) -> Counts:
    """Counts that use up the case's part of the time budget on one clock, or that the user fixed with `iters`.

    Args:
        estimates: by arm.
        num_cases: cases of the launch, which share the budget evenly, as do the clocks of a case.
    """
    needed = [estimate.k for estimate in estimates.values() if estimate.k is not None]
    if measure.iters is not None:
        operations = -(-measure.iters // measure.num_blocks)
        k = max(needed, default=1)
        return Counts(samples=-(-operations // k), k=k)
    times_us = [max(estimate.us, 0.01) for estimate in estimates.values()]
    budget_us = measure.time_budget_s * 1e6 / num_cases / num_clocks / measure.num_blocks
    affordable = max(1.0, budget_us / sum(times_us))
    if needed:
        # A graph is replayed as it was captured: what is left over makes samples, never longer intervals.
        k = max(needed)
        return Counts(samples=min(MAX_SAMPLES_PER_BLOCK, max(1, round(affordable / k))), k=k)
    k = math.ceil(MIN_INTERVAL_US / min(times_us))
    if affordable / k > MAX_SAMPLES_PER_BLOCK:
        k = round(affordable / MAX_SAMPLES_PER_BLOCK)
    return Counts(samples=max(1, round(affordable / k)), k=k)
