"""Detectable shifts against formulas and the figures of the design's simulation."""

import math
from statistics import NormalDist

import pytest

from gtpbench.stats.power import detectable_shift, minimum_detectable_ratio


@pytest.mark.parametrize(("num_units", "alpha"), [(1, 0.5), (5, 0.05), (6, 0.02), (7, 0.01)])
def test_when_all_values_must_agree(num_units, alpha):
    """Where only n values above 0 reject, the power is Phi(c)^n, so c = Phi^-1(0.9^(1/n))."""
    expected = NormalDist().inv_cdf(0.9 ** (1 / num_units))
    assert detectable_shift(num_units, alpha=alpha) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(("num_units", "alpha"), [(20, 0.05), (25, 0.025), (30, 0.05)])
def test_many_values_approach_the_asymptotic_formula(num_units, alpha):
    """(z_alpha + z_power) sqrt(pi / (3 n)): the signed-rank test has the efficiency 3 / pi of the mean."""
    normal = NormalDist()
    expected = (normal.inv_cdf(1 - alpha) + normal.inv_cdf(0.9)) * math.sqrt(math.pi / (3 * num_units))
    assert detectable_shift(num_units, alpha=alpha) == pytest.approx(expected, rel=0.08)


def test_simulation_and_formula_meet():
    """From 30 to 31 units, where the formula takes over, the shift falls by some percent, not more."""
    before, after = detectable_shift(30, alpha=0.05), detectable_shift(31, alpha=0.05)
    assert 0.92 * before < after < before


def test_twelve_pairs_at_one_percent_noise():
    """12 pairs with 1 % noise find a change of about 0.9 % (0.86 % by the asymptotic formula) beyond the margin."""
    ratio = minimum_detectable_ratio(deviation=0.01, num_units=12, margin=0.0, alpha=0.05)
    assert 1.0086 <= ratio <= 1.0100
    with_margin = minimum_detectable_ratio(deviation=0.01, num_units=12, margin=0.03, alpha=0.05)
    assert with_margin == pytest.approx(1.03 * ratio)


def test_design_simulation_block_pairs():
    """10 block pairs found 1 % in 92 to 100 % of runs at two-sided 5 %, so 1 % is detectable there.

    1 % jitter over 20 iterations and drift of 1 % with correlation 0.9 give differences with a deviation of 0.6 %.
    """
    assert minimum_detectable_ratio(deviation=0.006, num_units=10, margin=0.0, alpha=0.025) < 1.01


def test_design_simulation_launch_pairs():
    """6 launch pairs, launch offsets of 1 % an arm and block noise 0.5 %, found 3 % in 87 %: the 87 % shift is 3 %."""
    deviation = math.hypot(0.01 * math.sqrt(2), 0.005)
    ratio = minimum_detectable_ratio(deviation=deviation, num_units=6, margin=0.0, alpha=0.025, power=0.87)
    assert ratio == pytest.approx(1.03, abs=0.002)


def test_more_pairs_find_less():
    """The detectable shift falls with the number of units and rises with the power."""
    shifts = [detectable_shift(n, alpha=0.05) for n in (6, 9, 12, 20, 30, 60)]
    assert shifts == sorted(shifts, reverse=True)
    assert detectable_shift(12, alpha=0.05, power=0.8) < detectable_shift(12, alpha=0.05, power=0.9)


def test_too_few_units_find_nothing():
    """2^-n above alpha: no ratio, however large, can be found."""
    assert detectable_shift(4, alpha=0.05) is None
    assert minimum_detectable_ratio(deviation=0.01, num_units=4, margin=0.03, alpha=0.05) is None
    assert detectable_shift(0, alpha=0.05) is None


def test_without_spread_only_the_margin_counts():
    """Differences that do not vary are found as soon as they pass the margin."""
    assert minimum_detectable_ratio(deviation=0.0, num_units=8, margin=0.03, alpha=0.05) == 1.03
