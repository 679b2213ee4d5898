"""Runs as two ranks on one H200 leave them: both clocks, kernels of graph and stream, errors, costs.

All-gather and reduce-scatter times at 64 KiB and 4 MiB are those measured with 100 captured operations; kernel names,
CTAs (9 against 64), copies of the copy engine (4 and 2 memory operations a call) and stream times (75 us plain, 92 us
symmetric, whatever the size) were measured too. Costs and errors are made up.
"""

from collections.abc import Mapping
from typing import Any

from gtpbench.plan import Case
from gtpbench.record import Proof, Record, Samples, Verification
from gtpbench.record.model import Costs, KernelRow, Memory, ProofItem, RankEvidence, Side
from tests.unit.report.factory import KIB, MIB, make_case, make_environment, make_record, make_samples
from tests.unit.report.run import Run, jittered, make_scenario

ARMS = ("none", "symm", "symm:recv", "symm:ce")
SIZES = (64 * KIB, 4 * MIB, 64 * MIB)
COMMAND = ("gtpbench", "run", "scenarios/hardware/h200.toml", "--ranks-per-gpu", "2")
GIB = 2**30

GRAPH_US: Mapping[tuple[str, str], tuple[float, float, float]] = {
    ("all_gather", "none"): (5.94, 44.86, 159.6),
    ("all_gather", "symm"): (3.95, 14.88, 147.4),
    ("all_gather", "symm:recv"): (3.97, 14.90, 147.9),
    ("all_gather", "symm:ce"): (15.5, 17.8, 79.9),
    ("reduce_scatter", "none"): (5.57, 34.38, 136.2),
    ("reduce_scatter", "symm"): (4.16, 13.43, 121.0),
    ("reduce_scatter", "symm:recv"): (4.20, 34.40, 136.4),
    ("reduce_scatter", "symm:ce"): (4.17, 13.45, 121.1),
}
STREAM_US = {"none": 75.0, "symm": 92.0, "symm:recv": 91.0, "symm:ce": 94.0}
"""A call from Python, which the device waits for where it is faster."""
GRAPH_K = {64 * KIB: 256, 4 * MIB: 64, 64 * MIB: 16}
STREAM_K = 8
COPIES = "copies"
NO_COPY_ENGINE = "; NCCL 2.30.7: there is no copy-engine reduce-scatter"
SEND_NEEDED = (
    "; NCCL 2.30.7: the reduce-scatter kernels for large messages need a window around the send buffer, and LL kernels "
    "do with the recv buffer's only where the legacy model picks LL as well"
)


def h200_run() -> Run:
    """One launch of both collectives; the stream of one cell could not be looked at on rank 1."""
    cases = [
        *(make_case(size_bytes=size) for size in SIZES),
        *(make_case(collective="reduce_scatter", size_bytes=size) for size in SIZES),
    ]
    records = [_record(case, arm, position) for position, case in enumerate(cases) for arm in ARMS]
    half = make_case(collective="reduce_scatter", size_bytes=4 * MIB, dtype="fp16")
    records += [_record(half, arm, len(cases)) for arm in ("none", "symm")]
    environment = make_environment(gpus=("NVIDIA H200",), driver="580.159.04", command=COMMAND)
    return Run(records=records, environments={"e0": environment}, scenario=make_scenario("h200", ARMS))


def _record(case: Case, arm: str, position: int) -> Record:
    return make_record(
        arm,
        case=case,
        samples=_samples(case, arm),
        origin="shared_gpu",
        arms=ARMS,
        proof=make_kernel_proof(case, arm),
        verification=_verification(case, arm),
        costs=_costs(case, arm, position),
        memory=tuple(_memory(case, arm, rank) for rank in range(2)),
        sides=_sides(case, arm),
    )


def _samples(case: Case, arm: str) -> dict[str, Samples]:
    graph_us = GRAPH_US[case.collective, arm][SIZES.index(case.size_bytes)]
    stream_us = max(STREAM_US[arm], graph_us + 1.0)
    seed = ARMS.index(arm) * 10 + SIZES.index(case.size_bytes)
    return {
        "step.graph": make_samples(
            jittered(graph_us, seed=seed, spread=0.01, digits=2),
            clock="graph",
            k=GRAPH_K[case.size_bytes],
            issue_us=0.1,
        ),
        "step.stream": make_samples(
            jittered(stream_us, seed=seed + 1, spread=0.03, digits=2),
            clock="stream",
            k=STREAM_K,
            issue_us=0.97 * STREAM_US[arm],
        ),
    }


