"""Records from what the ranks sent."""

import math
from typing import Any

import pytest

from gtpbench.errors import ExitCode
from gtpbench.launch.assemble import failed_record, measured_record, origin_of, skipped_record
from gtpbench.launch.attempt import Failure
from gtpbench.measure.cell import RankCell, RankClock, RankSeries
from gtpbench.plan import Plan
from gtpbench.record import Record
from gtpbench.record.model import BlockState, Execution, Memory, ProcessState, Side, Verification
from gtpbench.versions import SkipReason
from tests.examples import make_plan
from tests.unit.measure.kernels import AG, AG_RING, kernel, legacy_line, mangled
from tests.unit.measure.kernels import rank as rank_sees

PLAN = make_plan(workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]})
ESSENTIAL = 32768
"""Half of 64 KiB: what one of two ranks sends."""


def _clock(rank: int, *, k: int = 2, alignment: str = "flag barrier", issue_us: float = 1.0) -> RankClock:
    """Two blocks of three intervals, after warm-ups of one interval each."""
    return RankClock(
        k=k,
        alignment=alignment,
        timed=RankSeries(
            time_us=((10.0 + rank, 11.0, 12.0), (13.0, 14.0, 15.0)),
            issue_us=((issue_us,) * 3,) * 2,
            start_us=(0.0, 100.0),
            wall_us=(50.0, 60.0),
        ),
        warmup=RankSeries(
            time_us=((90.0,), (91.0,)), issue_us=((issue_us,),) * 2, start_us=(0.0, 90.0), wall_us=(5.0, 6.0)
        ),
    )


def _cell(rank: int, *, checked: dict[str, Any] | None = None, **changed: Any) -> RankCell:
    """Two blocks of three intervals of two operations, after a warm-up of two operations each; on a CPU."""
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
        "clocks": {"host": _clock(rank)},
        "operations": 16,
        "counters": {"sent_bytes": 2 * 16 * ESSENTIAL} if rank == 0 else {},
        "evidence": (),
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
        "num_registrations": 0,
        "first_registration": False,
        "deregistration_us": 0.0,
        "capture_us": None,
        "block_states": tuple(
            BlockState(rank=rank, block=block, load_average=load) for block, load in enumerate((0.5, 0.75))
        ),
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


