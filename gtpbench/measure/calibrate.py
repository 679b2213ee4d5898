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
    """What every arm of a case runs in each of its blocks."""

    samples: int
    k: int

    @property
    def iterations(self) -> int:
        """Operations in one block."""
        return self.samples * self.k


def choose_counts(measure: Measure, estimates_us: Mapping[str, float], *, num_cases: int) -> Counts:
    """Counts that use up the case's part of the time budget, or that the user fixed with `iters`.

    Args:
        estimates_us: arm -> microseconds of one operation, maximum over ranks.
        num_cases: cases of the launch, which share the budget evenly.
    """
    if measure.iters is not None:
        return Counts(samples=-(-measure.iters // measure.num_blocks), k=1)
    fastest_us = max(min(estimates_us.values()), 0.01)
    budget_us = measure.time_budget_s * 1e6 / num_cases / measure.num_blocks
    operations = max(1.0, budget_us / sum(estimates_us.values()))
    k = math.ceil(MIN_INTERVAL_US / fastest_us)
    if operations / k > MAX_SAMPLES_PER_BLOCK:
        k = round(operations / MAX_SAMPLES_PER_BLOCK)
    return Counts(samples=max(1, round(operations / k)), k=k)
