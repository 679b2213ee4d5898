"""Wilcoxon's signed-rank test, exact with ties.

`scipy.stats.wilcoxon(method="exact")` looks a tied statistic up in the distribution without ties, which is not exact;
its own exact way with ties enumerates 2^n signs and ends at n = 13. Here the distribution of the rank sum under all
2^n equally likely sign patterns (Wilcoxon, 1945; Hollander, Wolfe & Chicken, 2014, section 3.1) is convolved rank by
rank over doubled ranks, which are whole numbers with and without ties. Zero differences say nothing about the
direction and are left out (Wilcoxon's own rule); conditional on them the test stays exact.
"""

from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Alternative = Literal["greater", "less", "two-sided"]

EXACT_MAX_N = 200
"""Above it the normal approximation with tie correction serves; its error is below 0.001 there."""
TIE_DECIMALS = 12
"""Differences that agree to this many decimals are tied: rounding errors of log ratios are about 1e-16."""


def signed_rank_p(differences: "Sequence[float]", *, alternative: Alternative) -> float:
    """p value of the hypothesis that `differences` are symmetric about 0; 1 where all of them are 0.

    `greater` asks for values above 0, `less` for values below; `two-sided` doubles the smaller of the two, 1 at most.

    Raises:
        ValueError: a difference is not finite.
    """
    values = np.round(np.asarray(differences, dtype=np.float64), TIE_DECIMALS)
    if not np.isfinite(values).all():
        raise ValueError("the signed-rank test needs finite differences")
    values = values[values != 0.0]
    ranks = doubled_ranks(np.abs(values))
    above = int(ranks[values > 0].sum())
    if alternative == "greater":
        return _upper_tail(ranks, above)
    if alternative == "less":
        return _upper_tail(ranks, int(ranks.sum()) - above)
    return min(1.0, 2.0 * min(_upper_tail(ranks, above), _upper_tail(ranks, int(ranks.sum()) - above)))


def smallest_p(num_values: int) -> float:
    """2^-n: the one-sided p value when all n values lie on one side, the smallest that n values can reach."""
    return 2.0**-num_values


def critical_rank_sum(num_values: int, *, alpha: float) -> int | None:
    """Smallest sum W+ of positive ranks with P(W+ >= it) <= alpha, without ties; None where none is small enough."""
    ranks = tuple(range(2, 2 * num_values + 1, 2))
    tail = np.cumsum(null_distribution(ranks)[::-1])[::-1][::2]
    allowed = np.flatnonzero(tail <= alpha)
    return int(allowed[0]) if allowed.size else None


def doubled_ranks(magnitudes: "NDArray[np.float64]") -> "NDArray[np.int64]":
    """Twice the average rank of each value, smallest first: 2, 4, 6 without ties, 3, 3, 6 with a tie of the first."""
    _, inverse, counts = np.unique(magnitudes, return_inverse=True, return_counts=True)
    doubled: NDArray[np.int64] = 2 * np.cumsum(counts) - counts + 1
    return doubled[inverse]


@lru_cache(maxsize=256)
def null_distribution(ranks: tuple[int, ...]) -> "NDArray[np.float64]":
    """P(sum of the positive ones = s) for s = 0 ... sum(ranks), every rank positive with probability one half.

    Probabilities are whole multiples of 2^-n, so that sums are free of rounding up to n = 52.
    """
    probability = np.zeros(sum(ranks) + 1)
    probability[0] = 1.0
    reach = 0
    for rank in ranks:
        reach += rank
        shifted = probability[: reach - rank + 1].copy()
        probability[rank : reach + 1] += shifted
        probability[: reach + 1] *= 0.5
    probability.flags.writeable = False
    return probability


def _upper_tail(ranks: "NDArray[np.int64]", at_least: int) -> float:
    """P(sum >= at_least) of doubled ranks under random signs."""
    if len(ranks) <= EXACT_MAX_N:
        distribution = null_distribution(tuple(sorted(ranks.tolist())))
        return min(1.0, float(distribution[at_least:].sum()))
    mean, deviation = ranks.sum() / 2.0, float(np.sqrt((ranks.astype(np.float64) ** 2).sum())) / 2.0
    # The sum moves in steps of 2 without ties: half a step is 1.
    return 1.0 - NormalDist().cdf(float(at_least - 1 - mean) / deviation)
