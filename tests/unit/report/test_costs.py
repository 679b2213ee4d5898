"""One-off costs of rows and arms, worked by hand."""

from typing import Any

import pytest

from gtpbench.record import Record
from gtpbench.record.model import Costs, Memory
from gtpbench.report.costs import arm_costs, cell_costs
from gtpbench.report.details import Cost
from tests.unit.report.factory import KIB, MIB, make_case, make_record
from tests.unit.report.runs import view_of

GIB = 2**30


def _record(arm: str = "symm", *, size_bytes: int = MIB, launch: int = 0, **costs: Any) -> Record:
    return make_record(
        arm, case=make_case(size_bytes=size_bytes), launch=launch, origin="measured", costs=Costs.model_validate(costs)
    )


def _cost(*values: float) -> Cost:
    return Cost(
        median_us=sorted(values)[len(values) // 2], low_us=min(values), high_us=max(values), num_values=len(values)
    )


def test_the_slowest_rank_counts() -> None:
    """Two ranks of 90 and 100 us are a cost of 100 us; launches of 100, 120 and 110 us have the median 110 us."""
    records = [
        _record(launch=launch, registration_us=(90.0, us), first_registration=False, num_registrations=2)
        for launch, us in enumerate((100.0, 120.0, 110.0))
    ]
    costs = cell_costs(records)
    assert costs.registration == _cost(100.0, 110.0, 120.0)
    assert costs.first_registration is None and costs.num_registrations == 2


def test_the_first_registration_is_apart() -> None:
    """In launch 0 this case came first, in launch 1 another one did."""
    records = [
        _record(launch=0, registration_us=(20_000.0,), first_registration=True, num_registrations=2),
        _record(launch=1, registration_us=(900.0,), first_registration=False, num_registrations=2),
    ]
    costs = cell_costs(records)
    assert (costs.first_registration, costs.registration) == (_cost(20_000.0), _cost(900.0))


def test_later_registrations_are_per_buffer() -> None:
    """An arm's later cases: two buffers in 900 us and one in 300 us are 450 us and 300 us each."""
    records = [
        _record(size_bytes=64 * KIB, registration_us=(20_000.0,), first_registration=True, num_registrations=2),
        _record(size_bytes=MIB, registration_us=(900.0,), first_registration=False, num_registrations=2),
        _record(size_bytes=4 * MIB, registration_us=(300.0,), first_registration=False, num_registrations=1),
    ]
    (costs,) = arm_costs(records, arms=("symm",))
    assert costs.first_registration == _cost(20_000.0)
    assert costs.registration == Cost(median_us=375.0, low_us=300.0, high_us=450.0, num_values=2)


def test_registrations_that_were_not_counted() -> None:
    """What the case took is known, what one buffer took is not."""
    record = _record(communicator_us=(5.0,), registration_us=(900.0,))
    (costs,) = arm_costs([record], arms=("symm",))
    assert costs.registration is None
    assert cell_costs([record]).registration == _cost(900.0)


def test_a_communicator_is_counted_once_a_start() -> None:
    """Every record of a worker set repeats it: three records of two launches are two values."""
    records = [
        _record(size_bytes=64 * KIB, launch=0, communicator_us=(100.0, 110.0)),
        _record(size_bytes=MIB, launch=0, communicator_us=(100.0, 110.0)),
        _record(size_bytes=MIB, launch=1, communicator_us=(130.0, 120.0)),
    ]
    (costs,) = arm_costs(records, arms=("symm",))
    assert costs.communicator == Cost(median_us=120.0, low_us=110.0, high_us=130.0, num_values=2)


def test_an_arm_without_registration_has_no_such_cost() -> None:
    """The zeros that its records hold are no measurement."""
    (costs,) = arm_costs(
        [_record("none", communicator_us=(5.0,), registration_us=(0.0,), deregistration_us=(0.0,), capture_us=(7.0,))],
        arms=("none",),
    )
    assert costs.registration is costs.first_registration is costs.deregistration is None
    assert (costs.communicator, costs.capture) == (_cost(5.0), _cost(7.0))


def test_arms_without_any_cost_are_left_out() -> None:
    """As records of other tools; the others stay in the order of the arms."""
    records = [_record("none"), _record("symm", communicator_us=(1.0,)), _record("symm:ce", communicator_us=(2.0,))]
    assert [costs.arm for costs in arm_costs(records, arms=("symm:ce", "none", "symm"))] == ["symm:ce", "symm"]


def test_memory_is_the_worst_ranks() -> None:
    """Least free, most registered; unknown stays unknown."""

    def state(rank: int, **fields: Any) -> Memory:
        known = {
            "buffers_bytes": 1,
            "registered_bytes": rank * MIB,
            "free_before_bytes": None,
            "free_after_bytes": None,
        }
        return Memory.model_validate({**known, "rank": rank, **fields})

    known = make_record(
        "symm",
        memory=(
            state(0, free_before_bytes=3 * GIB, free_after_bytes=GIB),
            state(1, free_before_bytes=2 * GIB, free_after_bytes=2 * GIB, symmetric_va_bytes=144 * GIB),
        ),
    )
    costs = cell_costs([known])
    assert (costs.free_before_bytes, costs.free_after_bytes) == (2 * GIB, GIB)
    assert (costs.registered_bytes, costs.symmetric_va_bytes) == (MIB, 144 * GIB)
    assert cell_costs([make_record("symm", memory=(state(0),))]).free_before_bytes is None


@pytest.mark.parametrize(
    ("resident", "whole"), [((True, True), True), ((True, False), False), ((True, None), None), ((None, None), None)]
)
def test_slots_in_cache(resident: tuple[bool | None, bool | None], whole: bool | None) -> None:
    """All sides must fit; one that is not known leaves the answer open."""
    record = make_record("symm")
    sides = {
        name: side.model_copy(update={"l2_resident": fits})
        for (name, side), fits in zip(record.sides.items(), resident, strict=True)
    }
    assert cell_costs([record.model_copy(update={"sides": sides})]).l2_resident is whole


def test_windows_of_the_run() -> None:
    """8 slots of 32 KiB and 64 KiB take 2 MiB windows; of 32 MiB and 64 MiB they take 256 and 512 MiB."""
    view = view_of("h200")
    by_arm = {costs.arm: costs for costs in view.costs}
    assert by_arm["symm"].window_bytes == (4 * MIB, 768 * MIB)
    assert by_arm["none"].window_bytes is None
    rows = {(row.case.size_bytes, row.arm.name): row for row in view.groups[0].rows}
    assert rows[64 * MIB, "symm"].costs.window_bytes == (("send", 256 * MIB), ("recv", 512 * MIB))
    assert rows[64 * MIB, "symm:recv"].costs.window_bytes == (("recv", 512 * MIB),)
