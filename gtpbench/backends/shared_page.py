"""What the ranks of one node show one another inside a collective: splits, and data in pieces. No torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gtpbench.backends.base import RankContext
from gtpbench.backends.rendezvous import Rendezvous
from gtpbench.backends.shared_memory import FlagBarrier, share_page
from gtpbench.errors import RunError

_PIECE_BYTES = 1 << 18


class SplitTable:
    """A shared table of how many elements each rank sends to each: written before a barrier, read after it."""

    def __init__(self, rendezvous: Rendezvous, context: RankContext, barrier: FlagBarrier) -> None:
        """Share the table. Collective."""
        self._rank, self._num_ranks = context.rank, context.num_ranks
        self._barrier = barrier
        page = share_page(rendezvous, context, 8 * context.num_ranks**2, label="gtpbench.splits")
        self._table = memoryview(page).cast("B").cast("q")

    def exchange(self, count: int, splits: Sequence[int] | None) -> list[list[int]]:
        """[from][to] elements of this all-to-all. Collective; the caller ends it with a barrier.

        Args:
            count: elements of this rank's send buffer.
            splits: of them to each rank; equal when None.
        """
        row = self._rank * self._num_ranks
        for peer, part in enumerate(self._splits_of(count, splits)):
            self._table[row + peer] = part
        self._barrier.wait()
        told = self._table.tolist()
        return [told[first : first + self._num_ranks] for first in range(0, len(told), self._num_ranks)]

    def expected(self, count: int, splits: Sequence[int] | None, *, tables: list[list[int]]) -> RunError | None:
        """The error of a rank to which the others send something else than it expects; None where they agree."""
        awaited = self._splits_of(count, splits)
        told = [table[self._rank] for table in tables]
        if told == awaited:
            return None
        return RunError(f"rank {self._rank}: all_to_all: the ranks send {told} elements here, {awaited} are expected")

    def _splits_of(self, count: int, splits: Sequence[int] | None) -> list[int]:
        parts = [count // self._num_ranks] * self._num_ranks if splits is None else list(splits)
        assert len(parts) == self._num_ranks and sum(parts) == count, (parts, count)
        return parts


class SharedStage:
    """A run of shared memory through which ranks show one another whole buffers, whatever memory those lie in."""

    def __init__(self, rendezvous: Rendezvous, context: RankContext, barrier: FlagBarrier) -> None:
        """Share the run. Collective."""
        self._rank = context.rank
        self._barrier = barrier
        page = share_page(rendezvous, context, _PIECE_BYTES * context.num_ranks, label="gtpbench.stage")
        places = np.frombuffer(memoryview(page).cast("B"), dtype=np.uint8)
        self._places = places.reshape(context.num_ranks, _PIECE_BYTES)

    def share(self, mine: npt.NDArray[Any], counts: Sequence[int]) -> list[npt.NDArray[Any]]:
        """Copies of every rank's buffer, in rank order. Collective; ends with a barrier.

        Args:
            mine: this rank's elements.
            counts: elements of each rank, of the same type.
        """
        source = mine.view(np.uint8)
        copies = [np.empty(count * mine.itemsize, dtype=np.uint8) for count in counts]
        # One round even for nothing, so that the ranks meet.
        for first in range(0, max(1, *(copy.size for copy in copies)), _PIECE_BYTES):
            piece = source[first : first + _PIECE_BYTES]
            self._places[self._rank, : piece.size] = piece
            self._barrier.wait()
            for copy, place in zip(copies, self._places, strict=True):
                part = copy[first : first + _PIECE_BYTES]
                part[:] = place[: part.size]
            self._barrier.wait()
        return [copy.view(mine.dtype) for copy in copies]
