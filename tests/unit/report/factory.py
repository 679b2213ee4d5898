"""Records made by hand: every number of a test's report can be worked out from the arguments.

`make_record` takes one time for every iteration (`time_us`) or a series for each clock (`samples`); everything that a
test does not name has a plain default. Times are those of the slowest rank.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gtpbench.arms import arm_named
from gtpbench.plan import Arm, Case, digest
from gtpbench.record import Environment, Proof, Record, Samples, Verification
from gtpbench.record.environment import Library, RankPlace
from gtpbench.record.model import (
    Clock,
    Execution,
    KernelRow,
    ProofItem,
    ProofVerdict,
    RankEvidence,
    Reason,
    Side,
)
from gtpbench.scenario.schema import Placement

MIB = 2**20
KIB = 2**10
RUN_ID = "allgather-20261130-183000"
ENVIRONMENT_ID = "e0"
COMMAND = ("gtpbench", "allgather", "--symm", "-b", "64K", "-e", "16M")

_CPU_BACKENDS = {"none": "gloo", "symm": "cpu_window"}
_CPU_PATHS = {"none": "socket", "symm": "shared_memory"}
_GPU_PATHS = {"none": "ring", "symm": "symm_lsa"}


def make_samples(
    time_us: float | Sequence[Sequence[float]] = 100.0,
    *,
    clock: Clock = "host",
    k: int = 1,
    num_ranks: int = 2,
    num_blocks: int = 10,
    iters: int = 20,
    issue_us: float | None = None,
    overhead: float = 0.05,
) -> Samples:
    """Samples of one launch.

    Args:
        time_us: one time for all iterations, or [block][iteration].
        overhead: share of each block's wall time that is alignment and stamping.
        issue_us: host time spent issuing every operation.
    """
    if isinstance(time_us, int | float):
        blocks: tuple[tuple[float, ...], ...] = ((float(time_us),) * iters,) * num_blocks
    else:
        blocks = tuple(tuple(map(float, block)) for block in time_us)
    walls = tuple(sum(block) * k / (1.0 - overhead) for block in blocks)
    starts = tuple(2.0 * sum(walls[:index]) for index in range(len(blocks)))
    issued = None if issue_us is None else tuple((issue_us,) * len(block) for block in blocks)
    return Samples(
        clock=clock,
        k=k,
        alignment="flag barrier",
        time_us=(blocks,) * num_ranks,
        issue_us=None if issued is None else (issued,) * num_ranks,
        block_start_us=(starts,) * num_ranks,
        block_wall_us=(walls,) * num_ranks,
    )


def make_case(
    *,
    collective: str = "all_gather",
    size_bytes: int = 16 * MIB,
    requested_bytes: int | None = None,
    dtype: str = "bf16",
    placement: Placement = "out_of_place",
    num_ranks: int = 2,
    hot: bool = False,
) -> Case:
    """A case with the id that planning would give it."""
    op = "sum" if collective == "reduce_scatter" else None
    parts = [collective, op, dtype, str(size_bytes), f"n{num_ranks}", placement, "hot" if hot else None]
    return Case.model_validate(
        {
            "case_id": "/".join(part for part in parts if part),
            "collective": collective,
            "op": op,
            "dtype": dtype,
            "requested_bytes": size_bytes if requested_bytes is None else requested_bytes,
            "size_bytes": size_bytes,
            "num_ranks": num_ranks,
            "placement": placement,
            "hot": hot,
        }
    )


def make_arm(name: str, *, origin: str = "cpu") -> Arm:
    """The arm as planning would make it on CPU ranks or on GPUs."""
    spec = arm_named(name)
    on_cpu = origin == "cpu"
    return Arm(
        name=name,
        backend=_CPU_BACKENDS.get(name, "none") if on_cpu else "nccl_torch",
        registration=spec.registration,
        sides=spec.sides,
        multicast=spec.multicast,
        cta_policy=spec.cta_policy,
        family=spec.family,
        env={} if on_cpu else spec.env,
    )


def make_proof(
    verdict: ProofVerdict, *, case: Case, path: str, ctas: int | None = None, statement: str = "as named"
) -> Proof:
    """A proof with one item and one rank's evidence."""
    item = {
        "role": "step",
        "collective": case.collective,
        "size_bytes": case.size_bytes,
        "verdict": verdict,
        "path": path,
        "ctas": ctas,
        "statement": statement,
    }
    kernels = () if ctas is None else (KernelRow(name=f"ncclKernel_{path}", grid=ctas, count=20),)
    evidence = RankEvidence(rank=0, source="interface_bytes" if ctas is None else "graph_nodes", kernels=kernels)
    items = (ProofItem.model_validate(item),)
    return Proof.model_validate({"verdict": verdict, "path": path, "items": items, "evidence": (evidence,)})


