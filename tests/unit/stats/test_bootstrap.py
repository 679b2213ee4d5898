"""The bootstrap of the median against its exact distribution."""

import math

import numpy as np
import pytest

from gtpbench.stats import bootstrap
from gtpbench.stats.bootstrap import NUM_RESAMPLES, bootstrap_medians, percentile_interval, seed_of

VALUES = [10, 27, 31, 40, 46, 50, 52, 104, 146]


def _efron(num_values: int) -> list[float]:
    """P(the median of a resample is the i-th smallest), n odd: at most half of the draws below, Efron (1979)."""
    half = (num_values - 1) // 2

    def at_most(share: float) -> float:
        return sum(
            math.comb(num_values, draws) * share**draws * (1 - share) ** (num_values - draws)
            for draws in range(half + 1)
        )

    return [at_most(i / num_values) - at_most((i + 1) / num_values) for i in range(num_values)]


def test_frequencies_are_efrons():
    """Every value is the median of its exact share of resamples, within four standard errors."""
    medians = bootstrap_medians(VALUES)
    for value, share in zip(VALUES, _efron(len(VALUES)), strict=True):
        error = math.sqrt(share * (1 - share) / NUM_RESAMPLES)
        assert np.mean(medians == value) == pytest.approx(share, abs=4 * error + 1e-12)


def test_standard_error_of_the_median():
    """The spread of the resampled medians is that of the exact distribution."""
    exact = _efron(len(VALUES))
    mean = sum(v * p for v, p in zip(VALUES, exact, strict=True))
    deviation = math.sqrt(sum((v - mean) ** 2 * p for v, p in zip(VALUES, exact, strict=True)))
    assert float(np.std(bootstrap_medians(VALUES))) == pytest.approx(deviation, rel=0.05)


def test_percentiles_of_a_line():
    """Of 0 ... 1000 the 90 % interval is 50 to 950, the 95 % one 25 to 975."""
    line = np.arange(1001.0)
    assert percentile_interval(line, confidence=0.90) == pytest.approx((50, 950))
    assert percentile_interval(line, confidence=0.95) == pytest.approx((25, 975))


def test_interval_of_five_spans_their_range():
    """The extreme of 5 values is the median of 5.8 % of resamples a side, so the 95 % interval is the whole range."""
    assert percentile_interval(bootstrap_medians([3, 1, 5, 2, 4]), confidence=0.95) == (1, 5)


def test_same_data_same_interval():
    """The seed comes from the data: equal data give equal resamples, other data others."""
    assert (bootstrap_medians(VALUES) == bootstrap_medians(VALUES)).all()
    assert seed_of(VALUES) != seed_of([*VALUES[:-1], 147])


def test_opposite_signs_give_opposite_medians():
    """Negating all values negates every resampled median exactly."""
    mixed = [0.3, -0.1, 0.05, -0.2, 0.11, 0.4]
    assert (bootstrap_medians(mixed) == -bootstrap_medians([-v for v in mixed])).all()


def test_chunks_do_not_show(monkeypatch):
    """Bounding the memory changes no resample."""
    whole = bootstrap_medians(VALUES)
    monkeypatch.setattr(bootstrap, "_VALUES_AT_ONCE", 1000)
    assert (bootstrap_medians(VALUES) == whole).all()


def test_ties_stay_defined():
    """Equal values give an interval of no width, not NaN."""
    assert percentile_interval(bootstrap_medians([2.0] * 8), confidence=0.95) == (2.0, 2.0)


def test_nothing_has_no_bootstrap():
    """No values are an error."""
    with pytest.raises(ValueError, match="at least one"):
        bootstrap_medians([])
