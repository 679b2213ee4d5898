"""The noise floor: how far two runs of the same thing lie apart, from A/A pairs."""

import math
from typing import TYPE_CHECKING

import numpy as np

from gtpbench.stats.bootstrap import bootstrap_medians

if TYPE_CHECKING:
    from collections.abc import Sequence


def noise_floor(log_ratios: "Sequence[float]") -> float:
    """Upper 95 % bound of the change that A/A pairs show, as a fraction (0.004 = 0.4 %).

    exp(q) - 1, q the 95 % point of |median d| over bootstrap resamples of d.

    Args:
        log_ratios: d = log(second arm / first arm), one per pair of the same arm; one per launch pair where there are
            enough launches. Pairs must alternate as compared arms do, or the floor measures the order.

    Raises:
        ValueError: no pairs.
    """
    return math.expm1(float(np.quantile(np.abs(bootstrap_medians(log_ratios)), 0.95)))


def class_noise_floor(floors: "Sequence[float]") -> float:
    """Floor of a class of cells: the 90 % point of its cells' floors.

    Raises:
        ValueError: no cells.
    """
    if not floors:
        raise ValueError("a class needs at least one cell")
    return float(np.quantile(floors, 0.90))
