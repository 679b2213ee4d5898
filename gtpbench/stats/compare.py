"""Paired comparison of a candidate arm with the baseline: exact test decides, bootstrap interval shows.

d_j = log(candidate / baseline) of paired block medians; the ratio is exp(median d), above 1 = slower. `slower` and
`faster` need a signed-rank test with the margin in the null hypothesis; `same` is equivalence, the 90 % interval inside
the margins (two one-sided tests at 5 %: Schuirmann, 1987), and never the mere absence of a difference.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from gtpbench.stats.bootstrap import bootstrap_medians, percentile_interval
from gtpbench.stats.pairs import MIN_LAUNCHES_AS_UNIT, PairedLaunch, Unit, block_log_ratios, unit_of, unit_values
from gtpbench.stats.power import minimum_detectable_ratio
from gtpbench.stats.signed_rank import signed_rank_p, smallest_p
from gtpbench.stats.summary import rank_max

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gtpbench.record.model import Samples

Outcome = Literal["slower", "faster", "same", "undecided"]
UndecidedReason = Literal["few-pairs", "order-effect", "noisy-cell", "wide-ci"]

MIN_UNITS_FOR_INTERVAL = 5
"""Even the whole range of fewer values covers the median with less than 93 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Candidate against baseline in one case and one series; `family.decide_family` fills the adjusted p values."""

    unit: Unit
    """What one tested value is: a launch (median of its block pairs) or a block pair."""
    num_units: int
    num_pairs: int
    """Block pairs of all launches."""
    num_launches: int
    within_one_launch: bool
    """One launch only: nothing is said about the next start of the processes."""
    launch_variance_covered: bool
    """Whether launches are the unit, so that intervals and tests include what a start decides."""
    log_ratios: tuple[float, ...]
    """[unit], the tested d."""
    baseline_us: float
    """Median over all iterations of all launches of the maximum over ranks, microseconds."""
    candidate_us: float
    ratio: float
    """exp(median d): above 1 the candidate is slower."""
    ci95: tuple[float, float] | None
    """Percentile bootstrap interval of the ratio; None under `MIN_UNITS_FOR_INTERVAL` units."""
    ci90: tuple[float, float] | None
    """The one that equivalence is read from."""
    margin: float
    """Largest change that counts as none, as a fraction: class margin, noise and absolute floor taken together."""
    class_margin: float
    noise_floor: float | None
    p_slower: float
    """One-sided exact signed-rank p of d > log(1 + margin)."""
    p_faster: float
    """The same of d < -log(1 + margin)."""
    smallest_p: float
    """2^-num_units, the smallest p that these units can reach."""
    order_effect_p: float
    """Two-sided signed-rank p of log(second / first) over block pairs."""
    order_balanced: bool
    """Whether each arm went first equally often, up to one pair."""
    minimum_detectable_ratio: float | None
    """Smallest true ratio found with 90 % probability at this spread; None where no ratio could be found."""
    alpha: float
    outcome: Outcome
    reason: UndecidedReason | None
    """Only for `undecided`."""
    adjusted_p_slower: float | None = None
    """Corrected over a family of cells; decides where it is given."""
    adjusted_p_faster: float | None = None


def combined_margin(
    class_margin: float, *, baseline_us: float, noise_floor: float | None = None, absolute_floor_us: float = 0.0
) -> float:
    """max(class margin, 1.5 x noise floor, absolute floor / baseline), as a fraction; the tests use log(1 + it).

    Raises:
        ValueError: one of them is negative, or the baseline is not above 0.
    """
    if min(class_margin, noise_floor or 0.0, absolute_floor_us) < 0 or baseline_us <= 0:
        raise ValueError(
            f"margins must not be negative and the baseline must be above 0, given class margin {class_margin}, noise"
            f" floor {noise_floor}, absolute floor {absolute_floor_us} us, baseline {baseline_us} us"
        )
    return max(class_margin, 1.5 * (noise_floor or 0.0), absolute_floor_us / baseline_us)


def compare(
    pairs: "Sequence[PairedLaunch]",
    *,
    margin: float,
    alpha: float = 0.05,
    noise_floor: float | None = None,
    absolute_floor_us: float = 0.0,
) -> Comparison:
    """Compares two arms of one case.

    Args:
        pairs: one entry per launch.
        margin: the case's class margin as a fraction, for example 0.03 from 1 MiB on and 0.05 below.
        alpha: one-sided level of each direction.
        noise_floor: from A/A pairs (`noise.noise_floor`), as a fraction; None where it was not measured.
        absolute_floor_us: change in microseconds that never counts, for cells near the clock's resolution.

    Raises:
        ValueError: no launches, arms or launches of different clock, k or shape, or a time that is not positive.
    """
    _require_one_clock(pairs)
    by_launch = [block_log_ratios(pair, launch=number) for number, pair in enumerate(pairs)]
    tested = unit_values(by_launch)
    baseline_us = _median_us([pair.baseline for pair in pairs])
    total_margin = combined_margin(
        margin, baseline_us=baseline_us, noise_floor=noise_floor, absolute_floor_us=absolute_floor_us
    )
    log_margin = math.log1p(total_margin)
    ci95, ci90 = _ratio_intervals(tested)
    order_effect_p, order_balanced = _order_effect(pairs, by_launch)
    open_result = Comparison(
        unit=unit_of(len(pairs)),
        num_units=len(tested),
        num_pairs=sum(map(len, by_launch)),
        num_launches=len(pairs),
        within_one_launch=len(pairs) == 1,
        launch_variance_covered=len(pairs) >= MIN_LAUNCHES_AS_UNIT,
        log_ratios=tuple(tested),
        baseline_us=baseline_us,
        candidate_us=_median_us([pair.candidate for pair in pairs]),
        ratio=math.exp(float(np.median(tested))),
        ci95=ci95,
        ci90=ci90,
        margin=total_margin,
        class_margin=margin,
        noise_floor=noise_floor,
        p_slower=signed_rank_p([value - log_margin for value in tested], alternative="greater"),
        p_faster=signed_rank_p([-value - log_margin for value in tested], alternative="greater"),
        smallest_p=smallest_p(len(tested)),
        order_effect_p=order_effect_p,
        order_balanced=order_balanced,
        minimum_detectable_ratio=_detectable(tested, margin=total_margin, alpha=alpha),
        alpha=alpha,
        outcome="undecided",
        reason=None,
    )
    outcome, reason = decide(open_result)
    return replace(open_result, outcome=outcome, reason=reason)


def decide(comparison: Comparison, *, family_size: int = 1) -> tuple[Outcome, UndecidedReason | None]:
    """Outcome and, where undecided, why. Uses adjusted p values where they are given.

    Two findings withdraw what the tests say: a significant order effect where one arm went first more often, since only
    a balanced order adds it to both sides alike (`order-effect`); and a change below twice the noise floor while the
    variance between launches is not covered (`noisy-cell`). What is left undecided is so because the units cannot reach
    alpha in a family of this size (`few-pairs`), because second and first block differ (`order-effect`), because the
    noise floor is wider than the class margin (`noisy-cell`), or because the interval crosses a margin (`wide-ci`).
    """
    claim = _claim(comparison)
    if comparison.order_effect_p <= comparison.alpha and not comparison.order_balanced:
        return "undecided", "order-effect"
    twice_floor = math.log1p(2.0 * (comparison.noise_floor or 0.0))
    one_start_only = not comparison.launch_variance_covered
    if claim in {"slower", "faster"} and one_start_only and abs(math.log(comparison.ratio)) < twice_floor:
        return "undecided", "noisy-cell"
    return claim, (_why_undecided(comparison, family_size=family_size) if claim == "undecided" else None)


def _claim(comparison: Comparison) -> Outcome:
    """What tests and interval say by themselves."""
    slower = comparison.p_slower if comparison.adjusted_p_slower is None else comparison.adjusted_p_slower
    faster = comparison.p_faster if comparison.adjusted_p_faster is None else comparison.adjusted_p_faster
    if min(slower, faster) <= comparison.alpha:
        return "slower" if slower <= faster else "faster"
    if comparison.ci90 is not None and comparison.smallest_p <= comparison.alpha:
        widest = max(abs(math.log(bound)) for bound in comparison.ci90)
        return "same" if widest < math.log1p(comparison.margin) else "undecided"
    return "undecided"


def _why_undecided(comparison: Comparison, *, family_size: int) -> UndecidedReason:
    if comparison.smallest_p * family_size > comparison.alpha:
        return "few-pairs"
    if comparison.order_effect_p <= comparison.alpha:
        return "order-effect"
    return "noisy-cell" if 1.5 * (comparison.noise_floor or 0.0) > comparison.class_margin else "wide-ci"


def _require_one_clock(pairs: "Sequence[PairedLaunch]") -> None:
    if not pairs:
        raise ValueError("a comparison needs at least one launch")
    clocks = sorted({pair.baseline.clock for pair in pairs})
    if len(clocks) > 1:
        raise ValueError(f"launches of one comparison need one clock, given {', '.join(clocks)}")


def _median_us(launches: "Sequence[Samples]") -> float:
    return float(np.median(np.concatenate([block for samples in launches for block in rank_max(samples)])))


def _ratio_intervals(tested: "Sequence[float]") -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
    """Intervals of the ratio at 95 % and at 90 %, from the same resamples."""
    if len(tested) < MIN_UNITS_FOR_INTERVAL:
        return None, None
    medians = bootstrap_medians(tested)
    wide, narrow = (percentile_interval(medians, confidence=confidence) for confidence in (0.95, 0.90))
    return (math.exp(wide[0]), math.exp(wide[1])), (math.exp(narrow[0]), math.exp(narrow[1]))


def _order_effect(pairs: "Sequence[PairedLaunch]", by_launch: "Sequence[Sequence[float]]") -> tuple[float, bool]:
    """Two-sided p of log(second / first) over all block pairs, and whether each arm went first equally often."""
    baseline_first = [first for pair in pairs for first in pair.baseline_first]
    log_ratios = [value for launch in by_launch for value in launch]
    second_over_first = [value if first else -value for value, first in zip(log_ratios, baseline_first, strict=True)]
    balanced = abs(2 * sum(baseline_first) - len(baseline_first)) <= 1
    return signed_rank_p(second_over_first, alternative="two-sided"), balanced


def _detectable(tested: "Sequence[float]", *, margin: float, alpha: float) -> float | None:
    if len(tested) < 2:
        return None
    deviation = float(np.std(tested, ddof=1))
    return minimum_detectable_ratio(deviation=deviation, num_units=len(tested), margin=margin, alpha=alpha)
