"""What is said of registration costs in sentences."""

from collections.abc import Sequence

from gtpbench.record.model import Origin, ProofVerdict
from gtpbench.report.absent import absent_sets
from gtpbench.report.details import ArmCosts, Cost
from gtpbench.report.model import RunView
from gtpbench.report.orders import WITH_PROOF
from gtpbench.report.registration import RegistrationGroup, RegistrationRow
from gtpbench.report.words import PROOF_TEXT, sets_text
from gtpbench.units import format_times_us

CAPTION = "host time for a whole set of buffers on the slowest rank: median"
_PREFIXES: dict[Origin, str] = {
    "cpu": "CPU demonstration: ",
    "shared_gpu": "ranks share a GPU: ",
    "modelled": "modelled: ",
}


def registration_text(view: RunView) -> str:
    """For example `registration, a buffer: registered 35.0 us to 61.0 us; symm 310 us to 1.20 ms`."""
    parts = []
    for arm in view.arms:
        known = [us for row in view.registration_rows if row.arm.name == arm and (us := row.per_buffer_us) is not None]
        if known:
            parts.append(f"{arm} {' to '.join(dict.fromkeys(map(format_times_us, (min(known), max(known)))))}")
    if not parts:
        return "nothing was registered"
    origins = {group.origin for group in view.registrations}
    prefix = _PREFIXES.get(origins.pop(), "") if len(origins) == 1 else ""
    return f"{prefix}registration, a buffer: {'; '.join(parts)}"


def registrations_lacking(rows: Sequence[RegistrationRow], verdict: ProofVerdict, arm: str) -> list[str]:
    """At which sets an arm has this verdict: `symm (fell back at 64 × 64KiB)`; empty where at none."""
    ran = [row for row in rows if row.arm.name == arm and row.proof is not None]
    having = [row for row in ran if row.proof == verdict]
    return [f"{arm} ({verdict.replace('_', ' ')} at {sets_text(having, of=ran)})"] if having else []


def group_lines(view: RunView, group: RegistrationGroup) -> list[tuple[str, str]]:
    """(label, sentence) of what stands above a table: sets that did not run, faults, the first registration."""
    lines = [(item.status, f"{item.arm} at {item.sizes}: {item.reason}") for item in absent_sets(group.rows)]
    faults = dict.fromkeys(row.fault for row in group.rows if row.fault)
    lines += [("fault", f"{fault}: injected for a test; this is no measurement") for fault in faults]
    return lines + [("first", text) for costs in view.costs if costs.origin == group.origin and (text := _first(costs))]


def doubt_lines(group: RegistrationGroup) -> list[tuple[str, str]]:
    """(verdict, sentence) of the rows without proof, each reason once."""
    folded: dict[tuple[ProofVerdict, str, str], list[RegistrationRow]] = {}
    for row in group.rows:
        if row.proof is not None and row.proof not in WITH_PROOF:
            folded.setdefault((row.proof, row.arm.name, row.statement or ""), []).append(row)
    return [
        (PROOF_TEXT[verdict], f"{arm} at {sets_text(having, of=[r for r in group.rows if r.arm.name == arm])}: {why}")
        for (verdict, arm, why), having in folded.items()
    ]


def _first(costs: ArmCosts) -> str | None:
    """What the first registration of a process took; it is in no row."""
    if costs.first_registration is None:
        return None
    later = f"; one buffer later {_cost(costs.registration)}" if costs.registration else ""
    return f"{costs.arm}: {_cost(costs.first_registration)} for the first buffer of a process{later}"


def _cost(cost: Cost) -> str:
    return format_times_us(cost.median_us, cost.low_us, cost.high_us)
