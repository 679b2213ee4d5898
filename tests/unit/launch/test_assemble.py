"""Records from what the ranks sent."""

import math
from typing import Any

import pytest

from gtpbench.errors import ExitCode
from gtpbench.launch.assemble import failed_record, measured_record, origin_of, skipped_record
from gtpbench.launch.attempt import Failure
from gtpbench.measure.cell import RankCell
from gtpbench.plan import Plan
from gtpbench.record import Record
from gtpbench.record.model import Execution, Memory, ProcessState, Side, Verification
from gtpbench.versions import SkipReason
from tests.examples import make_plan

PLAN = make_plan(workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]})
ESSENTIAL = 32768
"""Half of 64 KiB: what one of two ranks sends."""


def _cell(rank: int, *, checked: dict[str, Any] | None = None, **changed: Any) -> RankCell:
    """Two blocks of three intervals of two operations, after a warm-up of two operations each."""
    side = Side(
        allocator="gloo:plain",
        registration="plain",
        window_offset_bytes=None,
        window_bytes=None,
        alignment_bytes=4096,
        num_slots=4,
        slot_stride_bytes=65536,
        in_place=False,
        l2_resident=True,
    )
    fields: dict[str, Any] = {
        "rank": rank,
        "k": 2,
        "alignment": "flag barrier",
        "time_us": ((10.0 + rank, 11.0, 12.0), (13.0, 14.0, 15.0)),
        "start_us": (0.0, 100.0),
        "wall_us": (50.0, 60.0),
        "warmup_time_us": ((90.0,), (91.0,)),
        "warmup_start_us": (0.0, 90.0),
        "warmup_wall_us": (5.0, 6.0),
        "operations": 16,
        "counters": {"sent_bytes": 2 * 16 * ESSENTIAL} if rank == 0 else {},
        "kernels": (),
        "verification": Verification(
            **{
                "num_slots": 4,
                "poisoned": True,
                "num_wrong": 0,
                "num_checked": 100,
                "max_error": 0.25 * rank,
                "rms_error": 0.3 if rank == 0 else 0.4,
                "tolerance": 0.5,
                **(checked or {}),
            }
        ),
        "essential_bytes": ESSENTIAL,
        "wire_bytes": ESSENTIAL + rank,
        "sides": {"send": side, "recv": side},
        "process": ProcessState(
            rank=rank, process_group="gloo", num_communicators=1, num_windows=0, num_pools=1, coalesced="emulated"
        ),
        "memory": Memory(rank=rank, buffers_bytes=1, registered_bytes=0, free_before_bytes=None, free_after_bytes=None),
        "communicator_us": 1000.0 + rank,
        "registration_us": 0.0,
        "deregistration_us": 0.0,
        "load_average": (0.5, 0.75),
        "stage_seconds": {"warmup": 1.0 + rank, "verify": 2.0 - rank},
    }
    return RankCell(**{**fields, **changed})


EXECUTION = Execution(
    run_id="run",
    attempt=0,
    set_id=0,
    seed=0,
    block_order=(("none", "symm"), ("symm", "none")),
    case_position=0,
    group_ranks=(0, 1),
    num_iterations=12,
)


def _measured(*cells: RankCell, plan: Plan = PLAN, arm: str = "none") -> Record:
    return measured_record(
        plan,
        plan.cases[0],
        plan.arm(arm),
        cells or (_cell(0), _cell(1)),
        execution=EXECUTION,
        launch=3,
        environment_id="e3",
        fault=None,
    )


def test_a_measured_cell() -> None:
    """Series by rank as they were sent, warm-ups apart, the slowest rank's stages, one rank's load."""
    record = _measured()
    assert ("ok", "cpu", 3, "e3", PLAN.digest, None) == (
        record.status,
        record.origin,
        record.launch,
        record.environment_id,
        record.plan_digest,
        record.reason,
    )
    samples = record.samples["step.host"]
    assert (2, "host", "flag barrier") == (samples.k, samples.clock, samples.alignment)
    assert (((10.0, 11.0, 12.0), (13.0, 14.0, 15.0)), ((11.0, 11.0, 12.0), (13.0, 14.0, 15.0))) == samples.time_us
    assert (((90.0,), (91.0,)),) * 2 == record.warmup["step.host"].time_us
    assert {"warmup": 2.0, "verify": 2.0} == record.stage_seconds
    assert record.costs.communicator_us == (1000.0, 1001.0)
    assert record.traffic is not None
    assert (ESSENTIAL, (ESSENTIAL, ESSENTIAL + 1)) == (record.traffic.essential_bytes, record.traffic.wire_bytes)
    assert [(0, 0, 0.5), (0, 1, 0.75)] == [(s.rank, s.block, s.load_average) for s in record.block_states]


