"""Records of registration cases, from what ranks sent."""

from typing import Any

import pytest

from gtpbench.launch.registration_record import registration_record
from gtpbench.measure.registration import PhaseTimes, RankRegistration
from gtpbench.plan import Plan, RegistrationCase
from gtpbench.record import Record
from gtpbench.record.model import (
    Execution,
    KernelRow,
    Memory,
    ProcessState,
    ProofItem,
    ProofVerdict,
    RankEvidence,
    Side,
    Verification,
)
from tests.examples import make_plan

WORKLOAD = {"kind": "registration", "buffer_sizes": ["1M"], "num_buffers": [4], "max_total_bytes": "1G"}
SYMMETRIC, LEGACY = "ncclSymkDevKernel_AllGather_ST", "ncclDevKernel_AllGather_RING_LL"
GATHERED = 2**20
"""Bytes of each of the two all-gathers; one of two ranks sends half."""


def _plan(backend: str) -> Plan:
    return make_plan(workload=WORKLOAD, arms=["registered", "symm"], backend=backend)


def _times(*us: float) -> PhaseTimes:
    return PhaseTimes(time_us=us, start_us=tuple(range(len(us))), wall_us=tuple(2.0 * each for each in us))


def _cell(rank: int, *, kernel: str | None = None, num_wrong: int = 0, **changed: Any) -> RankRegistration:
    """Two blocks; on GPUs with the kernel that its two all-gathers ran."""
    counters = changed.pop("counters", {"null_windows": 0, "registered": 4})
    rows = () if kernel is None else (KernelRow(name=kernel, grid=9, count=2),)
    evidence = RankEvidence(rank=rank, source="graph_nodes", calls=2, kernels=rows, counters=counters)
    fields: dict[str, Any] = {
        "rank": rank,
        "phases": {
            "allocate": _times(5.0, 6.0),
            "register": _times(100.0 + rank, 110.0),
            "deregister": _times(20.0, 30.0),
        },
        "single_us": 900.0 + rank,
        "is_first": True,
        "single_deregistration_us": 8.0,
        "gathers": 2,
        "counters": counters,
        "evidence": () if kernel is None else (evidence,),
        "verification": Verification(
            num_slots=2,
            poisoned=True,
            num_wrong=num_wrong,
            num_checked=2 * GATHERED,
            max_error=float(num_wrong),
            rms_error=0.0,
            tolerance=0.0,
        ),
        "side": Side(
            allocator="x:window",
            registration="window",
            window_offset_bytes=0,
            window_bytes=4 * 2**20,
            alignment_bytes=1,
            num_slots=4,
            slot_stride_bytes=2**20,
            in_place=True,
            l2_resident=None,
        ),
        "process": ProcessState(rank=rank, process_group="x", num_communicators=1, num_windows=4, num_pools=1),
        "memory": Memory(
            rank=rank,
            buffers_bytes=4,
            registered_bytes=4,
            free_before_bytes=90,
            free_after_bytes=80,
            free_released_bytes=90,
        ),
        "communicator_us": 5.0 + rank,
        "stage_seconds": {"blocks": 1.0 + rank},
    }
    return RankRegistration(**{**fields, **changed})


def _record(*cells: RankRegistration, backend: str = "nccl_torch", arm: str = "symm") -> Record:
    plan = _plan(backend)
    case = plan.cases[0]
    assert isinstance(case, RegistrationCase)
    execution = Execution(
        run_id="run",
        attempt=0,
        set_id=0,
        seed=0,
        block_order=((arm,), (arm,)),
        case_position=0,
        group_ranks=(0, 1),
        num_iterations=2,
    )
    return registration_record(
        plan,
        case,
        plan.arm(arm),
        cells,
        execution=execution,
        launch=3,
        environment_id="e3",
        nccl_version="2.30.7" if backend.startswith("nccl") else None,
        fault=None,
    )


def _only(record: Record) -> ProofItem:
    assert record.proof is not None
    (item,) = record.proof.items
    assert (item.verdict, item.path) == (record.proof.verdict, record.proof.path)
    return item


