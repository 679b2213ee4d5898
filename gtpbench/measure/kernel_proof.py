"""Proof of path on GPUs: the kernels of the timed object on every rank, against what the arm asked for. Pure.

The name of a symmetric kernel says its path. Legacy kernels share their names, so their path comes from TUNING lines
of another launch of the same plan, and is `unknown` without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gtpbench.collectives import COLLECTIVES
from gtpbench.measure.kernel_rows import SOURCE_WORDS, Sighting, sighting
from gtpbench.measure.nccl_log import NcclLog, Tuning, parse_log
from gtpbench.measure.nccl_rules import (
    Version,
    copy_engine_by_itself,
    no_copy_engine,
    no_multicast_kernel,
    no_nvls,
    no_symmetric_kernel,
)
from gtpbench.measure.paths import KernelClass, snake_case
from gtpbench.plan import Arm, Case
from gtpbench.record.model import PathName, Proof, ProofItem, ProofVerdict, RankEvidence
from gtpbench.versions import parse_version

_ORDER: Final[tuple[ProofVerdict, ...]] = ("proved", "by_construction", "not_eligible", "unproven", "fell_back")
"""From best to worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    verdict: ProofVerdict
    path: PathName
    statement: str
    algorithm: str | None = None
    protocol: str | None = None
    ctas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What all clocks of the cell have in common."""

    case: Case
    arm: Arm
    version: Version
    log: NcclLog | None
    """None where no TUNING log was taken."""
    tuning: tuple[Tuning, ...]
    """The different choices logged for this collective and size."""
    windows: str | None
    """Ranks that hold NULL windows, in words."""
    unregistered: tuple[int, ...]
    """Ranks that count their registered buffers and have none."""


def kernel_proof(case: Case, arm: Arm, evidence: Sequence[RankEvidence], *, nccl_version: str | None) -> Proof:
    """The proof of one cell; one item for each clock, the worst of them is the proof's.

    Args:
        evidence: for each clock one `graph_nodes` or `cupti` of every rank; `tuning_log` of rank 0 from another launch,
            with the lines of this cell only.
        nccl_version: of the loaded library, for rules that depend on it.

    Raises:
        UsageError: `nccl_version` is no version.
    """
    asked = _asked(case, arm, evidence, nccl_version=nccl_version)
    looked = [item for item in evidence if item.source in SOURCE_WORDS]
    items: list[ProofItem] = []
    for clock in dict.fromkeys(item.clock for item in looked) or (None,):
        finding = _find(asked, [item for item in looked if item.clock == clock])
        items.append(
            ProofItem(
                clock=clock,
                role="collective",
                collective=case.collective,
                size_bytes=case.size_bytes,
                verdict=finding.verdict,
                path=finding.path,
                algorithm=finding.algorithm,
                protocol=finding.protocol,
                ctas=finding.ctas,
                statement=finding.statement,
            )
        )
    worst = max(items, key=lambda item: _ORDER.index(item.verdict))
    return Proof(verdict=worst.verdict, path=worst.path, items=tuple(items), evidence=tuple(evidence))


def _asked(case: Case, arm: Arm, evidence: Sequence[RankEvidence], *, nccl_version: str | None) -> _Asked:
    logs = [item for item in evidence if item.source == "tuning_log" and item.error is None]
    log = parse_log(line for item in logs for line in item.lines) if logs else None
    share = case.size_bytes // case.num_ranks
    tuning = [
        line
        for line in (log.tuning if log else ())
        if snake_case(line.function) == case.collective and line.bytes_per_rank == share
    ]
    null = {item.rank: item.counters["null_windows"] for item in evidence if item.counters.get("null_windows")}
    return _Asked(
        case=case,
        arm=arm,
        version=None if nccl_version is None else parse_version(nccl_version),
        log=log,
        tuning=tuple(dict.fromkeys(tuning)),
        windows=", ".join(f"rank {rank}: {count}" for rank, count in sorted(null.items())) or None,
        unregistered=tuple(sorted({item.rank for item in evidence if item.counters.get("registered") == 0})),
    )


def _find(asked: _Asked, evidence: Sequence[RankEvidence]) -> _Finding:
    if asked.case.num_ranks < 2:
        return _unproven("one rank communicates with nobody: whatever ran there proves no path")
    if not evidence:
        return _unproven("no rank looked at the timed object")
    seen = sighting(asked.case, evidence)
    return _unproven(seen) if isinstance(seen, str) else _judge(asked, seen)


def _judge(asked: _Asked, seen: Sighting) -> _Finding:
    family = "copy_engine" if seen.kernel is None else seen.kernel.family
    others = [line for line in asked.tuning if line.family != family]
    if others:
        return _unproven(f"{seen.statement}; TUNING of another launch contradicts it: {_words(others)}")
    if seen.kernel is None:
        return _copy_engine(asked, seen)
    if seen.kernel.family == "symmetric":
        return _symmetric(asked, seen, seen.kernel)
    return _legacy(asked, seen)


def _copy_engine(asked: _Asked, seen: Sighting) -> _Finding:
    case, arm = asked.case, asked.arm
    found = _Finding(verdict="proved", path="copy_engine", statement=seen.statement)
    if arm.cta_policy == "zero" and not COLLECTIVES[case.collective].reduces:
        return found
    rule = copy_engine_by_itself(case, arm, version=asked.version) if arm.registration == "window" else None
    if rule is None:
        return _unproven(f"{seen.statement}: no kernel of the {COLLECTIVES[case.collective].title}")
    verdict: ProofVerdict = "proved" if arm.multicast == "any" else "not_eligible"
    return replace(found, verdict=verdict, statement=f"{seen.statement}: {rule}")


def _symmetric(asked: _Asked, seen: Sighting, kernel: KernelClass) -> _Finding:
    case, arm = asked.case, asked.arm
    found = _Finding(
        verdict="proved",
        path=kernel.path or "unknown",
        algorithm=kernel.algorithm,
        ctas=seen.ctas,
        statement=seen.statement,
    )
    has_multicast = "MC" in (kernel.algorithm or "")
    if arm.registration != "window":
        return _fell_back(found, f"{arm.name} asks for no window, a symmetric kernel ran")
    if arm.cta_policy == "zero":
        rule = no_copy_engine(case, version=asked.version)
        return _kept(asked, found, rule=rule, otherwise="the copy engines were asked for, a kernel ran")
    if arm.multicast == "required" and not has_multicast:
        rule = no_multicast_kernel(case, kernel, version=asked.version)
        return _kept(asked, found, rule=rule, otherwise="a multicast kernel was required")
    if arm.multicast == "off" and has_multicast:
        return _fell_back(found, "multicast was to be off")
    return found


def _legacy(asked: _Asked, seen: Sighting) -> _Finding:
    arm, log = asked.arm, asked.log
    paths = {line.path for line in asked.tuning}
    protocols = {line.protocol for line in asked.tuning}
    only = asked.tuning[0] if len(paths) == 1 else None
    found = _Finding(
        verdict="proved",
        path=only.path if only else "unknown",
        algorithm=only.algorithm if only else None,
        protocol=only.protocol if only and len(protocols) == 1 else None,
        ctas=seen.ctas,
        statement=f"{seen.statement}; {_legacy_words(asked)}",
    )
    if arm.registration == "window":
        return _without_window(asked, found)
    if arm.registration == "registered" and asked.unregistered:
        ranks = ", ".join(str(rank) for rank in asked.unregistered)
        return _unproven(f"{found.statement}; no buffer is registered on rank {ranks}")
    if arm.registration == "none" and arm.family == "main" and log and (log.registrations or log.windows):
        number = len(log.registrations) or len(log.windows)
        return _unproven(f"{found.statement}; buffers were registered there ({number} times), this arm asks for none")
    if arm.multicast == "required" and found.path != "nvls":
        if only is None:
            return _unproven(found.statement)
        return _kept(asked, found, rule=no_nvls(asked.case), otherwise="NVLS was asked for")
    return found


def _without_window(asked: _Asked, found: _Finding) -> _Finding:
    """A legacy kernel ran though windows were asked for. NULL windows explain it without a rule: NCCL refused them."""
    case, arm = asked.case, asked.arm
    if arm.cta_policy == "zero" and not COLLECTIVES[case.collective].reduces:
        rule = no_copy_engine(case, version=asked.version)
        otherwise = "the copy engines were asked for, a legacy kernel ran"
    else:
        rule = no_symmetric_kernel(case, arm, version=asked.version, protocol=found.protocol)
        otherwise = "a window was asked for, a legacy kernel ran"
    return _kept(asked, found, rule=None if asked.windows else rule, otherwise=otherwise)


def _kept(asked: _Asked, found: _Finding, *, rule: str | None, otherwise: str) -> _Finding:
    """`not_eligible` where a rule of NCCL says so, else `fell_back`."""
    if rule is None:
        return _fell_back(found, f"{otherwise}; NULL windows on {asked.windows}" if asked.windows else otherwise)
    version = f"NCCL {'.'.join(str(part) for part in asked.version)}" if asked.version else "NCCL"
    return replace(found, verdict="not_eligible", statement=f"{found.statement}; {version}: {rule}")


def _fell_back(found: _Finding, why: str) -> _Finding:
    return replace(found, verdict="fell_back", statement=f"{found.statement}; {why}")


def _unproven(statement: str) -> _Finding:
    return _Finding(verdict="unproven", path="unknown", statement=statement)


def _legacy_words(asked: _Asked) -> str:
    if asked.tuning:
        return f"TUNING of another launch: {_words(asked.tuning)}"
    lacking = "no TUNING log" if asked.log is None else "no TUNING line for this size"
    return f"ring, NVLS and PAT share this name; {lacking}"


def _words(lines: Sequence[Tuning]) -> str:
    told = []
    for line in lines:
        parts = [line.algorithm or "copy engine", line.protocol, "symmetric" if line.family == "symmetric" else None]
        channels = f", {line.num_channels} channels" if line.num_channels else ""
        told.append(" ".join(part for part in parts if part) + channels)
    return " and ".join(told)
