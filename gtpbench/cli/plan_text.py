"""A plan for people and for programs."""

import json
import os

from gtpbench.launch.attach import attached
from gtpbench.launch.probe import machine_facts
from gtpbench.plan import AnyCase, Plan, RegistrationCase, Skips, build_plan, estimated_seconds, skips
from gtpbench.scenario.resolve import resolve
from gtpbench.scenario.schema import Scenario
from gtpbench.units import format_about, format_seconds, format_size


def plan_text(scenario: Scenario, *, as_json: bool) -> str:
    """The plan of a scenario on this machine, as text or JSON.

    Raises:
        UsageError: the scenario cannot be planned here.
    """
    me = attached(os.environ)
    num_nodes = (me.num_nodes or 1) if me else 1
    facts = machine_facts(num_nodes=num_nodes, world_size=me.world_size if me else None)
    plan = build_plan(resolve(scenario, facts))
    skipped = skips(plan, facts)
    return _as_json(plan, skipped) if as_json else _as_text(plan, skipped)


def _as_json(plan: Plan, skipped: Skips) -> str:
    value = plan.model_dump(mode="json")
    value["skipped"] = [
        {"case_id": case_id, "arm": arm, "code": reason.code, "text": reason.text}
        for (case_id, arm), reason in skipped.items()
    ]
    value["estimated_seconds"] = round(estimated_seconds(plan, skipped), 1)
    return json.dumps(value, indent=2)


def _as_text(plan: Plan, skipped: Skips) -> str:
    scenario = plan.scenario
    num_cells = len(plan.cases) * len(plan.arms)
    lines = [
        (
            f"plan {plan.digest} of scenario {scenario.name}: {len(plan.cases)} cases x {len(plan.arms)} arms "
            f"on {plan.num_ranks} ranks, {scenario.measure.launches} launches, "
            f"about {format_seconds(estimated_seconds(plan, skipped))}"
        ),
        "",
        "worker sets (one process a rank in each, taking turns):",
    ]
    for item in plan.sets:
        variables = " ".join(f"{name}={value}" for name, value in sorted(item.env.items()))
        lines.append(f"  set {item.set_id}: {item.backend:<12} arms {', '.join(item.arms)}  {variables}".rstrip())
    lines += ["", "cases:"]
    lines += [f"  {case.case_id}  {_size(case)}" for case in plan.cases]
    if skipped:
        lines += ["", f"skipped, {len(skipped)} of {num_cells} cells:"]
        reasons = {(arm, reason.code, reason.text) for (_, arm), reason in skipped.items()}
        for arm, code, text in sorted(reasons):
            lines.append(f"  {arm}: {text} [{code}]")
    return "\n".join(lines)


def _size(case: AnyCase) -> str:
    if isinstance(case, RegistrationCase):
        each = f" of {format_size(case.buffer_bytes)}" if isinstance(case.buffer_bytes, int) else ""
        return f"{case.num_buffers} buffer{'s' if case.num_buffers > 1 else ''}{each}, {format_about(case.total_bytes)}"
    rounded = f" (asked {format_size(case.requested_bytes)})" if case.requested_bytes != case.size_bytes else ""
    return f"{format_size(case.size_bytes)}{rounded}"
