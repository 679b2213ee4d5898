"""Memory that the ranks of one node map into one another: the CPU counterpart of a symmetric window. No torch."""

import time
from pathlib import Path

from gtpbench.backends.base import RankContext
from gtpbench.backends.rendezvous import Rendezvous, compare_allocations
from gtpbench.backends.shared_memory import Memory, Segment, open_segment
from gtpbench.errors import RunError

_LABEL = "gtpbench.window"


class WindowPool:
    """Allocations of one rank, each a segment, and after `register` the same allocations of every peer."""

    def __init__(self, context: RankContext, rendezvous: Rendezvous) -> None:
        self._context = context
        self._rendezvous = rendezvous
        self._label = f"{_LABEL}.set{context.set_id}.rank{context.rank}"
        self._segments: list[Segment] = []
        self.described: list[tuple[str, int]] = []
        """(dtype, count) of each allocation, in order."""
        self._peers: list[list[Memory]] = []
        self.is_registered = False

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def num_bytes(self) -> int:
        """Bytes of this rank's allocations."""
        return sum(segment.num_bytes for segment in self._segments)

    def alloc(self, count: int, *, dtype: str, num_bytes: int) -> tuple[int, Memory]:
        """Number and memory of a new allocation, aligned to a page. Collective in order and size.

        Raises:
            RunError: the pool is registered already.
        """
        if self.is_registered:
            raise RunError("the window pool is registered: release it before allocating in it again")
        segment = Segment(num_bytes, label=self._label)
        self._segments.append(segment)
        self.described.append((dtype, count))
        return len(self._segments) - 1, segment.memory

    def register(self) -> float:
        """Compare allocations, then map those of the peers. Collective.

        Returns:
            Microseconds; 0 where it was registered already.

        Raises:
            RunError: ranks allocated differently.
        """
        if self.is_registered:
            return 0.0
        compare_allocations(self._rendezvous, "window", self.described)
        start_ns = time.perf_counter_ns()
        addresses = b"\n".join(segment.address() for segment in self._segments)
        for rank, told in enumerate(self._rendezvous.gather("window addresses", addresses)):
            own = rank == self._context.rank
            self._peers.append(
                [segment.memory for segment in self._segments]
                if own
                # Peers only load from one another, so a stray store faults instead of spoiling a result.
                else [open_segment(address, writable=False) for address in told.splitlines()]
            )
        self._rendezvous.gather("window mapped")
        for segment in self._segments:
            segment.close()
        self.is_registered = True
        return (time.perf_counter_ns() - start_ns) / 1000.0

    def of(self, rank: int, allocation: int) -> Memory:
        """A rank's allocation, mapped here. Local; registered pools only."""
        return self._peers[rank][allocation]

    def release(self) -> float:
        """Unmap the peers' memory and forget this rank's, freed with its last view. Collective.

        Returns:
            Microseconds that unmapping took.
        """
        start_ns = time.perf_counter_ns()
        self.drop()
        lasted_us = (time.perf_counter_ns() - start_ns) / 1000.0
        self._rendezvous.gather("window released")
        return lasted_us

    def drop(self) -> None:
        """Forget all memory without meeting the peers, whose mappings of it stay valid. Local."""
        self._peers.clear()
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self.described.clear()
        self.is_registered = False


def mapped_peers(context: RankContext) -> int:
    """How many peers' windows are mapped into this process now, as the kernel lists them. Local."""
    prefix = f"/memfd:{_LABEL}.set{context.set_id}.rank"
    found = set()
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        _, mark, rest = line.partition(prefix)
        if mark:
            found.add(int(rest.split(".", 1)[0]))
    return len(found - {context.rank})
