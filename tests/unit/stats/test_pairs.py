"""Log ratios of paired blocks, and the pair that two records make."""

import math

import pytest

from gtpbench.record.model import Execution, Record
from gtpbench.stats.pairs import PairedLaunch, block_log_ratios, pair_records, unit_of, unit_values


def test_ratio_of_block_medians(make_samples):
    """Medians of the rank maximum 20 and 22, then 30 and 27: log 1.1 and log 0.9."""
    pair = PairedLaunch(
        baseline=make_samples([[[20, 10, 21], [30, 30, 1]], [[1, 2, 3], [5, 5, 5]]]),
        candidate=make_samples([[[1, 1, 1], [27, 27, 99]], [[22, 22, 22], [1, 1, 1]]]),
        baseline_first=[True, False],
    )
    assert block_log_ratios(pair, launch=0) == pytest.approx([math.log(1.1), math.log(0.9)])


def test_unit_is_the_launch_from_six_on():
    """With six launches each gives the median of its d; with five every d stands for itself."""
    launches = [[0.1, 0.2, 0.6], [0.0, 0.4, 0.2]]
    assert unit_of(5) == "block"
    assert unit_of(6) == "launch"
    assert unit_values(launches * 3) == pytest.approx([0.2, 0.2] * 3)
    assert unit_values(launches) == [0.1, 0.2, 0.6, 0.0, 0.4, 0.2]


@pytest.mark.parametrize("value", [0.0, -3.0, float("nan")])
@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_times_must_be_positive(make_samples, arm, value):
    """A time of 0, below, or none at all is refused with launch, arm, rank, block and iteration."""
    arms = {"baseline": make_samples([[[1, 1], [1, 1]]] * 2), "candidate": make_samples([[[1, 1], [1, 1]]] * 2)}
    arms[arm] = make_samples([[[1, 1], [1, 1]], [[1, 1], [value, 1]]])
    with pytest.raises(ValueError, match=f"launch 4, {arm}, rank 1, block 1, iteration 0: .* given {value} us"):
        block_log_ratios(PairedLaunch(**arms, baseline_first=[True, False]), launch=4)


def test_arms_must_agree(make_samples):
    """Different clocks, k, numbers of blocks or a block order of another length are refused."""
    one = make_samples([[[1]]])
    for other in (make_samples([[[1]]], clock="stream"), make_samples([[[1]]], k=2)):
        with pytest.raises(ValueError, match="launch 0: arms need one clock and one k"):
            block_log_ratios(PairedLaunch(baseline=one, candidate=other, baseline_first=[True]), launch=0)
    for other, order in ((make_samples([[[1], [1]]]), [True]), (one, [True, False])):
        with pytest.raises(ValueError, match="one number of rounds"):
            block_log_ratios(PairedLaunch(baseline=one, candidate=other, baseline_first=order), launch=0)


def _record(
    samples, *, arm, launch=0, attempt=0, order=(("a", "b", "c"), ("c", "b", "a")), case_id="case", series="step"
):
    """A record of which only what pairing reads is filled in."""
    execution = Execution(
        run_id="run",
        attempt=attempt,
        set_id=0,
        seed=0,
        block_order=order,
        case_position=0,
        group_ranks=(0,),
        num_iterations=2,
    )
    return Record.model_construct(
        case_id=case_id, arm=arm, launch=launch, samples={series: samples}, execution=execution
    )


def test_order_of_a_pair_comes_from_the_rounds(make_samples):
    """Among three arms, who of the two went first is read from each round."""
    samples = make_samples([[[1], [1]]])
    pair = pair_records(_record(samples, arm="a"), _record(samples, arm="c"), series="step")
    assert list(pair.baseline_first) == [True, False]
    assert pair.baseline is samples


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"launch": 1}, r"differ, given \('run', 0, 0\) and \('run', 1, 0\)"),
        ({"attempt": 1}, r"differ, given \('run', 0, 0\) and \('run', 0, 1\)"),
        ({"case_id": "other"}, "the candidate is of case other"),
        ({"order": (("a", "b"),)}, "different block orders"),
        ({"series": "stall"}, "b has no samples named step"),
    ],
)
def test_records_must_belong_together(make_samples, changes, message):
    """Records of other launches, cases or orders, or without the series, make no pair."""
    samples = make_samples([[[1], [1]]])
    with pytest.raises(ValueError, match=message):
        pair_records(_record(samples, arm="a"), _record(samples, arm="b", **changes), series="step")


def test_an_arm_missing_from_a_round_makes_no_pair(make_samples):
    """An arm that the block order does not name cannot be placed."""
    samples = make_samples([[[1], [1]]])
    with pytest.raises(ValueError, match="z did not run in every round"):
        pair_records(_record(samples, arm="a"), _record(samples, arm="z"), series="step")


def test_a_case_that_was_not_started_makes_no_pair(make_samples):
    """A record without execution has no place in a launch."""
    record = _record(make_samples([[[1], [1]]]), arm="a")
    with pytest.raises(ValueError, match="not executed"):
        pair_records(record, record.model_copy(update={"execution": None}), series="step")
