"""The plan: cases, arms and worker sets of a resolved scenario. Pure, and the same on every machine."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from gtpbench import __version__
from gtpbench.arms import ArmSpec, Registration, Sides, arm_named
from gtpbench.bandwidth import wire_bytes_per_rank
from gtpbench.cases import (
    AnyCase,
    Case,
    PlanModel,
    RegistrationCase,
    collective_cases,
    make_case,
    registration_cases,
)
from gtpbench.collectives import COLLECTIVES
from gtpbench.scenario.resolve import MachineFacts
from gtpbench.scenario.schema import RegistrationWorkload, Scenario
from gtpbench.schedule import block_rounds
from gtpbench.versions import Facts, SkipReason, skip_reason

__all__ = [
    "AnyCase",
    "Arm",
    "Case",
    "Plan",
    "PlanModel",
    "RegistrationCase",
    "Skips",
    "WorkerSet",
    "build_plan",
    "digest",
    "estimated_seconds",
    "make_case",
    "run_digest",
    "skips",
    "wire_bytes_all_ranks",
]

START_SECONDS = 6.0
"""Start of one worker set to its first collective, for the estimate only (2 ranks, torch import included)."""
_OVERHEAD_PER_CELL_SECONDS = 0.3
_REGISTRATION_SECONDS = 0.001
"""To make, register and drop one buffer, for the estimate only."""


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
    cases: tuple[AnyCase, ...]
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


def build_plan(scenario: Scenario) -> Plan:
    """The plan of a resolved scenario.

    Raises:
        UsageError: a size smaller than one element a rank, or no case at all.
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
        by_kind: dict[tuple[str | int | None, ...], SkipReason | None] = {}
        for case in plan.cases:
            of_case = _facts_of_case(case)
            kind = tuple(of_case.values())
            if kind not in by_kind:
                by_kind[kind] = skip_reason({**of_run, **of_arm, **of_case})
            reason = by_kind[kind]
            if reason is not None:
                found[case.case_id, arm.name] = reason
    return found


def _facts_of_case(case: AnyCase) -> Facts:
    """Of a registration no element type or operation is known."""
    if isinstance(case, RegistrationCase):
        return {}
    reduces = "true" if COLLECTIVES[case.collective].reduces else "false"
    return {"dtype": case.dtype, "op": case.op, "reduces": reduces, "placement": case.placement}


def _facts_of_run(plan: Plan, facts: MachineFacts) -> Facts:
    scenario = plan.scenario
    ranks_per_node = math.ceil(plan.num_ranks / facts.num_nodes)
    gpus_needed = math.ceil(ranks_per_node / scenario.ranks_per_gpu)
    return {
        "workload": scenario.workload.kind,
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
    live = sum(any((case.case_id, arm) not in skipped for case in plan.cases for arm in s.arms) for s in plan.sets)
    timed = _timed_seconds(plan, skipped)
    return plan.scenario.measure.launches * (START_SECONDS * live + timed + _OVERHEAD_PER_CELL_SECONDS * num_cells)


def _timed_seconds(plan: Plan, skipped: Skips) -> float:
    """Of one launch's blocks; those of a registration take as long as they take, the budget is for collectives."""
    measure = plan.scenario.measure
    if plan.scenario.workload.kind == "collective":
        return measure.time_budget_s
    cells = [case for case in plan.cases for arm in plan.arms if (case.case_id, arm.name) not in skipped]
    buffers = sum(case.num_buffers for case in cells if isinstance(case, RegistrationCase))
    return measure.num_blocks * buffers * _REGISTRATION_SECONDS


def _cases(scenario: Scenario) -> Iterator[AnyCase]:
    workload, num_ranks = scenario.workload, scenario.num_ranks
    assert isinstance(num_ranks, int), "auto is resolved before planning"
    if isinstance(workload, RegistrationWorkload):
        return registration_cases(workload, num_ranks=num_ranks)
    return collective_cases(workload, num_ranks=num_ranks, hot=scenario.measure.hot)


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
