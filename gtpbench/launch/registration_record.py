"""Builds the records of registration cases from what the ranks sent. Pure."""

from collections.abc import Sequence

from gtpbench.backends import BACKENDS
from gtpbench.launch.assemble import identity, merged_verification, origin_of, wrong_data
from gtpbench.measure.byte_proof import byte_proof, modelled_proof
from gtpbench.measure.kernel_proof import kernel_proof
from gtpbench.measure.registration import ALIGNMENT, Phase, RankRegistration
from gtpbench.plan import Arm, Plan, RegistrationCase, wire_bytes_all_ranks
from gtpbench.record.model import Costs, Execution, Proof, RankEvidence, Record, Samples


def registration_record(
    plan: Plan,
    case: RegistrationCase,
    arm: Arm,
    cells: Sequence[RankRegistration],
    *,
    execution: Execution,
    launch: int,
    environment_id: str,
    nccl_version: str | None,
    fault: str | None,
) -> Record:
    """A registration case that ran to its end; wrong data makes it `wrong_result`, without timings."""
    verification = merged_verification([cell.verification for cell in cells])
    wrong = verification.num_wrong > 0
    first = cells[0]
    return Record(
        **identity(plan, case, arm, launch=launch, environment_id=environment_id, fault=fault),
        status="wrong_result" if wrong else "ok",
        reason=wrong_data(verification) if wrong else None,
        execution=execution,
        samples={} if wrong else {f"{phase}.host": _samples(cells, phase) for phase in first.phases},
        proof=_proof(plan, case, arm, cells, nccl_version=nccl_version),
        verification=verification,
        sides={"buffers": first.side},
        processes=tuple(cell.process for cell in cells),
        memory=tuple(cell.memory for cell in cells),
        costs=Costs(
            communicator_us=tuple(cell.communicator_us for cell in cells),
            registration_us=tuple(cell.single_us for cell in cells),
            first_registration=first.is_first,
            num_registrations=1,
            deregistration_us=tuple(cell.single_deregistration_us for cell in cells),
        ),
        stage_seconds={
            stage: round(max(cell.stage_seconds.get(stage, 0.0) for cell in cells), 6)
            for stage in sorted({name for cell in cells for name in cell.stage_seconds})
        },
    )


def _samples(cells: Sequence[RankRegistration], phase: Phase) -> Samples:
    """One iteration a block: the whole set."""
    times = [cell.phases[phase] for cell in cells]
    return Samples(
        clock="host",
        k=1,
        alignment=ALIGNMENT,
        time_us=tuple(tuple((us,) for us in each.time_us) for each in times),
        block_start_us=tuple(each.start_us for each in times),
        block_wall_us=tuple(each.wall_us for each in times),
    )


def _proof(
    plan: Plan, case: RegistrationCase, arm: Arm, cells: Sequence[RankRegistration], *, nccl_version: str | None
) -> Proof:
    """Of the all-gather through the ends of a set: what the registration is good for."""
    gathered = case.gathered
    if BACKENDS[arm.backend].origin == "measured":
        evidence = [item for cell in cells for item in cell.evidence]
        return _refused(kernel_proof(gathered, arm, evidence, nccl_version=nccl_version), cells)
    modelled = origin_of(plan, arm) == "modelled"
    source = "model" if modelled else "interface_bytes"
    counted = [RankEvidence(rank=cell.rank, source=source, counters=cell.counters) for cell in cells]
    if modelled:
        return modelled_proof(gathered, counted)
    wire_bytes = wire_bytes_all_ranks(gathered) * cells[0].gathers
    return byte_proof(gathered, arm, counted, wire_bytes=wire_bytes, num_ranks=case.num_ranks)


def _refused(proof: Proof, cells: Sequence[RankRegistration]) -> Proof:
    """A set of which NCCL refused some windows fell back, whatever kernel served its ends."""
    null = {cell.rank: number for cell in cells if (number := cell.counters.get("null_windows"))}
    if not null or proof.verdict == "fell_back":
        return proof
    told = ", ".join(f"rank {rank}: {number}" for rank, number in null.items())
    items = tuple(
        item.model_copy(update={"verdict": "fell_back", "statement": f"{item.statement}; NULL windows on {told}"})
        for item in proof.items
    )
    return proof.model_copy(update={"verdict": "fell_back", "items": items})
