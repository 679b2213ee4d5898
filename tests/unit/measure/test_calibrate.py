"""Iteration counts."""

from typing import Any

import pytest

from gtpbench.measure.calibrate import Counts, Estimate, choose_counts
from gtpbench.scenario.schema import Measure


def _measure(**changed: Any) -> Measure:
    return Measure(**{"time_budget_s": 10.0, "blocks": 10, **changed})


def _calls(**times_us: float) -> dict[str, Estimate]:
    """Arms of which only the length of an operation counts."""
    return {arm: Estimate(us=us) for arm, us in times_us.items()}


def _graphs(**found: tuple[float, int]) -> dict[str, Estimate]:
    """Arms with (microseconds, operations that their graph needs)."""
    return {arm: Estimate(us=us, k=k) for arm, (us, k) in found.items()}


def test_a_case_worked_by_hand() -> None:
    """10 s over 5 cases and 10 blocks are 200 ms a block; 2000 us + 2000 us an iteration make 50 iterations."""
    assert Counts(samples=50, k=1) == choose_counts(_measure(), _calls(none=2000.0, symm=2000.0), num_cases=5)


def test_clocks_share_the_budget() -> None:
    """Two of them have 100 ms each: 25 iterations."""
    counts = choose_counts(_measure(), _calls(none=2000.0, symm=2000.0), num_cases=5, num_clocks=2)
    assert Counts(samples=25, k=1) == counts


def test_many_iterations_become_longer_intervals() -> None:
    """The same with 20 us + 20 us: 5000 iterations are 50 samples of 100 operations."""
    counts = choose_counts(_measure(), _calls(none=20.0, symm=20.0), num_cases=5)
    assert (50, 100, 5000) == (counts.samples, counts.k, counts.iterations)


@pytest.mark.parametrize("fastest_us", [0.02, 0.4, 0.9, 1.9, 7.3, 24.9, 49.9, 50.0, 120.0])
@pytest.mark.parametrize("budget_s", [0.001, 0.05, 10.0])
def test_an_interval_is_at_least_50_us(fastest_us: float, budget_s: float) -> None:
    """For the fastest arm, however small the budget."""
    estimates = _calls(none=3 * fastest_us, symm=fastest_us)
    counts = choose_counts(_measure(time_budget_s=budget_s), estimates, num_cases=1)
    assert counts.k * fastest_us >= 50.0 * (1 - 1e-9)


@pytest.mark.parametrize("num_cases", [1, 3, 24])
@pytest.mark.parametrize("num_clocks", [1, 2])
@pytest.mark.parametrize(
    "estimates_us", [{"none": 700.0}, {"none": 100.0, "symm": 61.0}, {"none": 33.0, "symm": 4.1, "symm:ce": 900.0}]
)
def test_the_budget_is_used_up(estimates_us: dict[str, float], num_cases: int, num_clocks: int) -> None:
    """All arms of a case together take a clock's part of the budget, to half an interval in each block."""
    counts = choose_counts(_measure(), _calls(**estimates_us), num_cases=num_cases, num_clocks=num_clocks)
    operations = 10.0e6 / num_cases / num_clocks / 10 / sum(estimates_us.values())
    assert operations == pytest.approx(counts.iterations, abs=counts.k / 2)


@pytest.mark.parametrize("estimate_us", [1e5, 1e7])
def test_at_least_one_sample(estimate_us: float) -> None:
    """An operation longer than the budget is measured all the same."""
    counts = choose_counts(_measure(time_budget_s=0.1), _calls(none=estimate_us), num_cases=4)
    assert Counts(samples=1, k=1) == counts


@pytest.mark.parametrize(("iters", "samples"), [(1, 1), (10, 1), (11, 2), (200, 20), (205, 21)])
def test_iterations_that_were_asked_for_win(iters: int, samples: int) -> None:
    """Whatever the estimates say: at least that many over all blocks, each timed alone."""
    for estimate_us in (0.1, 1e6):
        counts = choose_counts(_measure(iters=iters), _calls(none=estimate_us), num_cases=7)
        assert Counts(samples=samples, k=1) == counts
        assert iters <= 10 * counts.iterations < iters + 10


def test_an_estimate_of_nothing_does_not_divide_by_zero() -> None:
    """A modelled operation may take no time at all."""
    assert choose_counts(_measure(), _calls(none=0.0, symm=1.0), num_cases=1).samples >= 1
    assert choose_counts(_measure(), _graphs(none=(0.0, 16)), num_cases=1).samples >= 1


# Graphs


def test_the_longest_graph_of_the_arms_is_everyones() -> None:
    """100 ms a block over 20 + 10 us are 3333 operations of each arm: 26 replays of 128."""
    estimates = _graphs(none=(20.0, 64), symm=(10.0, 128))
    assert Counts(samples=26, k=128) == choose_counts(_measure(), estimates, num_cases=5, num_clocks=2)


@pytest.mark.parametrize(
    ("budget_s", "samples"),
    [
        (1e-6, 1),  # less than one operation
        (0.1, 3),  # 10 ms a block over 30 us are 333 operations: 2.6 replays of 128
        (1.9, 49),  # 190 ms: 6333 operations are 49.48 replays
        (2.0, 50),  # 200 ms: 52.1 replays
        (1000.0, 50),
    ],
)
def test_the_budget_makes_replays_never_longer_graphs(budget_s: float, samples: int) -> None:
    """At least one, at most 50; a graph is replayed as it was captured."""
    estimates = _graphs(none=(20.0, 64), symm=(10.0, 128))
    counts = choose_counts(_measure(time_budget_s=budget_s), estimates, num_cases=1)
    assert Counts(samples=samples, k=128) == counts


def test_short_graphs_are_long_enough() -> None:
    """Their length was found by their settling: 16 operations of 1 us stay 16 operations."""
    assert 16 == choose_counts(_measure(), _graphs(none=(1.0, 16)), num_cases=1).k


@pytest.mark.parametrize(
    ("iters", "samples"),
    [
        (1, 1),  # two blocks of one operation
        (640, 1),  # ten blocks of 64 operations
        (641, 2),  # 65 operations: two replays
        (6400, 10),
    ],
)
def test_iterations_that_were_asked_for_are_rounded_up_to_graphs(iters: int, samples: int) -> None:
    """At least that many, in whole replays of the longest graph, whatever the budget."""
    estimates = _graphs(none=(1e6, 16), symm=(0.1, 64))
    for budget_s in (1e-3, 1e6):
        counts = choose_counts(_measure(iters=iters, time_budget_s=budget_s), estimates, num_cases=3, num_clocks=2)
        assert Counts(samples=samples, k=64) == counts


def test_prescribed_operations_are_kept_on_every_clock() -> None:
    """20 calls an interval, as 20 captured ones: 1 s over 10 blocks and 100 us are 1000 operations, 50 intervals."""
    counts = choose_counts(_measure(time_budget_s=1.0), _graphs(**{"nccltests:0": (100.0, 20)}), num_cases=1)
    assert Counts(samples=50, k=20) == counts