def make_execution(arms: Sequence[str], *, num_blocks: int = 10, set_id: int = 0, run_id: str = RUN_ID) -> Execution:
    """The place in the run; the arms' order is turned round after every block."""
    order = tuple(tuple(arms) if block % 2 == 0 else tuple(reversed(arms)) for block in range(num_blocks))
    return Execution(
        run_id=run_id,
        attempt=0,
        set_id=set_id,
        seed=0,
        block_order=order,
        case_position=0,
        group_ranks=(0, 1),
        num_iterations=20 * num_blocks,
    )


def make_record(
    arm: str = "none",
    *,
    case: Case | None = None,
    time_us: float | Sequence[Sequence[float]] = 100.0,
    samples: Mapping[str, Samples] | None = None,
    origin: str = "cpu",
    status: str = "ok",
    reason: tuple[str, str] | None = None,
    arms: Sequence[str] = ("none", "symm"),
    launch: int = 0,
    verdict: ProofVerdict | None = None,
    path: str | None = None,
    ctas: int | None = None,
    statement: str = "as named",
    num_wrong: int = 0,
    **fields: Any,
) -> Record:
    """One record; `fields` replaces any field of Record as it is.

    Args:
        time_us: for the default series `step.host` on the host clock; see `make_samples`.
        samples: the series, in place of the default one.
        arms: the arms of the run in order, for the set ids and the block order.
        reason: (code, text), for every status but ok.
    """
    case = make_case() if case is None else case
    ran = status in {"ok", "wrong_result"}
    series = {"step.host": make_samples(time_us, num_ranks=case.num_ranks)} if samples is None else dict(samples)
    num_blocks = len(next(iter(series.values())).time_us[0])
    set_id = list(arms).index(arm) if arm in arms else len(arms)
    verdict = verdict or ("by_construction" if origin == "cpu" else "proved")
    path = path or (_CPU_PATHS if origin == "cpu" else _GPU_PATHS).get(arm, "unknown")
    side = Side(
        allocator="pool",
        registration=arm_named(arm).registration,
        window_offset_bytes=None,
        window_bytes=None,
        alignment_bytes=4096,
        num_slots=2,
        slot_stride_bytes=case.size_bytes,
        in_place=case.placement == "in_place",
        l2_resident=False,
    )
    defaults = {
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
        "execution": make_execution(arms, num_blocks=num_blocks, set_id=set_id) if ran else None,
        "samples": series if status == "ok" else {},
        "proof": make_proof(verdict, case=case, path=path, ctas=ctas, statement=statement) if ran else None,
        "verification": Verification(
            num_slots=2,
            poisoned=True,
            num_wrong=num_wrong,
            num_checked=1000,
            max_error=0.0,
            rms_error=0.0,
            tolerance=0.0,
        )
        if ran
        else None,
        "sides": {"send": side, "recv": side} if ran else {},
    }
    return Record.model_validate({**defaults, **fields})


def make_environment(launch: int = 0, **fields: Any) -> Environment:
    """The environment of one launch on a small CPU machine, with id `e<launch>`."""
    place = RankPlace(
        rank=0, local_rank=0, node=0, host="h0", pid=1, cpus=(0,), numa=0, gpu=None, pci=None, lsa_domain=None
    )
    defaults = {
        "environment_id": f"e{launch}",
        "run_id": RUN_ID,
        "launch": launch,
        "created_utc": "2026-11-30T18:30:00Z",
        "command": COMMAND,
        "tool_version": "0.1.0",
        "commit": "f9db5b2",
        "num_nodes": 1,
        "launcher": "builtin",
        "machine": "x86_64",
        "cpu_model": "Example CPU @ 2.00GHz",
        "num_cpus": 2,
        "memory_bytes": 16 * 2**30,
        "last_level_cache_bytes": 32 * MIB,
        "numa_nodes": 1,
        "kernel": "6.1.0",
        "os": "Linux",
        "python": "3.11.7",
        "governor": None,
        "load_average": 0.5,
        "driver": None,
        "gpus": (),
        "container": None,
        "nccl_conf_sha256": None,
        "libraries": (Library(name="torch", version="2.13.0+cpu", path=None, sha256=None),),
        "variables": {"OMP_NUM_THREADS": "1"},
        "set_variables": {"0": {}, "1": {}},
        "ranks": {"0": (place,), "1": (place,)},
        "interfaces": ("lo",),
    }
    return Environment.model_validate({**defaults, **fields})
