"""What a comparison could have found: power of the exact signed-rank test for normal differences.

W+ counts the Walsh averages (x_i + x_j) / 2, i <= j, above 0 (Hollander, Wolfe & Chicken, 2014, section 3.2). A shift
of all values by c therefore rejects exactly when the critical one of the sorted averages, plus c, is above 0: the shift
that is found with 90 % probability is a quantile of one order statistic, and one set of draws gives it without search.
"""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from gtpbench.stats.signed_rank import critical_rank_sum, smallest_p

POWER = 0.9
_NUM_DRAWS = 8000
_SIMULATED_MAX_N = 30
_SEED = 20260101


def minimum_detectable_ratio(
    *, deviation: float, num_units: int, margin: float, alpha: float, power: float = POWER
) -> float | None:
    """Smallest true ratio (candidate / baseline, above 1) that is found with probability `power`.

    exp(log(1 + margin) + c s): s the standard deviation of the log ratios, c the standardised shift that the
    one-sided exact signed-rank test of n normal values at `alpha` finds with that probability. The faster direction is
    its reciprocal. Heavy tails enlarge s more than they harm the test, so that this errs on the cautious side.

    Args:
        deviation: standard deviation of the tested log ratios.
        num_units: how many log ratios are tested.
        margin: the margin in the null, as a fraction.
        alpha: one-sided level.
        power: wanted probability.

    Returns:
        The ratio, or None where n values cannot reach `alpha` at all.
    """
    shift = detectable_shift(num_units, alpha=alpha, power=power)
    return None if shift is None else (1.0 + margin) * math.exp(shift * deviation)


@lru_cache(maxsize=64)
def detectable_shift(num_units: int, *, alpha: float, power: float = POWER) -> float | None:
    """Shift, in standard deviations, found with probability `power`; None where 2^-n > alpha.

    Up to n = 30 from a fixed set of draws (standard error about 0.02 / sqrt(n / 12)), above from the asymptotic
    efficiency 3 / pi of the signed-rank test: (z_alpha + z_power) sqrt(pi / (3 n)).
    """
    if num_units < 1 or smallest_p(num_units) > alpha:
        return None
    if num_units > _SIMULATED_MAX_N:
        normal = NormalDist()
        return (normal.inv_cdf(1.0 - alpha) + normal.inv_cdf(power)) * math.sqrt(math.pi / (3.0 * num_units))
    critical = critical_rank_sum(num_units, alpha=alpha)
    assert critical is not None
    first, second = np.triu_indices(num_units)
    uniform = ((np.random.PCG64(_SEED).random_raw(2 * _NUM_DRAWS * num_units) >> np.uint64(11)) + 0.5) * 2.0**-53
    radius, angle = uniform.reshape(2, _NUM_DRAWS, num_units)
    draws = np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * math.pi * angle)
    walsh = (draws[:, first] + draws[:, second]) / 2.0
    position = walsh.shape[1] - critical
    return float(np.quantile(-np.partition(walsh, position, axis=1)[:, position], power))
