"""From the proofs of one cell's records to what its reports say of the path, one entry a clock."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from gtpbench.measure.paths import classify_kernel
from gtpbench.record.model import Clock, KernelRow, Proof, ProofItem, ProofVerdict, RankEvidence, Record
from gtpbench.report.details import KernelUse, PathProof, Seen
from gtpbench.report.orders import CLOCK_ORDER, PROOF_ORDER

_LOG = "tuning_log"


def path_proofs(records: Sequence[Record]) -> tuple[PathProof, ...]:
    """The paths of one cell, the headline clock's first; launches that saw the same are one entry."""
    found: dict[PathProof, PathProof] = {}
    for record in records:
        for item in record.proof.items if record.proof else ():
            assert record.proof is not None
            proof = _path_proof(item, record.proof)
            key = replace(proof, statement="")
            known = found.get(key, proof)
            found[key] = replace(known, launches=(*known.launches, record.launch))
    return tuple(sorted(found.values(), key=_place))


def worst_verdict(records: Sequence[Record]) -> ProofVerdict | None:
    """The worst of all launches and clocks; None where nothing ran."""
    proofs = [record.proof for record in records if record.proof]
    verdicts = {verdict for proof in proofs for verdict in (proof.verdict, *(item.verdict for item in proof.items))}
    return max(verdicts, key=PROOF_ORDER.index, default=None)


def headline_proofs(proofs: Sequence[PathProof]) -> tuple[PathProof, ...]:
    """Those of the first clock: what a table shows in one cell."""
    return tuple(proof for proof in proofs if proof.clock == proofs[0].clock)


def clocks_differ(proofs: Sequence[PathProof]) -> bool:
    """Whether two clocks' timed objects took different paths or have different verdicts; unknown is no difference."""
    by_clock: dict[Clock | None, list[PathProof]] = {}
    for proof in proofs:
        by_clock.setdefault(proof.clock, []).append(proof)
    return any(
        not _agree({fact(proof) for proof in ours}, {fact(proof) for proof in theirs})
        for ours, theirs in combinations(by_clock.values(), 2)
        for fact in _FACTS
    )


def _known_path(proof: PathProof) -> str | None:
    return None if proof.path == "unknown" else proof.path


_LEGACY = ("ring", "tree", "pat", "nvls", "collnet")
_FACTS: tuple[Callable[[PathProof], str | int | None], ...] = (
    lambda proof: proof.verdict,
    lambda proof: "legacy" if proof.legacy or proof.path in _LEGACY else _known_path(proof),
    _known_path,
    lambda proof: proof.algorithm,
    lambda proof: proof.ctas,
)


def _agree(ours: set[str | int | None], theirs: set[str | int | None]) -> bool:
    return ours == theirs or None in ours | theirs


def _place(proof: PathProof) -> tuple[int, tuple[int, ...]]:
    return -1 if proof.clock is None else CLOCK_ORDER.index(proof.clock), proof.launches


def _path_proof(item: ProofItem, proof: Proof) -> PathProof:
    """Its `launches` are still empty."""
    evidence = [piece for piece in proof.evidence if item.clock is None or piece.clock in {item.clock, None}]
    seen = _seen([piece for piece in evidence if piece.source != _LOG])
    return PathProof(
        clock=item.clock,
        verdict=item.verdict,
        path=item.path,
        algorithm=item.algorithm,
        protocol=item.protocol,
        ctas=item.ctas,
        legacy=item.path == "unknown" and _all_legacy(evidence),
        statement=item.statement,
        seen=seen,
        log=tuple(dict.fromkeys(line for piece in evidence if piece.source == _LOG for line in piece.lines)),
        launches=(),
    )


def _seen(evidence: Sequence[RankEvidence]) -> tuple[Seen, ...]:
    """Ranks that saw the same are one entry."""
    ranks: dict[Seen, list[int]] = {}
    for piece in sorted(evidence, key=lambda piece: piece.rank):
        alike = Seen(
            source=piece.source, ranks=(), calls=piece.calls, kernels=_kernels(piece.kernels), error=piece.error
        )
        ranks.setdefault(alike, []).append(piece.rank)
    return tuple(replace(alike, ranks=tuple(having)) for alike, having in ranks.items())


def _kernels(rows: Sequence[KernelRow]) -> tuple[KernelUse, ...]:
    """Rows of one name and grid together; copies by their kind."""
    counts: dict[KernelUse, int] = {}
    for row in rows:
        is_kernel = row.kind == "kernel"
        named = is_kernel or row.kind == "other"
        name = classify_kernel(row.name).name if named else row.kind
        use = KernelUse(name=name, kind=row.kind, ctas=row.grid if is_kernel else None, count=0)
        counts[use] = counts.get(use, 0) + row.count
    return tuple(replace(use, count=count) for use, count in counts.items())


def _all_legacy(evidence: Sequence[RankEvidence]) -> bool:
    names = {row.name for piece in evidence for row in piece.kernels if row.kind == "kernel"}
    return bool(names) and all(classify_kernel(name).family == "legacy" for name in names)
