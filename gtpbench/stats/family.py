"""Many cells, few false alarms: p values corrected over a family."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from gtpbench.stats.compare import Comparison, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Correction = Literal["benjamini-hochberg", "holm"]


def adjust(p_values: "Sequence[float]") -> list[float]:
    """Benjamini-Hochberg: of the cells at or below alpha, at most that share are expected to be false alarms.

    Adjusted p of the i-th smallest of m: the minimum over j >= i of p_j m / j, 1 at most (Benjamini & Hochberg, 1995).

    Raises:
        ValueError: a p value outside [0, 1].
    """
    values, order = _sorted(p_values)
    scaled = values * len(values) / np.arange(1, len(values) + 1)
    return _unsorted(np.minimum.accumulate(scaled[::-1])[::-1], order)


def holm(p_values: "Sequence[float]") -> list[float]:
    """Holm: the probability of even one false alarm in the family is at most alpha, however the cells depend.

    Adjusted p of the i-th smallest of m: the maximum over j <= i of p_j (m - j + 1), 1 at most (Holm, 1979).

    Raises:
        ValueError: a p value outside [0, 1].
    """
    values, order = _sorted(p_values)
    return _unsorted(np.maximum.accumulate(values * np.arange(len(values), 0, -1)), order)


def decide_family(
    comparisons: "Sequence[Comparison]", *, correction: Correction = "benjamini-hochberg"
) -> list[Comparison]:
    """The same comparisons with adjusted p values, slower and faster apart, and outcomes decided anew from them."""
    method = adjust if correction == "benjamini-hochberg" else holm
    slower = method([comparison.p_slower for comparison in comparisons])
    faster = method([comparison.p_faster for comparison in comparisons])
    decided: list[Comparison] = []
    for comparison, p_slower, p_faster in zip(comparisons, slower, faster, strict=True):
        adjusted = replace(comparison, adjusted_p_slower=p_slower, adjusted_p_faster=p_faster)
        outcome, reason = decide(adjusted, family_size=len(comparisons))
        decided.append(replace(adjusted, outcome=outcome, reason=reason))
    return decided


def _sorted(p_values: "Sequence[float]") -> "tuple[NDArray[np.float64], NDArray[np.intp]]":
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"p values lie between 0 and 1, given {list(p_values)}")
    order = np.argsort(values, kind="stable")
    return values[order], order


def _unsorted(adjusted: "NDArray[np.float64]", order: "NDArray[np.intp]") -> list[float]:
    unsorted = np.empty_like(adjusted)
    unsorted[order] = np.minimum(adjusted, 1.0)
    result: list[float] = unsorted.tolist()
    return result
