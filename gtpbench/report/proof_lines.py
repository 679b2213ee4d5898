"""The evidence of the paths of one table's rows, folded: sizes and clocks that saw the same are one line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gtpbench.measure.kernel_rows import SOURCE_WORDS
from gtpbench.record.model import ProofVerdict
from gtpbench.report.details import KernelUse, PathProof, Seen
from gtpbench.report.model import Group, Row
from gtpbench.report.orders import WITH_PROOF
from gtpbench.report.words import MISSING, path_text, sizes_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLine:
    """What some ranks saw of one arm, in words.

    Attributes:
        kernel: the names, `×n` where a call has several.
        calls: of each clock, smallest to largest over the sizes: `64 to 512 / 8`.
        ranks: their number where all saw it, else which.
        source: where it was seen.
    """

    arm: str
    sizes: str
    clocks: str
    path: str
    kernel: str
    ctas: str
    calls: str
    ranks: str
    source: str
    verdict: ProofVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why rows lack a proof: their verdict, and arm, sizes, clocks and statement in a sentence."""

    verdict: ProofVerdict
    text: str


_PART = "; "
"""Between the parts of a statement: what was seen, then what it means."""
_Key = tuple[str, str, str, str, str, ProofVerdict]
"""Arm, path, kernel, CTAs, ranks, verdict."""


@dataclass(slots=True, kw_only=True)
class _Sighting:
    """One key at one size: the clocks that saw it."""

    size_bytes: int
    calls: dict[str, int] = field(default_factory=dict)
    """Clock, with its launches where they differ -> calls."""
    sources: dict[str, None] = field(default_factory=dict)


def path_lines(group: Group) -> list[PathLine]:
    """The lines of one table, arm by arm; empty where no kernels were looked at."""
    of = sorted({row.case.size_bytes for row in group.rows})
    folded: dict[tuple[_Key, tuple[str, ...]], list[_Sighting]] = {}
    for arm in dict.fromkeys(row.arm.name for row in group.rows):
        for row in group.rows:
            if row.arm.name == arm:
                for key, sighting in _sightings(row).items():
                    folded.setdefault((key, tuple(sighting.calls)), []).append(sighting)
    return [_line(key, clocks, sightings, of) for (key, clocks), sightings in folded.items()]


def doubts(group: Group) -> list[Doubt]:
    """One for each verdict that is no proof, arm and reason, which is the last part of the statement."""
    folded: dict[tuple[ProofVerdict, str, str], list[tuple[Row, PathProof]]] = {}
    for row in group.rows:
        for proof in row.proofs:
            if proof.verdict not in WITH_PROOF:
                key = (proof.verdict, row.arm.name, proof.statement.split(_PART)[-1])
                folded.setdefault(key, []).append((row, proof))
    of = sorted({row.case.size_bytes for row in group.rows})
    return [
        Doubt(verdict=verdict, text=f"{arm} at {_where(having, of)}: {_reason([proof for _, proof in having])}")
        for (verdict, arm, _), having in folded.items()
    ]


def _where(having: Sequence[tuple[Row, PathProof]], of: Sequence[int]) -> str:
    """Sizes, and the clocks unless all of the rows' clocks have the doubt."""
    sizes = sizes_text(sorted({row.case.size_bytes for row, _ in having}), of=of)
    clocks = dict.fromkeys(proof.clock for _, proof in having)
    if all({proof.clock for proof in row.proofs} <= clocks.keys() for row, _ in having):
        return sizes
    return f"{sizes}, {' and '.join(clock or 'all' for clock in clocks)} clock"


def _reason(proofs: Sequence[PathProof]) -> str:
    """The statement, or of several the end that they share after the kernels that they saw."""
    statements = list(dict.fromkeys(proof.statement for proof in proofs))
    if len(statements) == 1:
        return statements[0]
    shared: list[str] = []
    for parts in zip(*(reversed(statement.split(_PART)) for statement in statements), strict=False):
        if len(set(parts)) > 1:
            break
        shared.insert(0, parts[0])
    names = dict.fromkeys(use.name for proof in proofs for seen in proof.seen for use in seen.kernels)
    return _PART.join([*([" and ".join(names)] if names else []), *shared])


def _sightings(row: Row) -> dict[_Key, _Sighting]:
    found: dict[_Key, _Sighting] = {}
    for clock, proof, seen in _observed(row):
        key: _Key = (
            row.arm.name,
            path_text(proof),
            _kernels(seen),
            " + ".join(dict.fromkeys(str(use.ctas) for use in seen.kernels if use.ctas is not None)) or MISSING,
            _ranks(seen, num_ranks=row.case.num_ranks),
            proof.verdict,
        )
        sighting = found.setdefault(key, _Sighting(size_bytes=row.case.size_bytes))
        sighting.calls[clock] = seen.calls or 0
        sighting.sources[SOURCE_WORDS.get(seen.source, seen.source)] = None
        if proof.log:
            sighting.sources["TUNING of another launch"] = None
    return found


def _observed(row: Row) -> Iterator[tuple[str, PathProof, Seen]]:
    """Every look at a timed object, with its clock's name."""
    for proof in row.proofs:
        clock: str = proof.clock or "all"
        if sum(other.clock == proof.clock for other in row.proofs) > 1:
            clock += f", launch {_numbers(proof.launches)}"
        yield from ((clock, proof, seen) for seen in proof.seen if seen.calls and seen.error is None)


def _line(key: _Key, clocks: Sequence[str], sightings: Sequence[_Sighting], of: Sequence[int]) -> PathLine:
    arm, path, kernel, ctas, ranks, verdict = key
    calls = [_span([sighting.calls[clock] for sighting in sightings]) for clock in clocks]
    return PathLine(
        arm=arm,
        sizes=sizes_text(sorted({sighting.size_bytes for sighting in sightings}), of=of),
        clocks=", ".join(clocks),
        path=path,
        kernel=kernel,
        ctas=ctas,
        calls=" / ".join(calls),
        ranks=ranks,
        source=", ".join(dict.fromkeys(source for sighting in sightings for source in sighting.sources)),
        verdict=verdict,
    )


def _kernels(seen: Seen) -> str:
    return " + ".join(_kernel(use, calls=seen.calls or 1) for use in seen.kernels) or "none"


def _kernel(use: KernelUse, *, calls: int) -> str:
    if use.count % calls:
        return f"{use.name} {use.count} times"
    return use.name if use.count == calls else f"{use.name} ×{use.count // calls}"


def _ranks(seen: Seen, *, num_ranks: int) -> str:
    if len(seen.ranks) == num_ranks:
        return str(num_ranks)
    return f"rank{'s' if len(seen.ranks) > 1 else ''} {_numbers(seen.ranks)} of {num_ranks}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _span(values: Sequence[int]) -> str:
    return f"{min(values)} to {max(values)}" if min(values) != max(values) else str(values[0])
