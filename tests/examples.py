"""Scenarios, plans, records and environments made by hand, for tests below the report."""

from collections.abc import Mapping
from typing import Any

from gtpbench.plan import Plan, build_plan
from gtpbench.record import Environment, Proof, Record, Samples, Verification
from gtpbench.record.environment import Library
from gtpbench.record.model import ProofItem, ProofVerdict, Reason, Status
from gtpbench.scenario.load import build_scenario
from gtpbench.scenario.resolve import MachineFacts
from gtpbench.scenario.schema import Scenario

WORKLOAD = {"collectives": ["all_gather"], "sizes": ["64K"]}


def scenario_table(**changed: Any) -> dict[str, Any]:
    """A table of values that is a whole scenario: two CPU ranks, one 64 KiB all-gather, `none` and `symm`."""
    table: dict[str, Any] = {
        "name": "example",
        "workload": dict(WORKLOAD),
        "arms": ["none", "symm"],
        "backend": "cpu",
        "num_ranks": 2,
        "measure": {"clock": "host"},
    }
    return {**table, **changed}


def make_scenario(**changed: Any) -> Scenario:
    """The scenario of `scenario_table`."""
    return build_scenario(scenario_table(**changed), origin="test")


def make_plan(**changed: Any) -> Plan:
    """The plan of `make_scenario`."""
    return build_plan(make_scenario(**changed))


def make_facts(**changed: Any) -> MachineFacts:
    """One x86-64 host without GPUs."""
    facts: dict[str, Any] = {
        "num_gpus": 0,
        "num_nodes": 1,
        "machine": "x86_64",
        "torch": "2.13.0",
        "nvls_enable": None,
        "world_size": None,
    }
    return MachineFacts(**{**facts, **changed})


def make_samples(*, num_ranks: int = 2, time_us: float = 100.0) -> Samples:
    """Two blocks of three iterations that all took `time_us`."""
    return Samples(
        clock="host",
        k=1,
        alignment="flag barrier",
        time_us=(((time_us,) * 3,) * 2,) * num_ranks,
        block_start_us=((0.0, 1000.0),) * num_ranks,
        block_wall_us=((400.0, 400.0),) * num_ranks,
    )


def make_proof(verdict: ProofVerdict = "by_construction") -> Proof:
    """A proof with one item and no evidence."""
    item = ProofItem(
        role="collective",
        collective="all_gather",
        size_bytes=65536,
        verdict=verdict,
        path="socket",
        statement="as named",
    )
    return Proof(verdict=verdict, path="socket", items=(item,), evidence=())


def make_verification(*, num_wrong: int = 0) -> Verification:
    """A check of 8 slots."""
    return Verification(
        num_slots=8,
        poisoned=True,
        num_wrong=num_wrong,
        num_checked=8 * 32768,
        max_error=0.0,
        rms_error=0.0,
        tolerance=0.0,
    )


def make_record(
    plan: Plan | None = None,
    *,
    status: Status = "ok",
    verdict: ProofVerdict = "by_construction",
    launch: int = 0,
    environment_id: str | None = "e0",
    changed: Mapping[str, Any] | None = None,
) -> Record:
    """A record of the plan's first case and arm."""
    plan = plan or make_plan()
    case, arm = plan.cases[0], plan.arms[0]
    is_ok = status == "ok"
    fields: dict[str, Any] = {
        "tool_version": "0.1.0",
        "case_id": case.case_id,
        "arm": arm.name,
        "status": status,
        "origin": "cpu",
        "reason": None if is_ok else Reason(code="because", text="because"),
        "case": case,
        "arm_spec": arm,
        "case_digest": "c" * 16,
        "arm_digest": "a" * 16,
        "plan_digest": plan.digest,
        "launch": launch,
        "environment_id": environment_id,
        "samples": {"step.host": make_samples()} if is_ok else {},
        "proof": make_proof(verdict) if is_ok else None,
        "verification": make_verification() if is_ok else None,
    }
    return Record(**{**fields, **(changed or {})})


def make_environment(environment_id: str = "e0", **changed: Any) -> Environment:
    """One 32-core host without GPUs."""
    fields: dict[str, Any] = {
        "environment_id": environment_id,
        "run_id": environment_id,
        "launch": 0,
        "created_utc": "2026-11-30T18:30:00+00:00",
        "command": ("gtpbench", "allgather"),
        "tool_version": "0.1.0",
        "commit": None,
        "num_nodes": 1,
        "launcher": "builtin",
        "machine": "x86_64",
        "cpu_model": "A CPU",
        "num_cpus": 32,
        "memory_bytes": 2**37,
        "last_level_cache_bytes": 2**25,
        "numa_nodes": 1,
        "kernel": "6.1.0",
        "os": "Debian 12",
        "python": "3.11.7",
        "governor": None,
        "load_average": 0.1,
        "driver": None,
        "gpus": (),
        "container": None,
        "nccl_conf_sha256": None,
        "libraries": (Library(name="torch", version="2.13.0", path=None, sha256=None),),
        "variables": {},
        "set_variables": {},
        "ranks": {},
        "interfaces": ("lo",),
    }
    return Environment(**{**fields, **changed})
