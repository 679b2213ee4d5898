"""Comparisons of hand-made pairs: every outcome, every reason."""

import dataclasses
import math

import pytest

from gtpbench.stats.compare import combined_margin, compare, decide
from gtpbench.stats.pairs import PairedLaunch

NOISE = [0.995, 1.004, 1.001, 0.998, 1.003, 0.999, 1.002, 0.997, 1.005, 0.996, 1.0, 1.001]


def _launches(make_pair, ratio, *, noise=NOISE, blocks=2):
    """One launch for each entry of noise, whose blocks all have its ratio."""
    return [make_pair([ratio * each] * blocks) for each in noise]


@pytest.mark.parametrize(("ratio", "outcome"), [(1.05, "slower"), (0.95, "faster"), (1.0, "same")])
def test_three_clear_outcomes(make_pair, ratio, outcome):
    """12 launches with 0.5 % noise and a margin of 3 %: 5 % either way is found, no change is equivalence."""
    result = compare(_launches(make_pair, ratio), margin=0.03)
    assert (result.outcome, result.reason) == (outcome, None)
    assert result.ratio == pytest.approx(ratio, rel=0.002)
    assert (result.unit, result.num_units, result.num_pairs, result.num_launches) == ("launch", 12, 24, 12)
    assert result.launch_variance_covered
    assert not result.within_one_launch


def test_numbers_of_a_clear_change(make_pair):
    """All 12 launches beyond the margin: p 2^-12 that way and 1 the other; the interval lies within the data."""
    result = compare(_launches(make_pair, 1.05), margin=0.03)
    assert (result.p_slower, result.p_faster, result.smallest_p) == (2.0**-12, 1.0, 2.0**-12)
    assert 1.05 * 0.995 <= result.ci95[0] <= result.ci90[0] <= result.ratio
    assert result.ratio <= result.ci90[1] <= result.ci95[1] <= 1.05 * 1.005
    assert result.baseline_us == 100
    assert result.candidate_us == pytest.approx(105, rel=0.002)
    assert result.log_ratios == pytest.approx([math.log(1.05 * each) for each in NOISE])


def test_margin_is_in_the_null(make_pair):
    """A change of 2 % that is certain is no finding where 3 % counts as none, but one where 1 % does."""
    assert compare(_launches(make_pair, 1.02), margin=0.03).outcome == "same"
    assert compare(_launches(make_pair, 1.02), margin=0.01).outcome == "slower"
    assert compare(_launches(make_pair, 1.03), margin=0.03).outcome == "undecided"


def test_margin_takes_the_largest_of_three():
    """Class margin 3 %, 1.5 x 4 % of noise, 0.5 us of 5 us: 3 %, 6 %, 10 %."""
    assert combined_margin(0.03, baseline_us=100) == 0.03
    assert combined_margin(0.03, baseline_us=100, noise_floor=0.04) == pytest.approx(0.06)
    assert combined_margin(0.03, baseline_us=5, noise_floor=0.04, absolute_floor_us=0.5) == pytest.approx(0.1)
    for wrong in (
        {"baseline_us": 0},
        {"baseline_us": 1, "noise_floor": -1},
        {"baseline_us": 1, "absolute_floor_us": -1},
    ):
        with pytest.raises(ValueError, match="must not be negative"):
            combined_margin(0.03, **wrong)


def test_floors_reach_the_decision(make_pair):
    """A 5 % change is none in a cell of 5 us where half a microsecond does not count."""
    pairs = [make_pair([1.05, 1.05], baseline_us=5.0)] * 8
    assert compare(pairs, margin=0.03).outcome == "slower"
    floored = compare(pairs, margin=0.03, absolute_floor_us=0.5)
    assert floored.outcome == "same"
    assert (floored.margin, floored.class_margin) == (pytest.approx(0.1), 0.03)


def test_one_launch_is_labelled(make_pair):
    """One launch of 10 rounds is tested over its block pairs and says so."""
    result = compare([make_pair([1.1 * each for each in NOISE[:10]])], margin=0.03)
    assert (result.unit, result.num_units, result.num_pairs, result.num_launches) == ("block", 10, 10, 1)
    assert result.within_one_launch
    assert not result.launch_variance_covered
    assert result.outcome == "slower"


def test_few_launches_do_not_cover_their_variance(make_pair):
    """Five launches of 4 rounds are 20 block pairs, with the flag that launch variance is not covered."""
    result = compare(_launches(make_pair, 1.1, noise=NOISE[:5], blocks=4), margin=0.03)
    assert (result.unit, result.num_units, result.within_one_launch) == ("block", 20, False)
    assert not result.launch_variance_covered