def test_proof_is_of_all_operations_of_all_ranks() -> None:
    """16 operations of two ranks with 32768 B each: exactly that is sockets, one tenth less is not."""
    proof = _measured().proof
    assert proof is not None
    assert ("by_construction", "socket") == (proof.verdict, proof.path)
    assert f"carried {32 * ESSENTIAL} B for {32 * ESSENTIAL} B" in proof.items[0].statement
    less = _measured(_cell(0, counters={"sent_bytes": int(0.9 * 32 * ESSENTIAL)}), _cell(1)).proof
    assert less is not None
    assert "unproven" == less.verdict


def test_verification_of_all_ranks() -> None:
    """Counts add up, the largest error is the largest, rms over all elements: sqrt((0.09 + 0.16) / 2)."""
    verification = _measured().verification
    assert verification is not None
    assert (4, True, 0, 200, 0.25, 0.5) == (
        verification.num_slots,
        verification.poisoned,
        verification.num_wrong,
        verification.num_checked,
        verification.max_error,
        verification.tolerance,
    )
    assert math.sqrt(0.125) == pytest.approx(verification.rms_error)


def test_one_rank_without_poison_is_not_poisoned() -> None:
    """All or nothing."""
    verification = _measured(_cell(0), _cell(1, checked={"poisoned": False})).verification
    assert verification is not None
    assert not verification.poisoned


def test_wrong_data_on_one_rank_takes_the_timings_away() -> None:
    """Status, reason with the numbers, no samples; the proof stays."""
    record = _measured(_cell(0), _cell(1, checked={"num_wrong": 7, "max_error": 3.5}))
    assert ("wrong_result", {}, {}) == (record.status, record.samples, record.warmup)
    assert record.reason is not None
    assert "wrong_data" == record.reason.code
    assert "7 of 200 checked elements are wrong (largest error 3.5, allowed 0.5)" == record.reason.text
    assert record.proof is not None


def test_a_modelled_cell_is_no_measurement() -> None:
    """Origin and path say so."""
    plan = make_plan(backend="standin", workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]})
    record = _measured(plan=plan)
    assert "modelled" == record.origin
    assert record.proof is not None
    assert ("by_construction", "modelled") == (record.proof.verdict, record.proof.path)
    assert {"model"} == {item.source for item in record.proof.evidence}


def test_a_skipped_cell() -> None:
    """Nothing was started, so there is no environment."""
    reason = SkipReason(code="one_host", text="a CPU window spans one host")
    record = skipped_record(PLAN, PLAN.cases[0], PLAN.arm("symm"), reason, launch=1, fault=None)
    assert ("skipped", "symm", 1, None) == (record.status, record.arm, record.launch, record.environment_id)
    assert record.reason is not None
    assert ("one_host", "a CPU window spans one host") == (record.reason.code, record.reason.text)


def test_a_failed_cell() -> None:
    """Status and text of the failure, and the fault that a test injected."""
    failure = Failure(
        status="timeout",
        code="timeout",
        text="rank 1 stuck",
        exit_code=ExitCode.FAILED,
        set_id=0,
        stage="blocks",
        case=0,
        arm=0,
    )
    record = failed_record(
        PLAN,
        PLAN.cases[0],
        PLAN.arm("none"),
        failure,
        execution=None,
        launch=0,
        environment_id="e0",
        fault="hang rank=1",
    )
    assert ("timeout", "hang rank=1", {}) == (record.status, record.test_fault, record.samples)
    assert record.reason is not None
    assert "rank 1 stuck" == record.reason.text


def test_an_arm_without_a_backend_has_the_plans_origin() -> None:
    """So that its skipped rows stand beside the others; where no arm has a backend the ranks are CPUs."""
    plan = make_plan(arms=["symm:ce", "none"])
    assert "cpu" == origin_of(plan, plan.arm("symm:ce"))
    alone = make_plan(arms=["symm:ce"])
    assert "cpu" == origin_of(alone, alone.arm("symm:ce"))
    gpus = make_plan(backend="nccl_torch", measure={"clock": "graph"})
    assert "measured" == origin_of(gpus, gpus.arm("symm"))


def test_digests_tell_cells_apart() -> None:
    """Of case and arm, equal in every launch."""
    one, other = _measured(), _measured(arm="symm")
    assert one.case_digest == other.case_digest
    assert one.arm_digest != other.arm_digest
    assert 16 == len(one.arm_digest)
