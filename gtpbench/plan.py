"""The plan: cases, arms and worker sets of a resolved scenario. Pure, and the same on every machine."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gtpbench import __version__
from gtpbench.arms import ArmSpec, Registration, Sides, arm_named
from gtpbench.bandwidth import wire_bytes_per_rank
from gtpbench.collectives import COLLECTIVES, CollectiveName, ReduceOp, dtype_named
from gtpbench.errors import UsageError
from gtpbench.scenario.resolve import MachineFacts
from gtpbench.scenario.schema import Placement, Scenario
from gtpbench.schedule import block_rounds
from gtpbench.units import format_size
from gtpbench.versions import Facts, SkipReason, skip_reason

START_SECONDS = 6.0
"""Start of one worker set to its first collective, for the estimate only (2 ranks, torch import included)."""
_OVERHEAD_PER_CELL_SECONDS = 0.3


class PlanModel(BaseModel):
    """Frozen and strict, as everything that is written to a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Case(PlanModel):
    """One point of the sweep; everything that is the same for all arms."""

    case_id: str
    """Stable over versions of the tool: collective, operation, dtype, bytes, ranks, placement."""
    collective: CollectiveName
    op: ReduceOp | None
    """None for collectives that do not reduce."""
    dtype: str
    requested_bytes: int
    size_bytes: int
    """Total bytes, rounded down to a multiple of ranks x element size."""
    num_ranks: int
    placement: Placement
    hot: bool

    @property
    def count(self) -> int:
        """Elements in `size_bytes`."""
        return self.size_bytes // dtype_named(self.dtype).size_bytes


class Arm(PlanModel):
    """One arm of this plan: what `arms.ArmSpec` says, and the backend that runs it."""

    name: str
    backend: str
    """`none` where the platform has no counterpart."""
    registration: Registration
    sides: Sides
    multicast: Literal["any", "required", "off"]
    cta_policy: Literal["default", "zero"]
    family: Literal["main", "nccltests"]
    env: dict[str, str]


class WorkerSet(PlanModel):
    """The rank processes of one environment; arms that share backend and environment share a set."""

    set_id: int
    backend: str
    env: dict[str, str]
    arms: tuple[str, ...]


class Plan(PlanModel):
    """What a run does. `digest` covers what is measured and the tool's version: runs of equal digest may be merged."""

    scenario: Scenario
    cases: tuple[Case, ...]
    arms: tuple[Arm, ...]
    sets: tuple[WorkerSet, ...]
    digest: str

    @property
    def num_ranks(self) -> int:
        """Ranks of every worker set."""
        assert isinstance(self.scenario.num_ranks, int)
        return self.scenario.num_ranks

    def arm(self, name: str) -> Arm:
        """The arm with this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def rounds(self, case: int, arms: Sequence[str], *, launch: int) -> list[tuple[str, ...]]:
        """Block order of these arms in case number `case` of a launch; `--functional` needs no more than two rounds."""
        measure = self.scenario.measure
        blocks = 2 if self.scenario.functional else measure.num_blocks
        case_id = self.cases[case].case_id
        return block_rounds(arms, blocks=blocks, seed=measure.seed, launch=launch, case_id=case_id)


Skips = dict[tuple[str, str], SkipReason]
"""(case_id, arm name) -> why that cell cannot run here."""


def make_case(
    collective: CollectiveName,
    *,
    op: ReduceOp | None,
    dtype: str,
    requested_bytes: int,
    size_bytes: int,
    num_ranks: int,
    placement: Placement,
    hot: bool,
) -> Case:
    """The case with these properties and the id that follows from them."""
    parts = [collective, op, dtype, str(size_bytes), f"n{num_ranks}", placement, "hot" if hot else None]
    return Case(
        case_id="/".join(part for part in parts if part),
        collective=collective,
        op=op,
        dtype=dtype,
        requested_bytes=requested_bytes,
        size_bytes=size_bytes,
        num_ranks=num_ranks,
        placement=placement,
        hot=hot,
    )


def build_plan(scenario: Scenario) -> Plan:
    """The plan of a resolved scenario.

    Raises:
        UsageError: a size smaller than one element a rank.
    """
    arms = tuple(_arm(arm_named(name), scenario) for name in scenario.arms)
    cases = tuple(_cases(scenario))
    sets = _worker_sets(arms)
    measured = scenario.model_dump(mode="json", exclude={"allow_skip": True, "timeouts": True, "measure": {"launches"}})
    content = [__version__, measured, [arm.model_dump() for arm in arms]]
    return Plan(scenario=scenario, cases=cases, arms=arms, sets=sets, digest=digest(content))


def run_digest(scenario: Scenario) -> str:
    """Digest of everything that all ranks of one run must agree on."""
    return digest([__version__, scenario.model_dump(mode="json")])


def digest(content: Any) -> str:
    """First 16 hex digits of the SHA-256 of a JSON value with sorted keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def skips(plan: Plan, facts: MachineFacts) -> Skips:
    """The cells of the plan that cannot run on a machine with these facts, with the reason."""
    found: Skips = {}
    of_run = _facts_of_run(plan, facts)
    for arm in plan.arms:
        of_arm: Facts = {
            "arm": arm.name,
            "backend": arm.backend,
            "registration": arm.registration,
            "sides": arm.sides,
            "multicast": arm.multicast,
            "cta_policy": arm.cta_policy,
        }
        by_kind: dict[tuple[str, str | None, str], SkipReason | None] = {}
        for case in plan.cases:
            kind = (case.dtype, case.op, case.collective)
            if kind not in by_kind:
                reduces = "true" if COLLECTIVES[case.collective].reduces else "false"
                of_case: Facts = {"dtype": case.dtype, "op": case.op, "reduces": reduces}
                by_kind[kind] = skip_reason({**of_run, **of_arm, **of_case})
            reason = by_kind[kind]
            if reason is not None:
                found[case.case_id, arm.name] = reason
    return found