def test_launches_are_the_unit_from_six(make_pair):
    """The value of a launch is the median of its block pairs: one wild block of three moves nothing."""
    result = compare([make_pair([1.0, 1.1, 9.0], baseline_first=[True, False, order]) for order in [True, False] * 3],
                     margin=0.03)  # fmt: skip
    assert (result.unit, result.num_units, result.num_pairs) == ("launch", 6, 18)
    assert result.ratio == pytest.approx(1.1)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_few_pairs_decide_nothing(make_pair, rounds):
    """Up to four pairs cannot reach 5 % (1/16): no outcome, no interval, nothing detectable, however clear."""
    for ratio in (1.0, 2.0):
        result = compare([make_pair([ratio] * rounds)], margin=0.03)
        assert (result.outcome, result.reason) == ("undecided", "few-pairs")
        assert result.ci95 is None
        assert result.ci90 is None
        assert result.minimum_detectable_ratio is None
        assert result.smallest_p == 2.0**-rounds


def test_five_pairs_reach_alpha(make_pair):
    """Five pairs on one side have p 1/32."""
    result = compare([make_pair([1.2] * 5)], margin=0.03)
    assert (result.outcome, result.p_slower) == ("slower", 1 / 32)
    assert result.ci95 == pytest.approx((1.2, 1.2))


def test_wide_interval(make_pair):
    """Changes of 10 % both ways that follow no order leave the interval across the margins."""
    ratios = [1.1, 1.1, 0.9, 0.9] * 3
    result = compare([make_pair(ratios)], margin=0.03)
    assert (result.outcome, result.reason) == ("undecided", "wide-ci")
    assert result.order_effect_p > 0.05


def test_order_effect_is_named(make_pair):
    """Where the second block is always 10 % slower the arms look equal on average, and the order is the reason."""
    result = compare([make_pair([1.1, 1 / 1.1] * 6)], margin=0.03)
    assert result.order_effect_p == 2.0**-11
    assert result.order_balanced
    assert (result.outcome, result.reason) == ("undecided", "order-effect")


def test_change_is_not_told_from_the_order(make_pair):
    """With the baseline always first, 10 % slower may be the second place: undecided. In balance it is slower."""
    confounded = compare([make_pair([1.1] * 8, baseline_first=[True] * 8)], margin=0.03)
    assert (confounded.outcome, confounded.reason) == ("undecided", "order-effect")
    assert not confounded.order_balanced
    assert compare([make_pair([1.1] * 8)], margin=0.03).outcome == "slower"


def test_odd_rounds_count_as_balanced(make_pair):
    """One arm goes first once more with an odd number of rounds: that is as equal as can be."""
    assert compare([make_pair([1.1] * 7)], margin=0.03).order_balanced


def test_noisy_cell_by_its_floor(make_pair):
    """A floor of 4 % makes the margin 6 %; undecided there is the cell's noise."""
    result = compare([make_pair([1.1, 1.1, 0.9, 0.9] * 3)], margin=0.03, noise_floor=0.04)
    assert (result.outcome, result.reason, result.margin) == ("undecided", "noisy-cell", pytest.approx(0.06))


def test_one_launch_claims_nothing_below_twice_the_floor(make_pair):
    """A change of 7 % with a floor of 4 % is beyond the margin of 6 % but below 8 %: only launches can decide it."""
    one = compare([make_pair([1.07] * 12)], margin=0.03, noise_floor=0.04)
    assert one.p_slower == 2.0**-12
    assert (one.outcome, one.reason) == ("undecided", "noisy-cell")
    assert compare([make_pair([1.09] * 12)], margin=0.03, noise_floor=0.04).outcome == "slower"
    assert compare(_launches(make_pair, 1.07, noise=[1.0] * 12), margin=0.03, noise_floor=0.04).outcome == "slower"


def test_detectable_ratio_follows_the_spread(make_pair):
    """With log ratios of deviation s over 12 launches, 90 % power needs about (1 + margin) exp(0.9 s)."""
    result = compare(_launches(make_pair, 1.0), margin=0.03)
    mean = sum(result.log_ratios) / 12
    deviation = math.sqrt(sum((value - mean) ** 2 for value in result.log_ratios) / 11)
    assert math.log(result.minimum_detectable_ratio / 1.03) / deviation == pytest.approx(0.9, abs=0.06)


def test_decision_uses_adjusted_values(make_pair):
    """Where adjusted p values are given they decide, and the size of the family names what too few pairs are."""
    result = compare(_launches(make_pair, 1.05), margin=0.03)
    adjusted = dataclasses.replace(result, adjusted_p_slower=0.2, adjusted_p_faster=1.0)
    assert decide(adjusted) == ("undecided", "wide-ci")
    assert decide(adjusted, family_size=1000) == ("undecided", "few-pairs")


def test_impossible_input(make_pair, make_samples):
    """No launches, launches of different clocks, and times of 0 are refused."""
    with pytest.raises(ValueError, match="at least one launch"):
        compare([], margin=0.03)
    stream = make_samples([[[1]]], clock="stream")
    with pytest.raises(ValueError, match="one clock, given"):
        compare([make_pair([1.0]), PairedLaunch(baseline=stream, candidate=stream, baseline_first=[True])], margin=0.03)
    with pytest.raises(ValueError, match="launch 1, candidate, rank 0, block 0"):
        compare([make_pair([1.0]), make_pair([0.0])], margin=0.03)
