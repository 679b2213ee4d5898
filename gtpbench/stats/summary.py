"""What one arm of one case took: order statistics of the maximum over ranks.

The slowest rank decides when a collective is over, so every number starts from the maximum over ranks of each single
iteration; the maximum of per-rank medians would hide stragglers that take turns (Hoefler & Belli, SC'15, rule 10).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gtpbench.record.model import Samples

MIN_SAMPLES_FOR_P99 = 1000
"""Below it the 99th percentile rests on fewer than ten samples and is not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One named series of one Case x Arm over all launches; times in microseconds for one operation."""

    median_us: float
    """The headline: median over all iterations of all launches of the maximum over ranks."""
    min_us: float
    p10_us: float
    p90_us: float
    p99_us: float | None
    """None under `MIN_SAMPLES_FOR_P99` samples."""
    rank_min_median_us: float
    """Median over iterations of the minimum over ranks."""
    spread: float | None
    """Median over iterations of maximum / minimum over ranks; None where that minimum is 0."""
    mean_us: float
    """Mean over iterations and ranks, as nccl-tests reduces by default: for cross-checks, never the headline."""
    num_samples: int
    """Iterations of all blocks and launches, each with all its ranks."""
    num_blocks: int
    num_launches: int
    num_mild_outliers: int
    """Rank maxima 1.5 to 3 interquartile ranges outside the quartiles of their launch; counted, never dropped."""
    num_severe_outliers: int
    """Those more than 3 interquartile ranges outside."""
    overhead_fraction: float
    """Share of the timed blocks that is not the operation: alignment, stamping, launching."""


def rank_max(samples: "Samples") -> list[list[float]]:
    """Maximum over ranks of each iteration, [block][iteration], microseconds.

    Raises:
        ValueError: no samples, or ranks with different numbers of blocks or iterations.
    """
    return [block.max(axis=0).tolist() for block in blocks_of(samples)]


def rank_min(samples: "Samples") -> list[list[float]]:
    """Minimum over ranks of each iteration, [block][iteration], microseconds.

    Raises:
        ValueError: as `rank_max`.
    """
    return [block.min(axis=0).tolist() for block in blocks_of(samples)]


def block_medians(samples: "Samples") -> list[float]:
    """Median over iterations of the maximum over ranks, [block], microseconds.

    Raises:
        ValueError: as `rank_max`.
    """
    return [float(np.median(block.max(axis=0))) for block in blocks_of(samples)]


def summarise(launches: "Sequence[Samples]") -> Summary:
    """Summary of one series; `launches` holds one Samples per launch, all by one clock.

    Runs that were merged may have taken other numbers of operations an interval; times are per operation anyway.

    Quantiles interpolate linearly (Hyndman & Fan, 1996, type 7). Outliers are counted within their launch by Tukey's
    fences (Exploratory Data Analysis, 1977), on both sides.

    Raises:
        ValueError: no launches, different clocks, ragged ranks, or a time that is negative or not finite.
    """
    _require_one_clock(launches)
    maxima: list[NDArray[np.float64]] = []
    minima: list[NDArray[np.float64]] = []
    means: list[NDArray[np.float64]] = []
    num_mild = num_severe = num_blocks = 0
    inside_us = wall_us = 0.0
    for number, samples in enumerate(launches):
        blocks = blocks_of(samples)
        _require_not_negative(blocks, launch=number)
        high = np.concatenate([block.max(axis=0) for block in blocks])
        maxima.append(high)
        minima.append(np.concatenate([block.min(axis=0) for block in blocks]))
        means.append(np.concatenate([block.mean(axis=0) for block in blocks]))
        mild, severe = tukey_outliers(high)
        num_mild, num_severe, num_blocks = num_mild + mild, num_severe + severe, num_blocks + len(blocks)
        inside_us += float(high.sum()) * samples.k
        wall_us += sum(map(max, zip(*samples.block_wall_us, strict=True)))
    high, low = np.concatenate(maxima), np.concatenate(minima)
    p10_us, p90_us, p99_us = np.quantile(high, (0.10, 0.90, 0.99)).tolist()
    return Summary(
        median_us=float(np.median(high)),
        min_us=float(high.min()),
        p10_us=p10_us,
        p90_us=p90_us,
        p99_us=p99_us if high.size >= MIN_SAMPLES_FOR_P99 else None,
        rank_min_median_us=float(np.median(low)),
        spread=float(np.median(high / low)) if low.min() > 0 else None,
        mean_us=float(np.concatenate(means).mean()),
        num_samples=high.size,
        num_blocks=num_blocks,
        num_launches=len(launches),
        num_mild_outliers=num_mild,
        num_severe_outliers=num_severe,
        overhead_fraction=max(0.0, 1.0 - inside_us / wall_us) if wall_us > 0 else 0.0,
    )


def tukey_outliers(values: "NDArray[np.float64]") -> tuple[int, int]:
    """Numbers of mild and of severe outliers: beyond 1.5 and beyond 3 interquartile ranges from the quartiles."""
    lower, upper = np.quantile(values, (0.25, 0.75)).tolist()
    distance = np.maximum(lower - values, values - upper)
    num_severe = int(np.count_nonzero(distance > 3.0 * (upper - lower)))
    return int(np.count_nonzero(distance > 1.5 * (upper - lower))) - num_severe, num_severe


def blocks_of(samples: "Samples") -> "list[NDArray[np.float64]]":
    """`time_us` as one array of shape [rank, iteration] for each block.

    Raises:
        ValueError: as `rank_max`.
    """
    ranks = samples.time_us
    if not ranks or not ranks[0]:
        raise ValueError("samples hold no rank or no block")
    blocks: list[NDArray[np.float64]] = []
    for number in range(max(map(len, ranks))):
        lengths = [len(rank[number]) if number < len(rank) else 0 for rank in ranks]
        if min(lengths) != max(lengths) or not lengths[0]:
            raise ValueError(f"block {number}: every rank needs the same number of iterations, given {lengths}")
        blocks.append(np.array([rank[number] for rank in ranks], dtype=np.float64))
    return blocks


def _require_one_clock(launches: "Sequence[Samples]") -> None:
    if not launches:
        raise ValueError("a summary needs at least one launch")
    clocks = sorted({samples.clock for samples in launches})
    if len(clocks) > 1:
        raise ValueError(f"launches of one summary need one clock, given {', '.join(clocks)}")


def _require_not_negative(blocks: "list[NDArray[np.float64]]", *, launch: int) -> None:
    for number, block in enumerate(blocks):
        wrong = np.argwhere(~(np.isfinite(block) & (block >= 0)))
        if wrong.size:
            rank, iteration = wrong[0].tolist()
            value = block[rank, iteration]
            raise ValueError(f"launch {launch}, rank {rank}, block {number}, iteration {iteration}: {value} us")
