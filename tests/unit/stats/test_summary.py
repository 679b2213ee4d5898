"""Summaries against hand-worked samples."""

import numpy as np
import pytest

from gtpbench.stats.summary import block_medians, rank_max, rank_min, summarise, tukey_outliers

TWO_RANKS = [
    [[10, 12, 11], [20, 10, 30]],
    [[11, 10, 14], [10, 40, 20]],
]


def test_maximum_is_taken_per_iteration(make_samples):
    """The maximum over ranks belongs to one iteration: stragglers that take turns both count."""
    samples = make_samples(TWO_RANKS)
    assert rank_max(samples) == [[11, 12, 14], [20, 40, 30]]
    assert rank_min(samples) == [[10, 10, 11], [10, 10, 20]]
    assert block_medians(samples) == [12, 30]


def test_headline_and_its_neighbours(make_samples):
    """Rank maxima 11 12 14 20 30 40: median 17; linear quantiles at position 0.5 and 4.5 of 0 ... 5; all sum to 198."""
    summary = summarise([make_samples(TWO_RANKS)])
    assert summary.median_us == 17
    assert summary.min_us == 11
    assert summary.p10_us == pytest.approx(11.5)
    assert summary.p90_us == pytest.approx(35)
    assert summary.rank_min_median_us == 10
    assert summary.spread == pytest.approx((14 / 11 + 1.5) / 2)
    assert summary.mean_us == pytest.approx(198 / 12)
    assert (summary.num_samples, summary.num_blocks, summary.num_launches) == (6, 2, 1)


def test_launches_are_pooled(make_samples):
    """Two launches of 1 2 3 and 11 12 13 have the median 7."""
    summary = summarise([make_samples([[[1, 2, 3]]]), make_samples([[[11, 12, 13]]])])
    assert summary.median_us == 7
    assert (summary.num_samples, summary.num_blocks, summary.num_launches) == (6, 2, 2)


def test_p99_needs_a_thousand_samples(make_samples):
    """p99 is missing at 999 samples; of 0 ... 1000 it is 990."""
    assert summarise([make_samples([[list(range(999))]])]).p99_us is None
    assert summarise([make_samples([[list(range(1001))]])]).p99_us == pytest.approx(990)


def test_overhead_is_the_rest_of_the_block(make_samples):
    """Three intervals of 4 x 50 us in a block of 1000 us leave 40 %; more than the block counts as none."""
    assert summarise([make_samples([[[50, 50, 50]]], k=4, wall_us=1000)]).overhead_fraction == pytest.approx(0.4)
    assert summarise([make_samples([[[50, 50, 50]]], k=4, wall_us=500)]).overhead_fraction == 0
    assert summarise([make_samples([[[50]]], wall_us=0)]).overhead_fraction == 0


def test_tukey_counts_both_sides(make_samples):
    """1 ... 9 has quartiles 3 and 7: with the fences at -3, 13 and -9, 19, 14 is mild and 25 severe, and so below."""
    body = [float(value) for value in range(1, 10)] * 50
    summary = summarise([make_samples([[[*body, 14, 25]]])])
    assert (summary.num_mild_outliers, summary.num_severe_outliers) == (1, 1)
    shifted = [value + 20 for value in body]
    summary = summarise([make_samples([[[*shifted, 16, 5]]])])
    assert (summary.num_mild_outliers, summary.num_severe_outliers) == (1, 1)
    assert summary.num_samples == len(body) + 2


def test_constant_times_have_no_outliers(make_samples):
    """Equal values have fences of no width and none beyond them."""
    summary = summarise([make_samples([[[5, 5, 5, 5]]])])
    assert (summary.num_mild_outliers, summary.num_severe_outliers) == (0, 0)


def test_outliers_belong_to_their_launch(make_samples):
    """A launch that is slower as a whole holds no outliers."""
    slow = summarise([make_samples([[[10, 11, 12, 13]]])] * 9 + [make_samples([[[110, 111, 112, 113]]])])
    assert (slow.num_mild_outliers, slow.num_severe_outliers) == (0, 0)


def test_fences_of_an_array():
    """Quartiles 3 and 7, both fences as Tukey gives them; a value on a fence is inside."""
    assert tukey_outliers(np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9])) == (0, 0)
    assert tukey_outliers(np.array([0.0, 0, 0, 0, 4, 4, 4, 4, 10])) == (0, 0)
    assert tukey_outliers(np.array([0.0, 0, 0, 0, 4, 4, 4, 4, 11])) == (1, 0)
    assert tukey_outliers(np.array([0.0, 0, 0, 0, 4, 4, 4, 4, 17])) == (0, 1)


def test_a_stall_of_zero_is_a_time(make_samples):
    """A series may hold zeros (no stall); its spread is then not given."""
    summary = summarise([make_samples([[[0, 1]], [[0, 2]]])])
    assert summary.median_us == 1
    assert summary.spread is None


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_times_name_their_place(make_samples, value):
    """A negative or undefined time is refused with launch, rank, block and iteration."""
    with pytest.raises(ValueError, match="launch 1, rank 1, block 0, iteration 2"):
        summarise([make_samples([[[1, 1, 1]]]), make_samples([[[1, 1, 1]], [[1, 1, value]]])])


def test_launches_must_agree(make_samples):
    """Different clocks never meet in one summary; nothing has no summary."""
    with pytest.raises(ValueError, match="one clock, given graph, stream"):
        summarise([make_samples([[[1]]]), make_samples([[[1]]], clock="stream")])
    with pytest.raises(ValueError, match="at least one launch"):
        summarise([])


def test_merged_launches_may_differ_in_operations_an_interval(make_samples):
    """Times are per operation, so the median of 10 and 20 us is 15 us whatever k was."""
    assert summarise([make_samples([[[10]]], k=1), make_samples([[[20]]], k=4)]).median_us == 15.0


@pytest.mark.parametrize("time_us", [[[[1, 2]], [[1]]], [[[1], [2]], [[1]]], [[[]]]])
def test_ragged_ranks_are_refused(make_samples, time_us):
    """Every rank has the same blocks and iterations, and at least one."""
    with pytest.raises(ValueError, match="same number of iterations"):
        rank_max(make_samples(time_us))


@pytest.mark.parametrize("time_us", [[], [[]]])
def test_empty_samples_are_refused(make_samples, time_us):
    """No rank or no block is an error."""
    with pytest.raises(ValueError, match="no rank or no block"):
        block_medians(make_samples(time_us))
