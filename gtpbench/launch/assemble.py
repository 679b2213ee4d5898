"""Builds records from what the ranks sent. Pure."""

from collections.abc import Sequence
from typing import Any, Literal

from gtpbench import __version__
from gtpbench.backends import BACKENDS
from gtpbench.launch.attempt import Failure
from gtpbench.measure.byte_proof import byte_proof, modelled_proof
from gtpbench.measure.cell import RankCell, RankClock
from gtpbench.measure.kernel_proof import kernel_proof
from gtpbench.measure.nccl_log import parse_log
from gtpbench.plan import AnyCase, Arm, Case, Plan, digest, wire_bytes_all_ranks
from gtpbench.record.model import (
    Clock,
    Costs,
    Execution,
    Memory,
    Origin,
    Proof,
    RankEvidence,
    Reason,
    Record,
    Samples,
    Traffic,
    Verification,
)
from gtpbench.versions import SkipReason


def origin_of(plan: Plan, arm: Arm) -> Origin:
    """Where the numbers of an arm come from; an arm without a backend takes the plan's."""
    backends = [arm.backend, *(other.backend for other in plan.arms), "gloo"]
    origin = next(BACKENDS[name].origin for name in backends if name in BACKENDS)
    return "shared_gpu" if origin == "measured" and plan.scenario.ranks_per_gpu > 1 else origin


def skipped_record(
    plan: Plan, case: AnyCase, arm: Arm, reason: SkipReason, *, launch: int, fault: str | None
) -> Record:
    """A cell that cannot run here."""
    known = identity(plan, case, arm, launch=launch, environment_id=None, fault=fault)
    return Record(status="skipped", reason=Reason(code=reason.code, text=reason.text), **known)


def failed_record(
    plan: Plan,
    case: AnyCase,
    arm: Arm,
    failure: Failure,
    *,
    execution: Execution | None,
    launch: int,
    environment_id: str | None,
    fault: str | None,
) -> Record:
    """A cell that was begun, or could not be begun, because of a failure."""
    known = identity(plan, case, arm, launch=launch, environment_id=environment_id, fault=fault)
    reason = Reason(code=failure.code, text=failure.text)
    return Record(status=failure.status, reason=reason, execution=execution, **known)


def measured_record(
    plan: Plan,
    case: Case,
    arm: Arm,
    cells: Sequence[RankCell],
    *,
    execution: Execution,
    launch: int,
    environment_id: str,
    nccl_version: str | None,
    log_lines: tuple[str, ...] | None,
    fault: str | None,
) -> Record:
    """A cell that ran to its end; wrong data makes it `wrong_result`, without timings."""
    verification = merged_verification([cell.verification for cell in cells])
    wrong = verification.num_wrong > 0
    return Record(
        **identity(plan, case, arm, launch=launch, environment_id=environment_id, fault=fault),
        status="wrong_result" if wrong else "ok",
        reason=wrong_data(verification) if wrong else None,
        execution=execution,
        samples={} if wrong else _series(cells, "timed"),
        warmup={} if wrong else _series(cells, "warmup"),
        proof=_proof(plan, case, arm, cells, nccl_version=nccl_version, log_lines=log_lines),
        verification=verification,
        traffic=Traffic(
            essential_bytes=cells[0].essential_bytes,
            wire_bytes=tuple(cell.wire_bytes for cell in cells),
            # All-gather and reduce-scatter are balanced: every rank receives what it sends.
            received_bytes=tuple(cell.wire_bytes for cell in cells),
        ),
        sides=cells[0].sides,
        processes=tuple(cell.process for cell in cells),
        block_states=tuple(state for cell in _device_cells(cells) for state in cell.block_states),
        memory=_memory(cells, log_lines),
        costs=Costs(
            communicator_us=tuple(cell.communicator_us for cell in cells),
            registration_us=tuple(cell.registration_us for cell in cells),
            first_registration=cells[0].first_registration if cells[0].num_registrations else None,
            num_registrations=cells[0].num_registrations or None,
            deregistration_us=tuple(cell.deregistration_us for cell in cells),
            capture_us=_captures(cells),
        ),
        stage_seconds={
            stage: round(max(cell.stage_seconds.get(stage, 0.0) for cell in cells), 6)
            for stage in sorted({name for cell in cells for name in cell.stage_seconds})
        },
    )


