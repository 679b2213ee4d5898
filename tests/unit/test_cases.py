"""Registration cases: which a workload has, what they are called, and what a plan makes of them."""

from typing import Any

import pytest

from gtpbench.cases import RegistrationCase
from gtpbench.errors import UsageError
from gtpbench.plan import Case, Plan, estimated_seconds, skips
from tests.examples import make_facts, make_plan

KIB, MIB = 2**10, 2**20


def _plan(arms: tuple[str, ...] = ("registered", "symm"), num_ranks: int = 2, **workload: Any) -> Plan:
    table = {"kind": "registration", "buffer_sizes": ["64K", "1M"], "max_total_bytes": "16M", **workload}
    return make_plan(workload=table, arms=list(arms), num_ranks=num_ranks)


def _cases(**changed: Any) -> list[RegistrationCase]:
    cases = _plan(**changed).cases
    assert all(isinstance(case, RegistrationCase) for case in cases)
    return [case for case in cases if isinstance(case, RegistrationCase)]


def test_numbers_by_sizes_up_to_the_total() -> None:
    """64 buffers of 1 MiB are more than 16 MiB and left out."""
    assert [
        "registration/1x65536/n2",
        "registration/4x65536/n2",
        "registration/16x65536/n2",
        "registration/64x65536/n2",
        "registration/1x1048576/n2",
        "registration/4x1048576/n2",
        "registration/16x1048576/n2",
    ] == [case.case_id for case in _cases()]


def test_a_combination_is_one_case() -> None:
    """However often it is asked for."""
    assert 1 == len(_cases(buffer_sizes=["1K", 1024], num_buffers=[2, 2]))


def test_a_listed_set_comes_last() -> None:
    """Whatever its total; sizes keep their order."""
    case = _cases(buffers=["32M", "1K", "2M"], buffers_name="llama")[-1]
    assert ("registration/llama/35652608/n2", "llama", 3) == (case.case_id, case.name, case.num_buffers)
    assert (32 * MIB, KIB, 2 * MIB) == case.buffer_bytes == case.sizes
    assert 34 * MIB + KIB == case.total_bytes
    assert "llama (3 buffers)" == case.label


def test_a_listed_set_may_be_alone() -> None:
    """Without a sweep."""
    assert ["registration/listed/5/n2"] == [case.case_id for case in _cases(buffer_sizes=[], buffers=[2, 3])]


def test_sizes_of_equal_buffers() -> None:
    """One for each."""
    case = _cases(num_buffers=[3])[0]
    assert ((64 * KIB,) * 3, 192 * KIB, "3 × 64KiB") == (case.sizes, case.total_bytes, case.label)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max_total_bytes": "63K"}, "workload.max_total_bytes = 63KiB leaves no case: the smallest is 1 x 64KiB"),
        ({"buffer_sizes": [3], "num_ranks": 4}, "a buffer of 3 B is under one byte for each of 4 ranks"),
        ({"buffers": ["1M", 1]}, "a buffer of 1 B is under one byte for each of 2 ranks: ask for 2 B or more"),
    ],
)
def test_what_cannot_be_planned(changed: dict[str, Any], told: str) -> None:
    """With what would do."""
    with pytest.raises(UsageError, match=told):
        _plan(**changed)


@pytest.mark.parametrize(
    ("sizes", "num_ranks", "gathered"),
    [
        ([64 * KIB], 2, 64 * KIB),
        ([64 * MIB], 2, MIB),
        ([64 * KIB], 3, 3 * 21840),
        ([50], 3, 48),
        ([40], 3, 39),
        ([4 * MIB, 16, 128 * KIB], 4, 128 * KIB),
        ([100, 4 * MIB], 4, 64),
    ],
)
def test_what_is_gathered_fits_both_ends(sizes: list[int], num_ranks: int, gathered: int) -> None:
    """At most 1 MiB, in parts of whole 16 bytes where they are that large; in place, bytes."""
    (case,) = _cases(buffer_sizes=[], buffers=sizes, num_ranks=num_ranks)
    small = case.gathered
    assert (gathered, num_ranks, "uint8", "in_place") == (
        small.size_bytes,
        small.num_ranks,
        small.dtype,
        small.placement,
    )
    assert 0 < gathered <= min(sizes[0], sizes[-1])


def test_arms_that_register_nothing_are_skipped() -> None:
    """By this machine or any other; what has no counterpart on CPU ranks is skipped as ever."""
    plan = _plan(arms=("none", "nccltests:0", "registered", "symm"))
    found = skips(plan, make_facts())
    codes = {(case_id, arm): reason.code for (case_id, arm), reason in found.items()}
    for case in plan.cases:
        assert "nothing_to_register" == codes[case.case_id, "none"] == codes[case.case_id, "nccltests:0"]
        assert "no_cpu_counterpart" == codes[case.case_id, "registered"]
        assert (case.case_id, "symm") not in codes
    assert "none registers nothing, so there is no registration to time" == found[plan.cases[0].case_id, "none"].text


def test_the_estimate_grows_with_buffers_and_blocks() -> None:
    """A registration takes its time; the budget of collectives has no part in it."""
    small, large = _plan(("symm",), num_buffers=[1]), _plan(("symm",), num_buffers=[16])
    assert estimated_seconds(large, {}) > estimated_seconds(small, {})
    budget = make_plan(
        workload={"kind": "registration", "buffer_sizes": ["64K"], "max_total_bytes": "1M", "num_buffers": [1]},
        arms=["symm"],
        measure={"clock": "host", "time_budget_s": 1000.0},
    )
    assert estimated_seconds(budget, {}) < 10.0
    nothing = _plan(("none",))
    assert 0.0 == estimated_seconds(nothing, skips(nothing, make_facts()))


def test_cases_of_collectives_are_what_they_were() -> None:
    """No new field: digests and lines of older records stay."""
    (case,) = make_plan().cases
    assert isinstance(case, Case)
    assert "kind" not in case.model_dump()