def test_a_registration_that_ran() -> None:
    """Three series, an iteration a block; the buffer before the first block is in the costs; the slowest stages."""
    record = _record(_cell(0, kernel=SYMMETRIC), _cell(1, kernel=SYMMETRIC))
    assert ("ok", "measured", 3, "registration/4x1048576/n2") == (
        record.status,
        record.origin,
        record.launch,
        record.case_id,
    )
    assert ["allocate.host", "register.host", "deregister.host"] == list(record.samples)
    samples = record.samples["register.host"]
    assert ("host", 1, (((100.0,), (110.0,)), ((101.0,), (110.0,)))) == (samples.clock, samples.k, samples.time_us)
    assert ((200.0, 220.0), (202.0, 220.0)) == samples.block_wall_us
    costs = record.costs
    assert ((900.0, 901.0), True, 1) == (costs.registration_us, costs.first_registration, costs.num_registrations)
    assert ((8.0, 8.0), (5.0, 6.0)) == (costs.deregistration_us, costs.communicator_us)
    assert {"blocks": 2.0} == record.stage_seconds
    assert [90, 90] == [state.free_released_bytes for state in record.memory]
    assert 4 * 2**20 == record.sides["buffers"].window_bytes
    assert record.traffic is None
    assert record == Record.model_validate_json(record.model_dump_json())


def test_wrong_data_has_no_times() -> None:
    """As everywhere."""
    record = _record(_cell(0, kernel=SYMMETRIC), _cell(1, kernel=SYMMETRIC, num_wrong=3))
    assert ("wrong_result", {}) == (record.status, record.samples)
    assert record.reason is not None
    assert f"3 of {4 * GATHERED} checked elements are wrong" in record.reason.text


@pytest.mark.parametrize(
    ("arm", "kernel", "verdict", "path"),
    [
        ("symm", SYMMETRIC, "proved", "symm_lsa"),
        ("symm", LEGACY, "fell_back", "unknown"),
        ("registered", LEGACY, "proved", "unknown"),
        ("registered", SYMMETRIC, "fell_back", "symm_lsa"),
        ("symm", None, "unproven", "unknown"),
    ],
)
def test_proof_is_by_the_kernel_of_the_gathers(arm: str, kernel: str | None, verdict: ProofVerdict, path: str) -> None:
    """A window must have been used; plain registration goes with a legacy kernel."""
    item = _only(_record(_cell(0, kernel=kernel), _cell(1, kernel=kernel), arm=arm))
    assert (verdict, path, "all_gather", GATHERED) == (item.verdict, item.path, item.collective, item.size_bytes)


def test_plain_registration_that_is_none() -> None:
    """Nothing proves it where a rank counts no registered buffer."""
    missing = _cell(1, kernel=LEGACY, counters={"null_windows": 0, "registered": 0})
    item = _only(_record(_cell(0, kernel=LEGACY), missing, arm="registered"))
    assert "unproven" == item.verdict
    assert "no buffer is registered on rank 1" in item.statement


@pytest.mark.parametrize("kernel", [SYMMETRIC, LEGACY])
def test_null_windows_fell_back(kernel: str) -> None:
    """Also where the ends of the set are windows and the symmetric kernel ran: some in between are none."""
    null = _cell(1, kernel=kernel, counters={"null_windows": 2, "registered": 0})
    item = _only(_record(_cell(0, kernel=kernel), null))
    assert "fell_back" == item.verdict
    assert item.statement.endswith("NULL windows on rank 1: 2")
    assert 1 == item.statement.count("NULL windows")


def test_windows_of_cpu_ranks_hold_by_construction() -> None:
    """Next to nothing crossed the interfaces, and each maps its peer; bytes there are sockets."""
    quiet = {"sent_bytes": 10, "peer_mappings": 1}
    item = _only(_record(_cell(0, counters=quiet), _cell(1, counters={"peer_mappings": 1}), backend="cpu"))
    assert ("by_construction", "shared_memory") == (item.verdict, item.path)
    assert f"carried 10 B for {2 * GATHERED} B" in item.statement
    loud = {"sent_bytes": 2 * GATHERED, "peer_mappings": 1}
    item = _only(_record(_cell(0, counters=loud), _cell(1, counters={"peer_mappings": 1}), backend="cpu"))
    assert ("fell_back", "socket") == (item.verdict, item.path)


def test_modelled_times_prove_nothing() -> None:
    """They are by construction."""
    record = _record(_cell(0, counters={}), _cell(1, counters={}), backend="standin")
    assert ("modelled", "modelled") == (record.origin, _only(record).path)
