"""Records from what ranks on GPUs sent: two clocks, kernels for proof, one-off costs, shared GPUs."""

from typing import Any

import pytest

from gtpbench.launch.assemble import origin_of
from gtpbench.measure.cell import RankCell
from gtpbench.plan import Plan
from gtpbench.record import Record
from gtpbench.record.model import BlockState, ProcessState
from tests.examples import make_plan
from tests.unit.launch.cells import make_cell, make_clock, measured
from tests.unit.measure.kernels import AG, AG_RING, kernel, legacy_line, mangled
from tests.unit.measure.kernels import rank as rank_sees

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
            "graph": make_clock(rank, k=16, alignment="previous_replay", issue_us=0.2),
            "stream": make_clock(rank, k=1, alignment="device_all_reduce", issue_us=30.0 + rank),
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
    return make_cell(rank, **{**fields, **changed})


def _gpu(*cells: RankCell, arm: str = "symm", plan: Plan = GPU_PLAN, **other: Any) -> Record:
    return measured(*(cells or (_gpu_cell(0), _gpu_cell(1))), plan=plan, arm=arm, **other)


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
    assert measured().samples["step.host"].issue_us is None


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
    assert {0} == {state.rank for state in measured().block_states}


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
