"""What a run found, in a sentence: outcomes by size, failures, and arms without proof."""

from collections import Counter
from collections.abc import Sequence

from gtpbench.collectives import COLLECTIVES
from gtpbench.record.model import ProofVerdict
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.orders import PROOF_ORDER, WITH_PROOF
from gtpbench.report.registration import RegistrationRow
from gtpbench.report.registration_words import registration_text, registrations_lacking
from gtpbench.report.words import sizes_text
from gtpbench.stats.compare import Outcome
from gtpbench.stats.crossover import faster_from
from gtpbench.units import format_size

_MAX_PARTS = 4
"""Sentences about one arm in one group; with more, cells are counted instead."""
_MAX_NAMED = 2
"""Tables named in the proof sentence; more are counted."""
_OUTCOMES: tuple[Outcome, ...] = ("faster", "slower", "same", "undecided")
_PREFIXES = {"cpu": "CPU demonstration: ", "modelled": "modelled: ", "imported": "imported: "}


def verdict_text(view: RunView) -> str:
    """For example `symm: faster from 1MiB, undecided at 64KiB`, failures before it."""
    return "; ".join([*_failures((*view.rows, *view.registration_rows)), _outcomes(view)])


def proof_text(view: RunView) -> str:
    """Which arms lack a proof of their path: `every arm proved`, `without proof: symm (fell back at 64KiB)`."""
    verdicts = set(view.verdicts)
    if not verdicts:
        return "no arm ran, nothing to prove"
    parts = [
        text
        for verdict in reversed(PROOF_ORDER)
        if verdict not in WITH_PROOF
        for arm in view.arms
        for text in (
            *_lacking(view, verdict, arm),
            *registrations_lacking(view.registration_rows, verdict, arm),
        )
    ]
    if parts:
        return "without proof: " + ", ".join(parts)
    if verdicts == {"by_construction"}:
        return "every arm by construction"
    return "every arm proved" if verdicts == {"proved"} else "every arm proved or by construction"


def _lacking(view: RunView, verdict: ProofVerdict, arm: str) -> list[str]:
    """At which sizes; the tables are named unless all where the arm ran say the same, or counted if they are many."""
    ran: list[Group] = []
    groups: dict[str, list[Group]] = {}
    for group in view.groups:
        of = {row.case.size_bytes: row.proof for row in group.rows if row.arm.name == arm and row.proof is not None}
        sizes = [size for size, proof in of.items() if proof == verdict]
        ran += [group] if of else []
        if sizes:
            groups.setdefault(sizes_text(sizes, of=sorted(of)), []).append(group)
    told: list[str] = []
    for at, having in groups.items():
        names = ", ".join(_short(group, view).strip() for group in having)
        named = having != ran and len(having) <= _MAX_NAMED and names.strip(", ")
        where = f"{names} " if named else ""
        number = "" if having == ran or named else f" in {len(having)} of {len(ran)} tables"
        told.append(f"{where}{arm} ({verdict.replace('_', ' ')} at {at}{number})")
    return told


def _failures(rows: Sequence[Row | RegistrationRow]) -> list[str]:
    counts = Counter(row.status for row in rows)
    failed = counts["error"] + counts["timeout"] + counts["wrong_result"]
    wrong = f" ({counts['wrong_result']} with wrong data)" if counts["wrong_result"] else ""
    return [
        *([f"FAILED: {failed} of {len(rows)} rows{wrong}"] if failed else []),
        *([f"skipped: {counts['skipped']} of {len(rows)} rows"] if counts["skipped"] else []),
    ]


def _outcomes(view: RunView) -> str:
    if view.registrations and not view.functional:
        return registration_text(view)
    if view.only_functional:
        return "functional only"
    parts = [
        (group, text)
        for group in view.groups
        for arm in view.arms[1:]
        if (text := _arm_text([row for row in group.rows if row.arm.name == arm], arm))
    ]
    if not parts:
        return "nothing to compare"
    if len(parts) > _MAX_PARTS:
        return "; ".join(filter(None, (_counts(view, arm) for arm in view.arms[1:])))
    origins = {group.origin for group, _ in parts}
    shared = _PREFIXES.get(origins.pop(), "") if len(origins) == 1 else ""
    named = len({id(group) for group, _ in parts}) > 1
    told = [
        ("" if shared else _PREFIXES.get(group.origin, "")) + (_short(group, view) if named else "") + text
        for group, text in parts
    ]
    return shared + "; ".join(told)


def _arm_text(rows: Sequence[Row], arm: str) -> str | None:
    """What one arm showed in one group; None where it has no ratio by rule or was not run."""
    points = {row.case.size_bytes: row.comparison.outcome for row in rows if row.comparison}
    if not points:
        return None
    of = sorted(row.case.size_bytes for row in rows)
    parts: list[str] = []
    start = faster_from(sorted(points.items()))
    for outcome in _OUTCOMES:
        sizes = [size for size in of if points.get(size) == outcome]
        if not sizes:
            continue
        if outcome == "faster" and start is not None and sizes[0] == start and len(sizes) > 1 and sizes != of:
            parts.append(f"faster from {format_size(start)}")
        else:
            parts.append(f"{outcome} at {sizes_text(sizes, of=of)}")
    return f"{arm}: {', '.join(parts)}"


def _counts(view: RunView, arm: str) -> str | None:
    outcomes = Counter(row.comparison.outcome for row in view.rows if row.arm.name == arm and row.comparison)
    if not outcomes:
        return None
    told = ", ".join(f"{outcome} in {outcomes[outcome]}" for outcome in _OUTCOMES if outcomes[outcome])
    prefix = _PREFIXES.get(view.origins[0], "") if len(view.origins) == 1 else ""
    return f"{prefix}{arm}: {told} of {outcomes.total()} cells"


def _short(group: Group, view: RunView) -> str:
    """Just what tells the group from the others."""
    several = [
        (COLLECTIVES[group.collective].title, len({g.collective for g in view.groups})),
        (group.dtype, len({g.dtype for g in view.groups})),
        (group.placement.replace("_", " "), len({g.placement for g in view.groups})),
        (f"{group.num_ranks} ranks", len({g.num_ranks for g in view.groups})),
    ]
    told = " ".join(text for text, number in several if number > 1)
    return f"{told} " if told else ""
