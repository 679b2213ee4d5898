"""The orders in which reports name clocks, verdicts and statuses."""

from collections.abc import Iterable

from gtpbench.record.model import Clock, ProofVerdict, Status

PROOF_ORDER: tuple[ProofVerdict, ...] = ("proved", "by_construction", "not_eligible", "unproven", "fell_back")
"""From best to worst."""
WITH_PROOF: tuple[ProofVerdict, ...] = ("proved", "by_construction")
STATUS_ORDER: tuple[Status, ...] = ("ok", "skipped", "timeout", "error", "wrong_result")
"""From best to worst."""
CLOCK_ORDER: tuple[Clock, ...] = ("graph", "host", "stream", "isolated")
"""The first clock that a cell was timed on is its headline."""


def clock_order(clocks: Iterable[Clock]) -> tuple[Clock, ...]:
    """These clocks, the headline first."""
    having = set(clocks)
    return tuple(clock for clock in CLOCK_ORDER if clock in having)
