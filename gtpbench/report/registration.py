"""The part of the view model about registration cases: what registering sets of buffers costs, set by set."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gtpbench.cases import RegistrationCase
from gtpbench.plan import Arm
from gtpbench.record.model import Memory, Origin, ProofVerdict, Reason, Record, Status
from gtpbench.report.costs import cell_costs
from gtpbench.report.details import CellCosts, PathProof
from gtpbench.report.orders import STATUS_ORDER
from gtpbench.report.paths import path_proofs, worst_verdict
from gtpbench.stats.summary import Summary, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationRow:
    """One set of buffers x arm of one origin, its launches merged.

    Attributes:
        status: the worst of its launches; times come from the ok ones alone.
        allocate: host microseconds for the whole set, as `register` and `deregister`; None where no launch was ok.
        used_bytes: device memory that the registered set takes, on the rank that loses most; None where the host's.
        kept_bytes: of it, what was not given back when the set was released.
        costs: registration and deregistration are those of one buffer by itself, before the first block.
        fault: injected for a test.
    """

    case: RegistrationCase
    arm: Arm
    origin: Origin
    status: Status
    reason: Reason | None
    num_launches: int
    num_ok_launches: int
    allocate: Summary | None
    register: Summary | None
    deregister: Summary | None
    used_bytes: int | None
    kept_bytes: int | None
    proof: ProofVerdict | None
    proofs: tuple[PathProof, ...]
    num_wrong: int | None
    costs: CellCosts
    fault: str | None

    @property
    def per_buffer_us(self) -> float | None:
        """Median time to register the set, divided by its buffers."""
        return None if self.register is None else self.register.median_us / self.case.num_buffers

    @property
    def statement(self) -> str | None:
        """Of the worst proof."""
        return next((proof.statement for proof in self.proofs if proof.verdict == self.proof), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationGroup:
    """The rows of one table: by size of the buffers, then by number, then as the arms; listed sets last."""

    num_ranks: int
    origin: Origin
    rows: tuple[RegistrationRow, ...]

    @property
    def title(self) -> str:
        """For example `registration cost · 8 ranks`."""
        return f"registration cost · {self.num_ranks} rank{'s' if self.num_ranks != 1 else ''}"


def registration_groups(records: Sequence[Record], *, arms: Sequence[str]) -> tuple[RegistrationGroup, ...]:
    """The tables of a run's registration records."""
    return tuple(_groups(records, arms))


def _groups(records: Sequence[Record], arms: Sequence[str]) -> Iterator[RegistrationGroup]:
    cells: dict[tuple[Origin, str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.launch):
        cells.setdefault((record.origin, record.case_id, record.arm), []).append(record)
    by_key: dict[tuple[int, Origin], list[RegistrationRow]] = {}
    for having in cells.values():
        row = _row(having)
        by_key.setdefault((row.case.num_ranks, row.origin), []).append(row)
    for (num_ranks, origin), rows in sorted(by_key.items()):
        ordered = sorted(rows, key=lambda row: (*_place(row.case), arms.index(row.arm.name)))
        yield RegistrationGroup(num_ranks=num_ranks, origin=origin, rows=tuple(ordered))


def _place(case: RegistrationCase) -> tuple[bool, int, int]:
    return (True, 0, 0) if case.name else (False, case.sizes[0], case.num_buffers)


def _row(records: Sequence[Record]) -> RegistrationRow:
    first, ok = records[0], [record for record in records if record.status == "ok"]
    assert isinstance(first.case, RegistrationCase)
    worst = max(records, key=lambda record: STATUS_ORDER.index(record.status))
    memory = [state for record in records for state in record.memory]
    checks = [record.verification for record in records if record.verification]
    return RegistrationRow(
        case=first.case,
        arm=first.arm_spec,
        origin=first.origin,
        status=worst.status,
        reason=worst.reason,
        num_launches=len(records),
        num_ok_launches=len(ok),
        allocate=_summary(ok, "allocate"),
        register=_summary(ok, "register"),
        deregister=_summary(ok, "deregister"),
        used_bytes=_lost(memory, lambda state: state.free_after_bytes),
        kept_bytes=_lost(memory, lambda state: state.free_released_bytes),
        proof=worst_verdict(records),
        proofs=path_proofs(records),
        num_wrong=sum(check.num_wrong for check in checks) if checks else None,
        costs=cell_costs(records),
        fault=next((record.test_fault for record in records if record.test_fault), None),
    )


def _summary(records: Sequence[Record], phase: str) -> Summary | None:
    return summarise([record.samples[f"{phase}.host"] for record in records]) if records else None


def _lost(memory: Sequence[Memory], later: Callable[[Memory], int | None]) -> int | None:
    """How much less was free later than before, on the rank that lost most; None where that is not known."""
    lost = [
        state.free_before_bytes - then
        for state in memory
        if state.free_before_bytes is not None and (then := later(state)) is not None
    ]
    return max(0, *lost) if lost else None
