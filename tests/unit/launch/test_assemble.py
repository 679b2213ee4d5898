"""Records from what the ranks sent."""

import math

import pytest

from gtpbench.errors import ExitCode
from gtpbench.launch.assemble import failed_record, origin_of, skipped_record
from gtpbench.launch.attempt import Failure
from gtpbench.versions import SkipReason
from tests.examples import make_plan
from tests.unit.launch.cells import ESSENTIAL, PLAN, make_cell, measured


def test_a_measured_cell() -> None:
    """Series by rank as they were sent, warm-ups apart, the slowest rank's stages, one rank's load."""
    record = measured()
    assert ("ok", "cpu", 3, "e3", PLAN.digest, None) == (
        record.status,
        record.origin,
        record.launch,
        record.environment_id,
        record.plan_digest,
        record.reason,
    )
    assert ["step.host"] == list(record.samples) == list(record.warmup)
    samples = record.samples["step.host"]
    assert (2, "host", "flag barrier") == (samples.k, samples.clock, samples.alignment)
    assert (((10.0, 11.0, 12.0), (13.0, 14.0, 15.0)), ((11.0, 11.0, 12.0), (13.0, 14.0, 15.0))) == samples.time_us
    assert (((90.0,), (91.0,)),) * 2 == record.warmup["step.host"].time_us
    assert {"warmup": 2.0, "verify": 2.0} == record.stage_seconds
    assert record.costs.communicator_us == (1000.0, 1001.0)
    assert record.costs.capture_us is record.costs.num_registrations is record.costs.first_registration is None
    assert record.traffic is not None
    assert (ESSENTIAL, (ESSENTIAL, ESSENTIAL + 1)) == (record.traffic.essential_bytes, record.traffic.wire_bytes)
    assert [(0, 0, 0.5), (0, 1, 0.75)] == [(s.rank, s.block, s.load_average) for s in record.block_states]


def test_proof_is_of_all_operations_of_all_ranks() -> None:
    """16 operations of two ranks with 32768 B each: exactly that is sockets, one tenth less is not."""
    proof = measured().proof
    assert proof is not None
    assert ("by_construction", "socket") == (proof.verdict, proof.path)
    assert f"carried {32 * ESSENTIAL} B for {32 * ESSENTIAL} B" in proof.items[0].statement
    less = measured(make_cell(0, counters={"sent_bytes": int(0.9 * 32 * ESSENTIAL)}), make_cell(1)).proof
    assert less is not None
    assert "unproven" == less.verdict


def test_verification_of_all_ranks() -> None:
    """Counts add up, the largest error is the largest, rms over all elements: sqrt((0.09 + 0.16) / 2)."""
    verification = measured().verification
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
    verification = measured(make_cell(0), make_cell(1, checked={"poisoned": False})).verification
    assert verification is not None
    assert not verification.poisoned


def test_wrong_data_on_one_rank_takes_the_timings_away() -> None:
    """Status, reason with the numbers, no samples; the proof stays."""
    record = measured(make_cell(0), make_cell(1, checked={"num_wrong": 7, "max_error": 3.5}))
    assert ("wrong_result", {}, {}) == (record.status, record.samples, record.warmup)
    assert record.reason is not None
    assert "wrong_data" == record.reason.code
    assert "7 of 200 checked elements are wrong (largest error 3.5, allowed 0.5)" == record.reason.text
    assert record.proof is not None


def test_a_modelled_cell_is_no_measurement() -> None:
    """Origin and path say so."""
    plan = make_plan(backend="standin", workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]})
    record = measured(plan=plan)
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
    one, other = measured(), measured(arm="symm")
    assert one.case_digest == other.case_digest
    assert one.arm_digest != other.arm_digest
    assert 16 == len(one.arm_digest)