def identity(
    plan: Plan, case: AnyCase, arm: Arm, *, launch: int, environment_id: str | None, fault: str | None
) -> dict[str, Any]:
    """The fields every record has."""
    return {
        "tool_version": __version__,
        "case_id": case.case_id,
        "arm": arm.name,
        "origin": origin_of(plan, arm),
        "case": case,
        "arm_spec": arm,
        "case_digest": digest(case.model_dump(mode="json")),
        "arm_digest": digest(arm.model_dump(mode="json")),
        "plan_digest": plan.digest,
        "launch": launch,
        "environment_id": environment_id,
        "test_fault": fault,
    }


def wrong_data(verification: Verification) -> Reason:
    """Why a record is `wrong_result`."""
    return Reason(
        code="wrong_data",
        text=f"{verification.num_wrong} of {verification.num_checked} checked elements are wrong "
        f"(largest error {verification.max_error:g}, allowed {verification.tolerance:g})",
    )


def merged_verification(checked: Sequence[Verification]) -> Verification:
    """The checks of all ranks as one."""
    squares = sum(item.rms_error**2 for item in checked) / len(checked)
    return Verification(
        num_slots=checked[0].num_slots,
        poisoned=all(item.poisoned for item in checked),
        num_wrong=sum(item.num_wrong for item in checked),
        num_checked=sum(item.num_checked for item in checked),
        max_error=max(item.max_error for item in checked),
        rms_error=squares**0.5,
        tolerance=checked[0].tolerance,
    )


def _series(cells: Sequence[RankCell], kind: Literal["timed", "warmup"]) -> dict[str, Samples]:
    """The timed or the warm-up blocks of all ranks, on every clock."""
    return {f"step.{clock}": _samples([cell.clocks[clock] for cell in cells], clock, kind) for clock in cells[0].clocks}


def _samples(ranks: Sequence[RankClock], clock: Clock, kind: Literal["timed", "warmup"]) -> Samples:
    series = [getattr(rank, kind) for rank in ranks]
    return Samples(
        clock=clock,
        k=ranks[0].k,
        alignment=ranks[0].alignment,
        time_us=tuple(each.time_us for each in series),
        # Replays queue up behind one another, so the time to issue one is no share of it.
        issue_us=tuple(each.issue_us for each in series) if clock == "stream" else None,
        block_start_us=tuple(each.start_us for each in series),
        block_wall_us=tuple(each.wall_us for each in series),
    )


def _device_cells(cells: Sequence[RankCell]) -> Sequence[RankCell]:
    """The ranks whose block states are kept: all with a GPU, one of a CPU host, whose load all share."""
    return cells if cells[0].process.cta_policy is not None else cells[:1]


def _memory(cells: Sequence[RankCell], log_lines: tuple[str, ...] | None) -> tuple[Memory, ...]:
    """Of every rank; the log tells how much address space NCCL gave the windows."""
    va_bytes = parse_log(log_lines or ()).symmetric_va_bytes
    return tuple(cell.memory.model_copy(update={"symmetric_va_bytes": va_bytes}) for cell in cells)


def _captures(cells: Sequence[RankCell]) -> tuple[float, ...] | None:
    times = tuple(cell.capture_us for cell in cells if cell.capture_us is not None)
    return times or None


def _proof(
    plan: Plan,
    case: Case,
    arm: Arm,
    cells: Sequence[RankCell],
    *,
    nccl_version: str | None,
    log_lines: tuple[str, ...] | None,
) -> Proof:
    if BACKENDS[arm.backend].origin == "measured":
        evidence = [item for cell in cells for item in cell.evidence]
        if log_lines is not None:
            evidence.append(RankEvidence(rank=0, source="tuning_log", lines=log_lines))
        return kernel_proof(case, arm, evidence, nccl_version=nccl_version)
    modelled = origin_of(plan, arm) == "modelled"
    counted = [
        RankEvidence(rank=cell.rank, source="model" if modelled else "interface_bytes", counters=cell.counters)
        for cell in cells
    ]
    if modelled:
        return modelled_proof(case, counted)
    wire_bytes = wire_bytes_all_ranks(case) * cells[0].operations
    return byte_proof(case, arm, counted, wire_bytes=wire_bytes, num_ranks=case.num_ranks)
