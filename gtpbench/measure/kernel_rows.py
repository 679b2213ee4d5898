"""What all ranks' kernel rows of one timed object show together. Pure.

Every rank must show one and the same kernel of the collective, or copies and no kernel, once for every call.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gtpbench.collectives import COLLECTIVES
from gtpbench.measure.paths import KernelClass, classify_kernel, is_peer_copy
from gtpbench.plan import Case
from gtpbench.record.model import RankEvidence

SOURCE_WORDS = {"graph_nodes": "graph nodes", "cupti": "CUPTI"}
"""The sources of kernel rows."""
_MAX_TOLD = 3
"""Ranks at fault that a statement names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What every rank showed.

    Attributes:
        kernel: the one kernel of all ranks; None where only copies were seen.
        ctas: its grid, the largest where ranks differ.
        statement: the evidence in words.
    """

    kernel: KernelClass | None
    ctas: int | None
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    rank: int
    calls: int
    kernels: dict[str, int]
    """Function name -> launches."""
    grids: frozenset[int]
    copies: int

    @property
    def statement(self) -> str:
        rows = [f"{name} x{count}" for name, count in self.kernels.items()]
        rows += [f"{self.copies} copies"] if self.copies else []
        return f"rank {self.rank} shows {' and '.join(rows) or 'neither a kernel nor a copy'} for {self.calls} calls"


def sighting(case: Case, evidence: Sequence[RankEvidence]) -> Sighting | str:
    """What the evidence of one clock shows, or why it shows nothing, in words that name the ranks at fault."""
    missing = _missing(evidence, num_ranks=case.num_ranks)
    if missing:
        return _told(missing)
    ranks = [_read(item) for item in sorted(evidence, key=lambda item: item.rank)]
    source = SOURCE_WORDS[evidence[0].source]
    if len({rank.calls for rank in ranks}) > 1:
        return f"the ranks looked at different numbers of calls: {', '.join(str(rank.calls) for rank in ranks)}"
    mixed = [rank.statement for rank in ranks if len(rank.kernels) + bool(rank.copies) != 1]
    if mixed:
        return f"{_told(mixed)} ({source})"
    if not any(rank.kernels for rank in ranks):
        return _copies(ranks, source=source, num_peers=case.num_ranks - 1)
    return _kernel(case, ranks, source=source)


def _missing(evidence: Sequence[RankEvidence], *, num_ranks: int) -> list[str]:
    """What each rank's evidence lacks before its rows are read."""
    problems: list[str] = []
    seen = Counter(item.rank for item in evidence)
    for rank in sorted({*range(num_ranks), *seen}):
        if rank >= num_ranks:
            problems.append(f"rank {rank} is none of the {num_ranks} ranks")
        elif seen[rank] != 1:
            problems.append(f"rank {rank} left {'no evidence' if not seen[rank] else 'evidence twice'}")
    for item in evidence:
        if item.error is not None:
            problems.append(f"rank {item.rank} could not look: {item.error}")
        elif not item.calls:
            problems.append(f"rank {item.rank} does not say how many calls it looked at")
    return problems


def _read(item: RankEvidence) -> _Rank:
    launches = [row for row in item.kernels if row.kind == "kernel" and not is_peer_copy(row.name)]
    kernels: Counter[str] = Counter()
    for row in launches:
        kernels[classify_kernel(row.name).name] += row.count
    return _Rank(
        rank=item.rank,
        calls=item.calls or 0,
        kernels=dict(kernels),
        grids=frozenset(row.grid for row in launches if row.grid is not None),
        copies=sum(row.count for row in item.kernels if is_peer_copy(row.name)),
    )


def _copies(ranks: Sequence[_Rank], *, source: str, num_peers: int) -> Sighting | str:
    """A copy engine sends to each peer: at least that many copies a call, the same in every call."""
    wrong = [rank.statement for rank in ranks if rank.copies % rank.calls or rank.copies < num_peers * rank.calls]
    if wrong:
        least = "1 copy" if num_peers == 1 else f"{num_peers} copies"
        return f"{_told(wrong)}, where each call needs {least} or more, as many as every other ({source})"
    per_call = sorted({rank.copies // rank.calls for rank in ranks})
    number = " to ".join(str(number) for number in dict.fromkeys((per_call[0], per_call[-1])))
    number += " copy" if per_call[-1] == 1 else " copies"
    statement = f"{ranks[0].calls} calls on each of {len(ranks)} ranks: no kernel, {number} a call ({source})"
    return Sighting(kernel=None, ctas=None, statement=statement)


def _kernel(case: Case, ranks: Sequence[_Rank], *, source: str) -> Sighting | str:
    names = Counter(next(iter(rank.kernels), "") for rank in ranks)
    name = max((name for name in names if name), key=lambda name: names[name])
    others = [rank.statement for rank in ranks if name not in rank.kernels]
    if others:
        return f"{_told(others)}, the other ranks show {name} ({source})"
    kernel = classify_kernel(name)
    if kernel.family == "unknown":
        return f"{name} is no kernel of NCCL known here ({source})"
    if kernel.collective != case.collective:
        return f"{name} is no {COLLECTIVES[case.collective].title} ({source})"
    wrong = [rank.statement for rank in ranks if rank.kernels[name] != rank.calls]
    if wrong:
        return f"{_told(wrong)} ({source})"
    calls = ranks[0].calls
    grids = sorted(frozenset().union(*(rank.grids for rank in ranks)))
    statement = f"{calls} of {calls} calls on each of {len(ranks)} ranks: {name}"
    if len(grids) > 1:
        statement += f", grids differ, {grids[0]} to {grids[-1]} CTAs"
    elif grids:
        statement += f", {grids[0]} CTAs"
    return Sighting(kernel=kernel, ctas=grids[-1] if grids else None, statement=f"{statement} ({source})")


def _told(problems: Sequence[str]) -> str:
    """One after another; of many ranks the first few."""
    more = len(problems) - _MAX_TOLD
    return "; ".join(problems[:_MAX_TOLD]) + (f"; {more} more" if more > 0 else "")
