"""Runs that time registration, made by hand."""

from collections.abc import Sequence
from typing import Any

from gtpbench.cases import RegistrationCase, registration_cases
from gtpbench.plan import digest
from gtpbench.record import Proof, Record, Samples, Verification
from gtpbench.record.model import Costs, KernelRow, Memory, ProofItem, ProofVerdict, RankEvidence, Reason, Side
from gtpbench.scenario.load import build_scenario
from gtpbench.scenario.schema import RegistrationWorkload
from tests.unit.report.factory import KIB, MIB, make_arm, make_environment, make_execution
from tests.unit.report.run import Run

GIB = 2**30
ARMS = ("registered", "symm")
COMMAND = ("gtpbench", "allgather", "--registration-cost", "--arm", "none,registered,symm", "--buffers", "llama-8b.txt")
SHARED_COMMAND = ("gtpbench", "allgather", "--registration-cost", "--ranks-per-gpu", "2", "-e", "64K")
_KERNELS = {"registered": "ncclDevKernel_AllGather_RING_LL", "symm": "ncclSymkDevKernel_AllGather_ST"}
_PATHS = {"registered": "unknown", "symm": "symm_lsa"}


def make_cases(
    *, sizes: Sequence[int], numbers: Sequence[int] = (1, 64), num_ranks: int = 2, listed: Sequence[int] = ()
) -> list[RegistrationCase]:
    """The cases as planning would make them."""
    workload = RegistrationWorkload(
        kind="registration",
        buffer_sizes=tuple(sizes),
        num_buffers=tuple(numbers),
        max_total_bytes=16 * GIB,
        buffers=tuple(listed) or None,
        buffers_name="llama-8b",
    )
    return list(registration_cases(workload, num_ranks=num_ranks))


def make_phase(us: float, *, num_ranks: int = 2, num_blocks: int = 10) -> Samples:
    """One phase; blocks take 0 % to 9 % longer than `us`, the last rank 1 % longer still."""
    times = [us * (1 + block / 100) for block in range(num_blocks)]
    ranks = [[time * (1.01 if rank == num_ranks - 1 else 1.0) for time in times] for rank in range(num_ranks)]
    return Samples(
        clock="host",
        k=1,
        alignment="barrier",
        time_us=tuple(tuple((round(time, 3),) for time in rank) for rank in ranks),
        block_start_us=(tuple(1e4 * block for block in range(num_blocks)),) * num_ranks,
        block_wall_us=tuple(tuple(round(time + 50.0, 3) for time in rank) for rank in ranks),
    )


def make_registration_record(
    arm: str = "symm",
    *,
    case: RegistrationCase | None = None,
    register_us: float = 1000.0,
    origin: str = "measured",
    status: str = "ok",
    reason: tuple[str, str] | None = None,
    verdict: ProofVerdict = "proved",
    statement: str | None = None,
    launch: int = 0,
    is_first: bool = False,
    free_bytes: tuple[int, int, int] | None = None,
    arms: Sequence[str] = ARMS,
    **fields: Any,
) -> Record:
    """One record: to allocate takes half of the time to register, to deregister a quarter.

    Args:
        free_bytes: of each rank before, with and after the set; the last rank has 1 MiB less throughout.
    """
    case = make_cases(sizes=[MIB], numbers=[4])[0] if case is None else case
    ran, ranks = status in {"ok", "wrong_result"}, range(case.num_ranks)
    phases = {"allocate": register_us / 2, "register": register_us, "deregister": register_us / 4}
    kernel = KernelRow(name=_KERNELS.get(arm, "memcpy"), grid=16, count=2)
    item = ProofItem(
        role="collective",
        collective="all_gather",
        size_bytes=case.gathered.size_bytes,
        verdict=verdict,
        path=_PATHS.get(arm, "unknown"),  # type: ignore[arg-type]
        algorithm="ST" if arm == "symm" else None,
        ctas=16,
        statement=statement or f"2 of 2 calls on each of {case.num_ranks} ranks: {kernel.name}, 16 CTAs (graph nodes)",
    )
    evidence = tuple(RankEvidence(rank=rank, source="graph_nodes", calls=2, kernels=(kernel,)) for rank in ranks)
    free = [None if free_bytes is None else tuple(b - MIB * (rank == ranks[-1]) for b in free_bytes) for rank in ranks]
    window = case.total_bytes if arm == "symm" else None
    one_us = 20_000.0 if is_first else register_us / case.num_buffers
    defaults: dict[str, Any] = {
        "tool_version": "0.1.0",
        "case_id": case.case_id,
        "arm": arm,
        "status": status,
        "origin": origin,
        "reason": None if reason is None else Reason(code=reason[0], text=reason[1]),
        "case": case,
        "arm_spec": make_arm(arm, origin=origin),
        "case_digest": digest(case.model_dump()),
        "arm_digest": digest(arm),
        "plan_digest": "0123456789abcdef",
        "launch": launch,
        "environment_id": None if status == "skipped" else f"e{launch}",
        "execution": make_execution(arms, set_id=0) if ran else None,
        "samples": {f"{name}.host": make_phase(us, num_ranks=case.num_ranks) for name, us in phases.items()}
        if status == "ok"
        else {},
        "proof": Proof(verdict=verdict, path=item.path, items=(item,), evidence=evidence) if ran else None,
        "verification": Verification(
            num_slots=2,
            poisoned=True,
            num_wrong=0 if status == "ok" else 5,
            num_checked=1000,
            max_error=0.0,
            rms_error=0.0,
            tolerance=0.0,
        )
        if ran
        else None,
        "sides": {
            "buffers": Side(
                allocator="pool",
                registration="window" if window else "registered",
                window_offset_bytes=None,
                window_bytes=window,
                alignment_bytes=1,
                num_slots=case.num_buffers,
                slot_stride_bytes=max(case.sizes),
                in_place=True,
                l2_resident=None,
            )
        }
        if ran
        else {},
        "memory": tuple(
            Memory(
                rank=rank,
                buffers_bytes=case.total_bytes,
                registered_bytes=case.total_bytes,
                free_before_bytes=found[0] if found else None,
                free_after_bytes=found[1] if found else None,
                free_released_bytes=found[2] if found else None,
            )
            for rank, found in zip(ranks, free, strict=True)
        )
        if ran
        else (),
        "costs": Costs(
            communicator_us=(250_000.0,) * case.num_ranks,
            registration_us=(one_us,) * case.num_ranks,
            first_registration=is_first,
            num_registrations=1,
            deregistration_us=(one_us / 10,) * case.num_ranks,
        )
        if ran
        else Costs(),
    }
    return Record.model_validate({**defaults, **fields})


