"""Iteration counts."""

from typing import Any

import pytest

from gtpbench.measure.calibrate import choose_counts
from gtpbench.scenario.schema import Measure


def _measure(**changed: Any) -> Measure:
    return Measure(**{"time_budget_s": 10.0, "blocks": 10, **changed})


def test_a_case_worked_by_hand() -> None:
    """10 s over 5 cases and 10 blocks are 200 ms a block; 2000 us + 2000 us an iteration make 50 iterations."""
    counts = choose_counts(_measure(), {"none": 2000.0, "symm": 2000.0}, num_cases=5)
    assert (50, 1) == (counts.samples, counts.k)


def test_many_iterations_become_longer_intervals() -> None:
    """The same with 20 us + 20 us: 5000 iterations are 50 samples of 100 operations."""
    counts = choose_counts(_measure(), {"none": 20.0, "symm": 20.0}, num_cases=5)
    assert (50, 100, 5000) == (counts.samples, counts.k, counts.iterations)


@pytest.mark.parametrize("fastest_us", [0.02, 0.4, 0.9, 1.9, 7.3, 24.9, 49.9, 50.0, 120.0])
@pytest.mark.parametrize("budget_s", [0.001, 0.05, 10.0])
def test_an_interval_is_at_least_50_us(fastest_us: float, budget_s: float) -> None:
    """For the fastest arm, however small the budget."""
    counts = choose_counts(_measure(time_budget_s=budget_s), {"none": 3 * fastest_us, "symm": fastest_us}, num_cases=1)
    assert counts.k * fastest_us >= 50.0 * (1 - 1e-9)


@pytest.mark.parametrize("num_cases", [1, 3, 24])
@pytest.mark.parametrize(
    "estimates_us", [{"none": 700.0}, {"none": 100.0, "symm": 61.0}, {"none": 33.0, "symm": 4.1, "symm:ce": 900.0}]
)
def test_the_budget_is_used_up(estimates_us: dict[str, float], num_cases: int) -> None:
    """All arms of a case together take its part of the budget, to half an interval in each block."""
    measure = _measure()
    counts = choose_counts(measure, estimates_us, num_cases=num_cases)
    operations = 10.0e6 / num_cases / 10 / sum(estimates_us.values())
    assert operations == pytest.approx(counts.iterations, abs=counts.k / 2)


@pytest.mark.parametrize("estimate_us", [1e5, 1e7])
def test_at_least_one_sample(estimate_us: float) -> None:
    """An operation longer than the budget is measured all the same."""
    counts = choose_counts(_measure(time_budget_s=0.1), {"none": estimate_us}, num_cases=4)
    assert (1, 1) == (counts.samples, counts.k)


@pytest.mark.parametrize(("iters", "samples"), [(1, 1), (10, 1), (11, 2), (200, 20), (205, 21)])
def test_iterations_that_were_asked_for_win(iters: int, samples: int) -> None:
    """Whatever the estimates say: at least that many over all blocks, each timed alone."""
    for estimate_us in (0.1, 1e6):
        counts = choose_counts(_measure(iters=iters), {"none": estimate_us}, num_cases=7)
        assert (samples, 1) == (counts.samples, counts.k)
        assert iters <= 10 * counts.iterations < iters + 10


def test_an_estimate_of_nothing_does_not_divide_by_zero() -> None:
    """A modelled operation may take no time at all."""
    counts = choose_counts(_measure(), {"none": 0.0, "symm": 1.0}, num_cases=1)
    assert counts.samples >= 1
