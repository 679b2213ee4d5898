"""What the ranks of one set tell one another outside collectives: small values, and what each allocated."""

import json
import time
from collections import Counter

from gtpbench.backends.base import RankContext
from gtpbench.errors import RunError, StageTimeout

_opened: Counter[tuple[str, int, int]] = Counter()
"""Backends opened by this process per (name, set, rank), so that a second one does not meet the keys of the first."""

_SWEEP_S = 0.01
"""How long each remaining rank is given once one has been missed: enough to tell present from absent."""


class Rendezvous:
    """Gathers small values of all ranks over the context's exchange, each round under keys of its own."""

    def __init__(self, context: RankContext, *, name: str) -> None:
        identity = (name, context.set_id, context.rank)
        _opened[identity] += 1
        self._context = context
        self._num_rounds = 0
        self.namespace = f"set{context.set_id}/{name}{_opened[identity]}"
        """Prefix of this backend's keys, equal on all ranks."""

    def gather(self, what: str, value: bytes = b"") -> list[bytes]:
        """Every rank's value, in rank order. Collective.

        Raises:
            StageTimeout: not all ranks came; names the ones that did not.
        """
        context = self._context
        self._num_rounds += 1
        prefix = f"{self.namespace}/{self._num_rounds}/{what}"
        context.exchange.set(f"{prefix}/{context.rank}", value)
        deadline = time.monotonic() + context.timeout_s
        found, missing = [], []
        for peer in range(context.num_ranks):
            left = max(deadline - time.monotonic(), _SWEEP_S)
            try:
                found.append(context.exchange.wait(f"{prefix}/{peer}", timeout_s=left))
            except StageTimeout:
                missing.append(peer)
                deadline = 0.0
        if missing:
            raise missed(context, what, missing)
        return found


def missed(context: RankContext, what: str, ranks: list[int]) -> StageTimeout:
    """The error of a rank that waited for others in vain."""
    names = ", ".join(str(rank) for rank in ranks)
    return StageTimeout(
        f"set {context.set_id}, rank {context.rank}: {what}: waited {context.timeout_s:g} s for rank {names}"
    )


def compare_allocations(rendezvous: Rendezvous, pool: str, allocations: list[tuple[str, int]]) -> None:
    """Check that all ranks made the same allocations in the same order. Collective.

    Every rank finds the same difference and raises, so none is left waiting for another.

    Args:
        rendezvous: of the set.
        pool: name for the message.
        allocations: (dtype, count) in order of `alloc`.

    Raises:
        RunError: names the first allocation and the first rank that differ from rank 0.
    """
    told = [json.loads(text) for text in rendezvous.gather(f"{pool} allocations", json.dumps(allocations).encode())]
    for number in range(max(len(list_) for list_ in told)):
        sizes = [_describe(list_, number) for list_ in told]
        for rank, size in enumerate(sizes):
            if size != sizes[0]:
                raise RunError(
                    f"rank {rank} and rank 0 differ at allocation {number} of the {pool} pool: "
                    f"rank {rank} made {size}, rank 0 made {sizes[0]}; "
                    "all ranks must allocate in the same order and size"
                )


def _describe(allocations: list[tuple[str, int]], number: int) -> str:
    if number >= len(allocations):
        return "nothing"
    dtype, count = allocations[number]
    return f"{count} x {dtype}"