def registration_run() -> Run:
    """Three launches on eight GPUs: two arms that register and one that does not, a set that timed out, one that fell
    back, and a whole model's buffers."""
    arms = ("none", *ARMS)
    cases = make_cases(
        sizes=[64 * KIB, 16 * MIB], numbers=[1, 64], num_ranks=8, listed=[1002 * MIB, *[112 * MIB] * 32, 8 * KIB]
    )
    records = []
    for launch in range(3):
        for number, case in enumerate(cases):
            for arm, us in (("registered", 12.0), ("symm", 310.0)):
                if (launch, number, arm) == (2, 3, "symm"):
                    continue
                total = case.total_bytes + 2 * MIB * case.num_buffers
                records.append(
                    make_registration_record(
                        arm,
                        case=case,
                        arms=arms,
                        launch=launch,
                        register_us=us * case.num_buffers * (1 + launch / 50),
                        is_first=number == launch,
                        free_bytes=(139 * GIB, 139 * GIB - total, 139 * GIB - (4 * MIB if number == 2 else 0)),
                        **_fallen(arm, number),
                    )
                )
            skip = ("nothing_to_register", "none registers nothing, so there is no registration to time")
            records.append(
                make_registration_record("none", case=case, arms=arms, launch=launch, status="skipped", reason=skip)
            )
    stuck = ("timeout", "rank 3 stuck in stage blocks, arm symm, for 61 s")
    records.append(make_registration_record("symm", case=cases[3], arms=arms, launch=2, status="timeout", reason=stuck))
    fields = {"gpus": ("NVIDIA H200",) * 8, "driver": "580.65.06", "command": COMMAND}
    return Run(
        records=records,
        environments={f"e{launch}": make_environment(launch, **fields) for launch in range(3)},
        scenario=make_registration_scenario(arms),
    )


def shared_registration_run() -> Run:
    """Two ranks on one GPU: the host's times of the calls are shown, with where they come from."""
    cases = make_cases(sizes=[64 * KIB])
    records = [
        make_registration_record(arm, case=case, register_us=us * case.num_buffers, origin="shared_gpu", is_first=not n)
        for n, case in enumerate(cases)
        for arm, us in (("registered", 9.0), ("symm", 200.0))
    ]
    environment = make_environment(gpus=("NVIDIA H200",), driver="580.65.06", command=SHARED_COMMAND)
    return Run(records=records, environments={"e0": environment}, scenario=make_registration_scenario(ARMS))


def make_registration_scenario(arms: Sequence[str]) -> Any:
    """Its name, arms and `functional` matter to reports."""
    workload = {"kind": "registration", "buffer_sizes": [64 * KIB]}
    return build_scenario({"name": "registration", "workload": workload, "arms": list(arms)}, origin="test")


def _fallen(arm: str, number: int) -> dict[str, Any]:
    if (arm, number) != ("symm", 1):
        return {}
    statement = "2 of 2 calls on each of 8 ranks: ncclSymkDevKernel_AllGather_ST, 16 CTAs (graph nodes); NULL windows"
    return {"verdict": "fell_back", "statement": f"{statement} on rank 3: 2"}
