"""The signed-rank test against published values, tables and enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import wilcoxon

from gtpbench.stats.signed_rank import (
    EXACT_MAX_N,
    critical_rank_sum,
    doubled_ranks,
    null_distribution,
    signed_rank_p,
    smallest_p,
)

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Darwin's maize, crossed minus self-fertilised, eighths of an inch (Fisher, The Design of Experiments, 1935)."""
DEPRESSION_BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
DEPRESSION_AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
"""Hamilton scores (Hollander & Wolfe, 1973, p. 29), the example of R's `wilcox.test`."""
CRITICAL = {
    0.05: {5: 0, 6: 2, 7: 3, 8: 5, 9: 8, 10: 10, 11: 13, 12: 17, 13: 21, 14: 25, 15: 30, 16: 35, 17: 41, 18: 47,
           19: 53, 20: 60, 21: 67, 22: 75, 23: 83, 24: 91, 25: 100},
    0.025: {6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13, 13: 17, 14: 21, 15: 25, 16: 29, 17: 34, 18: 40, 19: 46,
            20: 52, 21: 58, 22: 65, 23: 73, 24: 81, 25: 89},
}  # fmt: skip
"""Published one-sided critical values of T = the smaller rank sum: significant at or below."""


def test_darwins_maize():
    """T = 24 of 15 pairs: two-sided p 0.04126 (the example of SciPy's manual)."""
    assert signed_rank_p(DARWIN, alternative="two-sided") == pytest.approx(0.041259765625, abs=1e-15)


def test_hollander_and_wolfe():
    """V = 40 of 9 pairs: one-sided p 10 / 512 = 0.01953, as R prints it."""
    differences = [x - y for x, y in zip(DEPRESSION_BEFORE, DEPRESSION_AFTER, strict=True)]
    assert signed_rank_p(differences, alternative="greater") == 10 / 512


@pytest.mark.parametrize(("alpha", "num_values"), [(a, n) for a, table in CRITICAL.items() for n in table])
def test_table_of_critical_values(alpha, num_values):
    """T at the tabled value is significant, one more is not; W+ = n (n + 1) / 2 - T."""
    total = num_values * (num_values + 1) // 2
    assert critical_rank_sum(num_values, alpha=alpha) == total - CRITICAL[alpha][num_values]


@pytest.mark.parametrize(("num_values", "alpha"), [(4, 0.05), (5, 0.025), (1, 0.4)])
def test_too_few_values_have_no_critical_sum(num_values, alpha):
    """2^-n above alpha: no outcome is significant."""
    assert critical_rank_sum(num_values, alpha=alpha) is None


@pytest.mark.parametrize("num_values", [1, 5, 6, 12])
def test_all_on_one_side(num_values):
    """n values above 0 have p = 2^-n (1/32 for five), the other side 1, two-sided 2^(1-n)."""
    values = [0.1 * (i + 1) for i in range(num_values)]
    assert signed_rank_p(values, alternative="greater") == 2.0**-num_values == smallest_p(num_values)
    assert signed_rank_p(values, alternative="less") == 1.0
    assert signed_rank_p(values, alternative="two-sided") == 2.0 ** (1 - num_values)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_nothing_differs(alternative):
    """All differences 0, or none given: p is 1."""
    assert signed_rank_p([0.0] * 12, alternative=alternative) == 1.0
    assert signed_rank_p([], alternative=alternative) == 1.0


def test_zeros_are_left_out():
    """Zeros change nothing (Wilcoxon's rule)."""
    assert signed_rank_p([0.0, 1, 0, 2, 3, 0], alternative="greater") == 1 / 8


def test_equal_magnitudes_are_a_sign_test():
    """With all magnitudes tied, 10 of 12 above 0 has the binomial tail 79 / 4096."""
    assert signed_rank_p([0.03] * 10 + [-0.03] * 2, alternative="greater") == 79 / 4096


def test_rounding_errors_are_ties():
    """0.1 + 0.2 and 0.3 are one magnitude, and a difference of 1e-17 is none."""
    assert signed_rank_p([0.1 + 0.2, -0.3, 1e-17], alternative="greater") == 3 / 4


@pytest.mark.parametrize(
    "values", [[1, 1, -1], [1, -2, 2, 3, 3, 3], [-1, -1, 2, 2, 2, -3, 4, 5, 5], [5, 5, -5, 2, -2, 7, 7, 7, 1, 1]]
)
def test_ties_against_enumeration(values):
    """With ties p is the share of all 2^n sign patterns whose rank sum is at least the observed one."""
    ranks = [sum(abs(y) < abs(x) for y in values) + (sum(abs(y) == abs(x) for y in values) + 1) / 2 for x in values]
    observed = sum(rank for rank, x in zip(ranks, values, strict=True) if x > 0)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=len(values))]
    greater = sum(s >= observed for s in sums) / len(sums)
    less = sum(s <= observed for s in sums) / len(sums)
    assert signed_rank_p(values, alternative="greater") == pytest.approx(greater, abs=1e-15)
    assert signed_rank_p(values, alternative="less") == pytest.approx(less, abs=1e-15)
    assert signed_rank_p(values, alternative="two-sided") == pytest.approx(min(1, 2 * min(greater, less)), abs=1e-15)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("num_values", [7, 25, 40])
def test_scipy_agrees_without_ties(alternative, num_values):
    """SciPy's exact distribution, valid without ties, gives the same p."""
    values = np.random.default_rng(num_values).normal(0.2, 1.0, num_values)
    expected = wilcoxon(values, alternative=alternative, method="exact").pvalue
    assert signed_rank_p(values.tolist(), alternative=alternative) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_many_values_use_the_normal_approximation(alternative):
    """Above the exact limit, tied values too, p follows SciPy's approximation with continuity correction."""
    values = np.round(np.random.default_rng(3).normal(0.1, 1.0, EXACT_MAX_N + 50), 1)
    values = values[values != 0]
    assert len(values) > EXACT_MAX_N
    expected = wilcoxon(values, alternative=alternative, method="asymptotic", correction=False).pvalue
    assert signed_rank_p(values.tolist(), alternative=alternative) == pytest.approx(float(expected), rel=0.01)


def test_exact_and_approximate_meet():
    """At the limit the exact p lies within 0.001 of the approximation."""
    values = np.random.default_rng(5).normal(0.1, 1.0, EXACT_MAX_N)
    expected = wilcoxon(values, alternative="greater", method="asymptotic", correction=True).pvalue
    assert signed_rank_p(values.tolist(), alternative="greater") == pytest.approx(float(expected), abs=0.001)


def test_distribution_of_three_ranks():
    """Ranks 1 2 3: of eight sign patterns two give the sum 3, and one each of 0 1 2 4 5 6."""
    assert [p * 8 for p in null_distribution((2, 4, 6))[::2]] == [1, 1, 1, 2, 1, 1, 1]
    assert doubled_ranks(np.array([3.0, 1, 1, 7])).tolist() == [6, 3, 3, 8]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_only_finite_differences(value):
    """A difference that is no number is refused."""
    with pytest.raises(ValueError, match="finite"):
        signed_rank_p([1.0, value], alternative="greater")
