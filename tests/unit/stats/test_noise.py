"""Noise floors of hand-worked A/A pairs."""

import math

import pytest

from gtpbench.stats.noise import class_noise_floor, noise_floor


def test_floor_of_equal_magnitudes():
    """Three pairs at +1 %, three at -1 %: |median| is 0 in 31 % of resamples, else 1 %, the bound."""
    step = math.log(1.01)
    assert noise_floor([step, -step] * 3) == pytest.approx(0.01)


def test_floor_is_the_bound_of_95_percent():
    """Of 1 ... 9 %, mixed in order, the median of a resample is at most 7 % in 97.0 % of cases and 6 % in 85.5 %."""
    assert noise_floor([math.log1p(i / 100) for i in (4, 9, 1, 6, 2, 8, 3, 7, 5)]) == pytest.approx(0.07)


def test_floor_without_noise_is_zero():
    """Identical pairs have the floor 0."""
    assert noise_floor([0.0] * 12) == 0


def test_floor_sees_a_bias():
    """Pairs that all lie at +2 % have the floor 2 %: what always differs is no change either."""
    assert noise_floor([math.log(1.02)] * 8) == pytest.approx(0.02)


def test_floor_ignores_the_sign():
    """Which arm of the same thing came first does not matter."""
    values = [0.01, -0.004, 0.002, 0.007, -0.001, 0.003]
    assert noise_floor(values) == noise_floor([-v for v in values])


def test_class_floor_is_the_ninetieth_percentile():
    """Of floors 0 ... 10 % the class's is 9 %."""
    assert class_noise_floor([i / 100 for i in range(11)]) == pytest.approx(0.09)
    with pytest.raises(ValueError, match="at least one cell"):
        class_noise_floor([])