def kernel_of(case: Case, arm: str) -> tuple[str, int | None]:
    """The kernel's name and CTAs, or copies, as measured for this arm and size."""
    reduces, small = case.collective == "reduce_scatter", case.size_bytes == 64 * KIB
    dtype = "f16" if case.dtype == "fp16" else "bf16"
    if arm == "symm:ce" and not reduces:
        return COPIES, None
    if arm == "none" or (arm == "symm:recv" and reduces and not small):
        return (
            f"ncclDevKernel_ReduceScatter_Sum_{dtype}_RING_LL" if reduces else "ncclDevKernel_AllGather_RING_LL"
        ), 64
    if reduces:
        return f"ncclSymkDevKernel_ReduceScatter_{'LL' if small else 'LD'}_sum_{dtype}", 9
    return f"ncclSymkDevKernel_AllGather_{'LL' if small else 'ST'}", 9


def make_kernel_proof(case: Case, arm: str) -> Proof:
    """Both clocks' items and both ranks' evidence of them."""
    items = tuple(_item(case, arm, clock) for clock in ("graph", "stream"))
    evidence = tuple(_evidence(case, arm, clock, rank) for clock in ("graph", "stream") for rank in range(2))
    verdicts = [item.verdict for item in items]
    verdict = next(worst for worst in ("unproven", "not_eligible", "proved") if worst in verdicts)
    path = next(item.path for item in items if item.verdict == verdict)
    return Proof.model_validate({"verdict": verdict, "path": path, "items": items, "evidence": evidence})


def _blind(case: Case, arm: str, clock: str) -> bool:
    return (arm, case.collective, case.size_bytes, clock) == ("symm:ce", "all_gather", 64 * KIB, "stream")


def _item(case: Case, arm: str, clock: str) -> ProofItem:
    name, ctas = kernel_of(case, arm)
    calls, source = _calls(case, clock), {"graph": "graph nodes", "stream": "CUPTI"}[clock]
    found = {"verdict": "proved", "path": "symm_lsa", "algorithm": name.split("_")[2] if name != COPIES else None}
    statement = f"{calls} of {calls} calls on each of 2 ranks: {name}, {ctas} CTAs ({source})"
    if _blind(case, arm, clock):
        found = {"verdict": "unproven", "path": "unknown"}
        statement = "rank 1 could not look: CUPTI is in use by another tool"
    elif name == COPIES:
        found["path"] = "copy_engine"
        statement = f"{calls} calls on each of 2 ranks: no kernel, 4 copies a call ({source})"
    elif "RING" in name:
        found = {"verdict": "proved", "path": "unknown"}
        statement += "; ring, NVLS and PAT share this name; no TUNING log"
        if arm == "symm:recv":
            found["verdict"] = "not_eligible"
            statement += SEND_NEEDED
    elif arm == "symm:ce":
        found["verdict"] = "not_eligible"
        statement += NO_COPY_ENGINE
    fields = {"role": "collective", "collective": case.collective, "size_bytes": case.size_bytes}
    return ProofItem.model_validate({**fields, **found, "clock": clock, "ctas": ctas, "statement": statement})


def _evidence(case: Case, arm: str, clock: str, rank: int) -> RankEvidence:
    name, ctas = kernel_of(case, arm)
    calls = _calls(case, clock)
    fields: dict[str, Any] = {"rank": rank, "clock": clock, "source": "graph_nodes" if clock == "graph" else "cupti"}
    if _blind(case, arm, clock) and rank == 1:
        return RankEvidence(**fields, error="CUPTI is in use by another tool")
    if name != COPIES:
        driver = f"_Z{len(name)}{name}21ncclSymkDevWorkArgs4K" if clock == "graph" else f"{name}(ncclSymkDevWorkArgs4K)"
        return RankEvidence(**fields, calls=calls, kernels=(KernelRow(name=driver, grid=ctas, count=calls),))
    copy = "memcpy" if clock == "graph" else "Memcpy DtoD (Device -> Device)"
    rows = [KernelRow(name=copy, kind="memcpy", grid=None, count=4 * calls)]
    if clock == "graph":
        rows.append(KernelRow(name="batch_mem_op", kind="batch_mem_op", grid=None, count=2 * calls))
    return RankEvidence(**fields, calls=calls, kernels=tuple(rows))


def _calls(case: Case, clock: str) -> int:
    return GRAPH_K[case.size_bytes] if clock == "graph" else STREAM_K


