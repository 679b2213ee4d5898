"""One-off costs and memory, from records to rows and arms. A cost is that of the slowest rank."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from gtpbench.record.model import Origin, Record
from gtpbench.report.details import ArmCosts, CellCosts, Cost

_RankTimes = tuple[float, ...] | None


def cell_costs(records: Sequence[Record]) -> CellCosts:
    """Costs of one cell from its records by launch."""
    first = [record for record in records if record.costs.first_registration]
    later = [record for record in records if not record.costs.first_registration]
    sides = next((record.sides for record in records if record.sides), {})
    resident = {side.l2_resident for side in sides.values()}
    memory = [state for record in records for state in record.memory]
    return CellCosts(
        communicator=_communicator(records),
        first_registration=_cost(map(_registration_us, first)),
        registration=_cost(map(_registration_us, later)),
        num_registrations=next((n for record in records if (n := record.costs.num_registrations) is not None), None),
        deregistration=_cost(map(_deregistration_us, records)),
        capture=_cost(_slowest(record.costs.capture_us) for record in records),
        window_bytes=tuple((name, size) for name, side in sides.items() if (size := side.window_bytes) is not None),
        registered_bytes=_known(max, (state.registered_bytes for state in memory)),
        symmetric_va_bytes=_known(max, (state.symmetric_va_bytes for state in memory)),
        free_before_bytes=_known(min, (state.free_before_bytes for state in memory)),
        free_after_bytes=_known(min, (state.free_after_bytes for state in memory)),
        l2_resident=None if None in resident or not resident else all(resident),
    )


def arm_costs(records: Sequence[Record], *, arms: Sequence[str]) -> tuple[ArmCosts, ...]:
    """Costs of each origin and arm that has any, arms in this order."""
    by_arm: dict[tuple[Origin, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.origin, arms.index(record.arm))):
        by_arm.setdefault((record.origin, record.arm), []).append(record)
    made = (_arm_costs(having, origin=origin, arm=arm) for (origin, arm), having in by_arm.items())
    return tuple(costs for costs in made if costs.communicator or costs.registration or costs.first_registration)


def _arm_costs(records: Sequence[Record], *, origin: Origin, arm: str) -> ArmCosts:
    cells = [cell_costs([record]) for record in records]
    windows = [sum(size for _, size in cell.window_bytes) for cell in cells if cell.window_bytes]
    first = [record for record in records if record.costs.first_registration]
    later = [record for record in records if not record.costs.first_registration]
    return ArmCosts(
        origin=origin,
        arm=arm,
        communicator=_communicator(records),
        first_registration=_cost(map(_registration_us, first)),
        registration=_cost(map(_one_registration_us, later)),
        deregistration=_cost(map(_deregistration_us, records)),
        capture=_cost(_slowest(record.costs.capture_us) for record in records),
        window_bytes=(min(windows), max(windows)) if windows else None,
        symmetric_va_bytes=_known(max, (cell.symmetric_va_bytes for cell in cells)),
        free_before_bytes=_known(min, (cell.free_before_bytes for cell in cells)),
        free_after_bytes=_known(min, (cell.free_after_bytes for cell in cells)),
    )


def _communicator(records: Sequence[Record]) -> Cost | None:
    """Every record of one start of a worker set repeats its communicator's cost; it counts once."""
    starts = {
        (run.run_id, record.launch, run.attempt, run.set_id): _slowest(record.costs.communicator_us)
        for record in records
        if (run := record.execution)
    }
    return _cost(starts.values())


def _registration_us(record: Record) -> float | None:
    """Of all buffers of the case; None where the arm registers none."""
    return None if record.arm_spec.registration == "none" else _slowest(record.costs.registration_us)


def _one_registration_us(record: Record) -> float | None:
    """None where the record does not count its registrations."""
    time_us, number = _registration_us(record), record.costs.num_registrations
    return None if time_us is None or not number else time_us / number


def _deregistration_us(record: Record) -> float | None:
    return None if record.arm_spec.registration == "none" else _slowest(record.costs.deregistration_us)


def _known(pick: Callable[[Iterable[int]], int], values: Iterable[int | None]) -> int | None:
    """The one that `pick` picks of those that are known."""
    known = [value for value in values if value is not None]
    return pick(known) if known else None


def _slowest(times_us: _RankTimes) -> float | None:
    return max(times_us) if times_us else None


def _cost(values: Iterable[float | None]) -> Cost | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Cost(median_us=median(known), low_us=min(known), high_us=max(known), num_values=len(known))