def _facts_of_run(plan: Plan, facts: MachineFacts) -> Facts:
    scenario = plan.scenario
    ranks_per_node = math.ceil(plan.num_ranks / facts.num_nodes)
    gpus_needed = math.ceil(ranks_per_node / scenario.ranks_per_gpu)
    return {
        "num_ranks": plan.num_ranks,
        "num_nodes": facts.num_nodes,
        "ranks_per_node": ranks_per_node,
        "ranks_per_gpu": scenario.ranks_per_gpu,
        "functional": "yes" if scenario.functional else "no",
        "machine": facts.machine,
        "num_gpus": facts.num_gpus,
        "gpus_needed": gpus_needed,
        "missing_gpus": max(0, gpus_needed - facts.num_gpus),
        "compute_capability": facts.compute_capability,
        "mps": facts.mps,
        "torch": facts.torch,
        "nccl": facts.nccl,
        "nccl4py": facts.nccl4py,
        "nvls_enable": facts.nvls_enable,
        "expandable_segments": facts.expandable_segments,
    }


def estimated_seconds(plan: Plan, skipped: Skips) -> float:
    """Rough wall time of the run: start of every set, the time budget, and what surrounds each cell."""
    num_cells = len(plan.cases) * len(plan.arms) - len(skipped)
    if not num_cells:
        return 0.0
    measure = plan.scenario.measure
    live = sum(any((case.case_id, arm) not in skipped for case in plan.cases for arm in s.arms) for s in plan.sets)
    return measure.launches * (START_SECONDS * live + measure.time_budget_s + _OVERHEAD_PER_CELL_SECONDS * num_cells)


def _cases(scenario: Scenario) -> Iterator[Case]:
    workload, num_ranks = scenario.workload, scenario.num_ranks
    assert isinstance(num_ranks, int), "auto is resolved before planning"
    assert workload.sizes != "auto", "auto is resolved before planning"
    seen: set[str] = set()
    for collective in workload.collectives:
        op = workload.op if COLLECTIVES[collective].reduces else None
        for dtype in workload.dtypes:
            for placement in workload.placements:
                for requested in workload.sizes:
                    size = _round_down(requested, dtype=dtype, num_ranks=num_ranks)
                    case = make_case(
                        collective,
                        op=op,
                        dtype=dtype,
                        requested_bytes=requested,
                        size_bytes=size,
                        num_ranks=num_ranks,
                        placement=placement,
                        hot=scenario.measure.hot,
                    )
                    if case.case_id in seen:
                        continue
                    seen.add(case.case_id)
                    yield case


def _round_down(requested: int, *, dtype: str, num_ranks: int) -> int:
    element = dtype_named(dtype).size_bytes
    unit = num_ranks * element
    if requested < unit:
        raise UsageError(
            f"size {format_size(requested)} is under one {dtype} element for each of {num_ranks} ranks "
            f"({num_ranks} x {element} B = {unit} B): ask for {unit} B or more"
        )
    return requested // unit * unit


def _arm(spec: ArmSpec, scenario: Scenario) -> Arm:
    backend: str = scenario.backend
    if backend == "cpu":
        backend = spec.cpu_backend or "none"
    return Arm(
        name=spec.name,
        backend=backend,
        registration=spec.registration,
        sides=spec.sides,
        multicast=spec.multicast,
        cta_policy=spec.cta_policy,
        family=spec.family,
        env=spec.env | _sharing(scenario.ranks_per_gpu) if backend.startswith("nccl") else {},
    )


def _sharing(ranks_per_gpu: int) -> dict[str, str]:
    """What NCCL must be told where ranks share a GPU: that they may, and from three on to leave SMs to one another."""
    if ranks_per_gpu == 1:
        return {}
    return {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} | ({"NCCL_MAX_CTAS": "8"} if ranks_per_gpu > 2 else {})


def _worker_sets(arms: tuple[Arm, ...]) -> tuple[WorkerSet, ...]:
    by_environment: dict[str, list[Arm]] = {}
    for arm in arms:
        key = json.dumps([arm.backend, arm.cta_policy, arm.family, sorted(arm.env.items())])
        by_environment.setdefault(key, []).append(arm)
    return tuple(
        WorkerSet(set_id=index, backend=group[0].backend, env=group[0].env, arms=tuple(arm.name for arm in group))
        for index, group in enumerate(by_environment.values())
    )


def wire_bytes_all_ranks(case: Case) -> int:
    """Bytes that all ranks together must send for one iteration of the case."""
    return case.num_ranks * wire_bytes_per_rank(case.size_bytes, num_ranks=case.num_ranks)