def _verification(case: Case, arm: str) -> Verification:
    """Two ranks round once on every path: the errors grow with the size of the sample alone."""
    reduces = case.collective == "reduce_scatter"
    scale = 0.125 if case.dtype == "fp16" else 1.0
    largest = {64 * KIB: 0.00389, 4 * MIB: 0.00390, 64 * MIB: 0.00391}[case.size_bytes] * scale
    return Verification(
        num_slots=8,
        poisoned=True,
        num_wrong=0,
        num_checked=case.count,
        max_error=largest if reduces else 0.0,
        rms_error=0.00098 * scale if reduces else 0.0,
        tolerance=0.0078 * scale if reduces else 0.0,
    )


def _costs(case: Case, arm: str, position: int) -> Costs:
    """The first window of a set costs 21 ms, later ones 410 to 640 us each; rank 1 is a little slower."""
    plain = {"none": 212_000.0, "symm:ce": 231_000.0}.get(arm, 224_000.0)
    capture_us = 60.0 * GRAPH_K[case.size_bytes]
    if arm == "none":
        return Costs(communicator_us=(plain, plain + 900.0), capture_us=(capture_us, capture_us + 10.0))
    buffers = 1 if arm == "symm:recv" else 2
    first = position == 0 and arm != "symm:recv"
    each_us = 20_500.0 / buffers if first else 400.0 + 40.0 * position
    return Costs(
        communicator_us=(plain, plain + 900.0),
        registration_us=(buffers * each_us - 30.0, buffers * each_us),
        first_registration=first,
        num_registrations=buffers,
        deregistration_us=(95.0 * buffers, 97.0 * buffers),
        capture_us=(capture_us, capture_us + 10.0),
    )


def _memory(case: Case, arm: str, rank: int) -> Memory:
    buffers = 8 * (case.size_bytes + case.size_bytes // 2)
    windows = arm != "none"
    return Memory(
        rank=rank,
        buffers_bytes=buffers,
        registered_bytes=sum(side.window_bytes or 0 for side in _sides(case, arm).values()),
        free_before_bytes=138 * GIB - rank * 2**20,
        free_after_bytes=138 * GIB - buffers - 600 * 2**20 * windows - rank * 2**20,
        symmetric_va_bytes=144 * GIB if windows else None,
    )


def _sides(case: Case, arm: str) -> dict[str, Side]:
    share = case.size_bytes // 2
    sizes = {"send": case.size_bytes, "recv": share} if case.op else {"send": share, "recv": case.size_bytes}
    in_window = {"none": (), "symm:recv": ("recv",)}.get(arm, ("send", "recv"))
    return {
        name: Side(
            allocator="ncclMemAlloc" if name in in_window else "caching",
            registration="window" if name in in_window else "none",
            window_offset_bytes=0 if name in in_window else None,
            window_bytes=-(-8 * size // (2 * MIB)) * 2 * MIB if name in in_window else None,
            alignment_bytes=4096,
            num_slots=8,
            slot_stride_bytes=size,
            in_place=False,
            l2_resident=8 * size < 50 * MIB,
        )
        for name, size in sizes.items()
    }


CHECK_ARMS = ("nccltests:0", "nccltests:2", "none")
CHECK_US: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "nccltests:0": {64 * KIB: (6.26, 5.98), 4 * MIB: (45.39, 41.14)},
    "nccltests:2": {64 * KIB: (4.51, 4.41), 4 * MIB: (17.37, 13.80)},
    "none": {64 * KIB: (5.94, 5.90), 4 * MIB: (44.86, 41.00)},
}
"""Out of place and in place: nccl-tests 2.19.6 with -R 0 and -R 2 on the same machine."""


def cross_check_run(origin: str = "shared_gpu") -> Run:
    """All-gathers in both placements under nccl-tests' conditions; rank 0 is 0.2 us below the mean, rank 1 above."""
    records = []
    for size in (64 * KIB, 4 * MIB):
        for number, placement in enumerate(("out_of_place", "in_place")):
            case = make_case(size_bytes=size, placement=placement)
            for arm in CHECK_ARMS:
                mean_us = CHECK_US[arm][size][number]
                samples = make_samples(mean_us, clock="graph", k=200)
                ranks = tuple(
                    tuple(tuple(mean_us + offset for _ in block) for block in samples.time_us[0])
                    for offset in (-0.2, 0.2)
                )
                graph = samples.model_copy(update={"time_us": ranks})
                path = "symm_lsa" if arm == "nccltests:2" else "ring"
                records.append(
                    make_record(
                        arm,
                        case=case,
                        samples={"step.graph": graph},
                        origin=origin,
                        arms=CHECK_ARMS,
                        path=path,
                        ctas=16,
                    )
                )
    environment = make_environment(gpus=("NVIDIA H200",), driver="580.159.04")
    return Run(records=records, environments={"e0": environment}, scenario=make_scenario("cross-check", CHECK_ARMS))