def _measured(
    *cells: RankCell, plan: Plan = PLAN, arm: str = "none", log_lines: tuple[str, ...] | None = None
) -> Record:
    return measured_record(
        plan,
        plan.cases[0],
        plan.arm(arm),
        cells or (_cell(0), _cell(1)),
        execution=EXECUTION,
        launch=3,
        environment_id="e3",
        nccl_version="2.30.7",
        log_lines=log_lines,
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


# GPUs

GPU = {
    "backend": "nccl_torch",
    "measure": {"clock": "both"},
    "workload": {"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]},
}
GPU_PLAN = make_plan(**GPU)
SYMMETRIC, LEGACY = AG.format("ST"), AG_RING


def _gpu_cell(rank: int, *, kernel_name: str = SYMMETRIC, nulls: int = 0, **changed: Any) -> RankCell:
    """Graphs of 16 operations and single calls, of which 8 were traced; two buffers registered."""
    counters = {"windows": 2 - nulls, "null_windows": nulls}
    fields: dict[str, Any] = {
        "clocks": {
            "graph": _clock(rank, k=16, alignment="previous_replay", issue_us=0.2),
            "stream": _clock(rank, k=1, alignment="device_all_reduce", issue_us=30.0 + rank),
        },
        "counters": counters,
        "evidence": (
            rank_sees(rank, kernel(mangled(kernel_name), count=16), calls=16, counters=counters),
            rank_sees(rank, kernel(kernel_name, count=8), clock="stream", calls=8, counters=counters),
        ),
        "process": ProcessState(
            rank=rank,
            process_group="ProcessGroupNCCL",
            num_communicators=1,
            num_windows=2,
            num_pools=1,
            cta_policy="default",
            coalesced="grouped",
        ),
        "registration_us": 500.0 + rank,
        "num_registrations": 2,
        "first_registration": True,
        "capture_us": 900.0 + rank,
        "block_states": (BlockState(rank=rank, block=0, sm_clock_mhz=1980, throttle_reasons=("sw_power_cap",)),),
    }
    return _cell(rank, **{**fields, **changed})


def _gpu(*cells: RankCell, arm: str = "symm", plan: Plan = GPU_PLAN, **other: Any) -> Record:
    return _measured(*(cells or (_gpu_cell(0), _gpu_cell(1))), plan=plan, arm=arm, **other)


def test_every_clock_is_a_series() -> None:
    """Warm-ups too. Issue times are the stream's alone: replays queue up behind one another."""
    record = _gpu()
    assert ("ok", "measured") == (record.status, record.origin)
    assert ["step.graph", "step.stream"] == list(record.samples) == list(record.warmup)
    graph, stream = record.samples["step.graph"], record.samples["step.stream"]
    assert ("graph", 16, "previous_replay") == (graph.clock, graph.k, graph.alignment)
    assert ("stream", 1, "device_all_reduce") == (stream.clock, stream.k, stream.alignment)
    assert graph.issue_us is record.warmup["step.graph"].issue_us is None
    assert (((30.0,) * 3,) * 2, ((31.0,) * 3,) * 2) == stream.issue_us
    assert (((10.0, 11.0, 12.0), (13.0, 14.0, 15.0)), ((11.0, 11.0, 12.0), (13.0, 14.0, 15.0))) == graph.time_us


def test_the_hosts_clock_has_no_issue_time() -> None:
    """Issuing is the operation itself."""
    assert _measured().samples["step.host"].issue_us is None


def test_kernels_prove_the_path_of_every_clock() -> None:
    """From what each rank saw in the timed objects: symmetric kernels are what `symm` asks for."""
    proof = _gpu().proof
    assert proof is not None
    assert [("graph", "proved", "symm_lsa"), ("stream", "proved", "symm_lsa")] == [
        (item.clock, item.verdict, item.path) for item in proof.items
    ]
    assert ("proved", "symm_lsa") == (proof.verdict, proof.path)
    assert 4 == len(proof.evidence)
    assert {"graph_nodes", "cupti"} == {item.source for item in proof.evidence}


def test_null_windows_on_one_rank_are_a_fallback() -> None:
    """A legacy kernel where windows were asked for and NCCL made none."""
    cells = (_gpu_cell(0, kernel_name=LEGACY), _gpu_cell(1, kernel_name=LEGACY, nulls=2))
    proof = _gpu(*cells).proof
    assert proof is not None
    assert "fell_back" == proof.verdict
    assert "NULL windows on rank 1: 2" in proof.items[0].statement


def test_a_rank_that_could_not_look_proves_nothing() -> None:
    """The times stay: they were taken before."""
    blind = tuple(
        item.model_copy(update={"calls": None, "kernels": (), "error": "no cuda-bindings"})
        for item in _gpu_cell(1).evidence
    )
    record = _gpu(_gpu_cell(0), _gpu_cell(1, evidence=blind))
    assert record.proof is not None
    assert ("ok", "unproven") == (record.status, record.proof.verdict)


def test_another_launchs_log_tells_ring_from_nvls() -> None:
    """It is evidence of the whole case, beside that of the clocks."""
    cells = (_gpu_cell(0, kernel_name=LEGACY), _gpu_cell(1, kernel_name=LEGACY))
    without = _gpu(*cells, arm="none").proof
    lines = (legacy_line("all_gather", 65536 // 2, algorithm="RING"),)
    proof = _gpu(*cells, arm="none", log_lines=lines).proof
    assert without is not None
    assert proof is not None
    assert ("unknown", "ring") == (without.path, proof.path)
    assert [(0, "tuning_log", None, lines)] == [
        (item.rank, item.source, item.clock, item.lines) for item in proof.evidence if item.source == "tuning_log"
    ]


def test_costs_of_a_gpu_cell() -> None:
    """Capture on every rank; registration with the number of buffers, and whether the process had registered before."""
    costs = _gpu().costs
    assert ((500.0, 501.0), True, 2) == (costs.registration_us, costs.first_registration, costs.num_registrations)
    assert (900.0, 901.0) == costs.capture_us
    later = [_gpu_cell(rank, first_registration=False) for rank in range(2)]
    assert _gpu(*later).costs.first_registration is False


def test_without_registrations_or_graphs_there_are_no_such_costs() -> None:
    """Not known is not zero: nothing was registered first, or captured."""
    cells = [
        _gpu_cell(rank, num_registrations=0, first_registration=False, capture_us=None, kernel_name=LEGACY)
        for rank in range(2)
    ]
    costs = _gpu(*cells, arm="none").costs
    assert costs.first_registration is costs.num_registrations is costs.capture_us is None


def test_states_of_every_gpu_are_kept() -> None:
    """Each rank has one of its own; the ranks of a CPU host share the load, which is told once."""
    assert [(0, 1980), (1, 1980)] == [(state.rank, state.sm_clock_mhz) for state in _gpu().block_states]
    assert {0} == {state.rank for state in _measured().block_states}


@pytest.mark.parametrize(("ranks_per_gpu", "origin"), [(1, "measured"), (2, "shared_gpu")])
def test_ranks_that_share_a_gpu_are_another_origin(ranks_per_gpu: int, origin: str) -> None:
    """Their times say nothing about GPUs of their own; the proof is the same."""
    plan = make_plan(**GPU, ranks_per_gpu=ranks_per_gpu)
    record = _gpu(plan=plan)
    assert origin == record.origin == origin_of(plan, plan.arm("none"))
    assert record.proof is not None
    assert "proved" == record.proof.verdict


def test_only_gpus_can_be_shared() -> None:
    """A stand-in is modelled, however many ranks its scenario puts on a GPU."""
    plan = make_plan(backend="standin", ranks_per_gpu=2)
    assert "modelled" == origin_of(plan, plan.arm("symm"))


def test_windows_share_the_address_space_that_the_log_names() -> None:
    """On every rank; None where no log was read."""
    line = "NCCL INFO Symmetric VA size=144GB"
    assert {None} == {state.symmetric_va_bytes for state in _gpu().memory}
    told = _gpu(log_lines=(line,)).memory
    assert [144 * 2**30] * 2 == [state.symmetric_va_bytes for state in told]
