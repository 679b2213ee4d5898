"""Statistics: what must not change them, and how often two equal arms look different."""

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpbench.record.model import Samples
from gtpbench.stats.compare import Comparison, compare
from gtpbench.stats.pairs import PairedLaunch
from gtpbench.stats.summary import Summary, block_medians, summarise

Times = list[list[list[float]]]
"""[rank][block][iteration]"""

time_us = st.floats(min_value=0.5, max_value=1e5, allow_nan=False)
factor = st.sampled_from([1e-3, 0.37, 2.0, 1e3])
few = settings(max_examples=40, deadline=None)


def _samples(times: Times, *, wall_us: float = 1e7) -> Samples:
    walls = tuple(tuple(wall_us for _ in rank) for rank in times)
    return Samples(
        clock="graph",
        k=3,
        alignment="device",
        time_us=tuple(tuple(map(tuple, rank)) for rank in times),
        block_start_us=walls,
        block_wall_us=walls,
    )


@st.composite
def arm_times(draw: st.DrawFn, *, blocks: int | None = None) -> Times:
    """1 to 3 ranks, up to 6 blocks of up to 5 iterations."""
    shape = (draw(st.integers(1, 3)), blocks or draw(st.integers(1, 6)), draw(st.integers(1, 5)))
    flat = draw(st.lists(time_us, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    return np.array(flat).reshape(shape).tolist()


@st.composite
def paired_times(draw: st.DrawFn) -> list[tuple[Times, Times]]:
    """Launches of a baseline and a candidate with equal numbers of rounds: one, a few, or enough to be the unit."""
    blocks = draw(st.integers(1, 4))
    arms = arm_times(blocks=blocks)
    return draw(st.sampled_from([1, 3, 6]).flatmap(lambda n: st.lists(st.tuples(arms, arms), min_size=n, max_size=n)))


def _compare(launches: list[tuple[Times, Times]], *, scale: float = 1.0, swap: bool = False) -> Comparison:
    pairs = []
    for ours, theirs in launches:
        first, second = (theirs, ours) if swap else (ours, theirs)
        pairs.append(
            PairedLaunch(
                baseline=_samples((np.array(first) * scale).tolist()),
                candidate=_samples((np.array(second) * scale).tolist()),
                baseline_first=[(block % 2 == 0) != swap for block in range(len(ours[0]))],
            )
        )
    return compare(pairs, margin=0.03)


def _times(summary: Summary) -> list[float]:
    return [summary.median_us, summary.min_us, summary.p10_us, summary.p90_us, summary.rank_min_median_us]


@few
@given(times=arm_times(), seed=st.integers(0, 1000))
def test_order_of_iterations_does_not_matter(times: Times, seed: int) -> None:
    """Shuffling the iterations of a block, on all ranks alike, changes no statistic."""
    shuffled = np.array(times)
    for block in range(shuffled.shape[1]):
        order = list(range(shuffled.shape[2]))
        random.Random(seed + block).shuffle(order)
        shuffled[:, block] = shuffled[:, block][:, order]
    before, after = _samples(times), _samples(shuffled.tolist())
    assert block_medians(before) == block_medians(after)
    ours, theirs = summarise([before]), summarise([after])
    # Sums of floats in another order differ in their last digit.
    assert theirs.overhead_fraction == pytest.approx(ours.overhead_fraction)
    assert theirs.mean_us == pytest.approx(ours.mean_us)
    assert dataclasses.replace(theirs, overhead_fraction=ours.overhead_fraction, mean_us=ours.mean_us) == ours


@few
@given(times=arm_times(), scale=factor)
def test_summary_scales_with_the_unit(times: Times, scale: float) -> None:
    """In another unit every time is multiplied and every ratio and count stays."""
    ours = summarise([_samples(times)])
    theirs = summarise([_samples((np.array(times) * scale).tolist(), wall_us=1e7 * scale)])
    assert _times(theirs) == pytest.approx([value * scale for value in _times(ours)])
    assert theirs.spread == pytest.approx(ours.spread)
    assert theirs.overhead_fraction == pytest.approx(ours.overhead_fraction, abs=1e-9)


@few
@given(launches=paired_times(), scale=factor)
def test_comparison_does_not_know_the_unit(launches: list[tuple[Times, Times]], scale: float) -> None:
    """In another unit the ratio, its interval, every p and the outcome stay."""
    ours, theirs = _compare(launches), _compare(launches, scale=scale)
    assert theirs.ratio == pytest.approx(ours.ratio)
    assert theirs.ci95 == (None if ours.ci95 is None else pytest.approx(ours.ci95))
    for name in ("p_slower", "p_faster", "order_effect_p"):
        assert getattr(theirs, name) == pytest.approx(getattr(ours, name))
    assert (theirs.outcome, theirs.reason) == (ours.outcome, ours.reason)
    assert theirs.baseline_us == pytest.approx(ours.baseline_us * scale)


@few
@given(launches=paired_times())
def test_swapped_arms_mirror_the_comparison(launches: list[tuple[Times, Times]]) -> None:
    """Candidate and baseline exchanged: the ratio and its interval invert, p values and outcomes trade places."""
    ours, theirs = _compare(launches), _compare(launches, swap=True)
    assert theirs.ratio == pytest.approx(1 / ours.ratio)
    assert (theirs.p_slower, theirs.p_faster) == pytest.approx((ours.p_faster, ours.p_slower))
    assert theirs.order_effect_p == pytest.approx(ours.order_effect_p)
    for mine, other in ((ours.ci95, theirs.ci95), (ours.ci90, theirs.ci90)):
        assert other == (None if mine is None else pytest.approx((1 / mine[1], 1 / mine[0])))
    mirrored = {"slower": "faster", "faster": "slower"}
    assert theirs.outcome == mirrored.get(ours.outcome, ours.outcome)
    assert theirs.reason == ours.reason


@few
@given(launches=paired_times(), margin=st.sampled_from([0.01, 0.03, 0.2]))
def test_a_run_equals_itself(launches: list[tuple[Times, Times]], margin: float) -> None:
    """An arm compared with its own samples has the ratio 1, is never slower or faster, and is the same if it may be."""
    pairs = [
        PairedLaunch(
            baseline=_samples(ours),
            candidate=_samples(ours),
            baseline_first=[block % 2 == 0 for block in range(len(ours[0]))],
        )
        for ours, _ in launches
    ]
    result = compare(pairs, margin=margin)
    assert result.ratio == 1
    assert (result.p_slower, result.p_faster, result.order_effect_p) == (1, 1, 1)
    assert (result.outcome, result.reason) == (("same", None) if result.num_units >= 5 else ("undecided", "few-pairs"))


def _noisy_launches(rng: np.random.Generator, *, num_launches: int, change: float) -> list[PairedLaunch]:
    """4 rounds of 5 iterations: 1 % jitter, 2 % of iterations three times as long, each launch of an arm 1 % off."""
    pairs = []
    for _ in range(num_launches):
        arms = []
        for ratio in (1.0, 1.0 + change):
            log_us = rng.normal(0.0, 0.01, (1, 4, 5)) + rng.normal(0.0, 0.01)
            arms.append(
                _samples((100 * ratio * np.exp(log_us) * np.where(rng.random((1, 4, 5)) < 0.02, 3, 1)).tolist())
            )
        pairs.append(PairedLaunch(baseline=arms[0], candidate=arms[1], baseline_first=[True, False, False, True]))
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize(("change", "least", "most"), [(0.0, 0.0, 0.13), (0.03, 0.95, 1.0)])
def test_false_alarms_and_power_of_twelve_launch_pairs(change: float, least: float, most: float) -> None:
    """Margin 0, alpha 5 % a side: two equal arms are called different in at most 10 % of runs (13 % with 400 runs'
    error), and a change of 3 % among launch offsets of 1 % is found nearly always.
    """
    rng = np.random.default_rng(20)
    runs = [compare(_noisy_launches(rng, num_launches=12, change=change), margin=0.0).outcome for _ in range(400)]
    assert least <= sum(outcome in {"slower", "faster"} for outcome in runs) / len(runs) <= most


@pytest.mark.slow
def test_margin_silences_equal_arms() -> None:
    """With the 3 % margin in the null, equal arms at this noise are never called different: 0 of 300."""
    rng = np.random.default_rng(21)
    runs = [compare(_noisy_launches(rng, num_launches=12, change=0.0), margin=0.03).outcome for _ in range(300)]
    assert not {"slower", "faster"} & set(runs)
