"""The progress board: a shared page a worker set, written by its ranks with plain stores, read by the watchdog.

A store costs well under a microsecond, so a rank can note every operation it enters. Pure standard library: ranks
attach before they import anything heavy.
"""

import mmap
import os
import time
from dataclasses import dataclass

STAGES = (
    "waiting", "start", "rendezvous", "communicator", "registration", "first_collective", "copy_engine", "capture",
    "warmup", "blocks", "proof", "verify", "teardown",
)  # fmt: skip
"""`waiting`: blocked while another set has its turn. The others have a timeout each."""

_FIELDS = 8
_STAGE, _CASE, _ARM, _OPERATION, _STAMP_NS, _TURN = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where one rank is. `case` and `arm` are indices into the plan, -1 before the first."""

    rank_index: int
    stage: str
    case: int
    arm: int
    operation: int
    """Operations entered in this stage."""
    turn: int
    seconds_in_stage: float


class Board:
    """One row of whole numbers for each local rank of a set."""

    def __init__(self, fd: int, num_rows: int) -> None:
        """Map the page behind `fd`, which stays the caller's to close."""
        self._map = mmap.mmap(fd, num_rows * _FIELDS * 8)
        self._cells = memoryview(self._map).cast("q")
        self.num_rows = num_rows

    @classmethod
    def create(cls, num_rows: int) -> tuple["Board", int]:
        """A new board and the descriptor that child processes attach with."""
        fd = os.memfd_create("gtpbench-board", 0)
        os.ftruncate(fd, num_rows * _FIELDS * 8)
        board = cls(fd, num_rows)
        for row in range(num_rows):
            board.enter(row, "start", case=-1, arm=-1, turn=-1)
        return board, fd

    def enter(self, row: int, stage: str, *, case: int, arm: int, turn: int) -> None:
        """Rank `row` enters a stage now."""
        base = row * _FIELDS
        cells = self._cells
        cells[base + _STAMP_NS] = time.monotonic_ns()
        cells[base + _CASE] = case
        cells[base + _ARM] = arm
        cells[base + _TURN] = turn
        cells[base + _OPERATION] = 0
        cells[base + _STAGE] = STAGES.index(stage)

    def mark(self, row: int, operation: int) -> None:
        """Rank `row` enters operation number `operation` of its stage."""
        self._cells[row * _FIELDS + _OPERATION] = operation

    def position(self, row: int) -> Position:
        """Where rank `row` is now."""
        base = row * _FIELDS
        cells = self._cells
        return Position(
            rank_index=row,
            stage=STAGES[cells[base + _STAGE]],
            case=cells[base + _CASE],
            arm=cells[base + _ARM],
            operation=cells[base + _OPERATION],
            turn=cells[base + _TURN],
            seconds_in_stage=(time.monotonic_ns() - cells[base + _STAMP_NS]) / 1e9,
        )

    def close(self) -> None:
        """Unmap. May be called twice."""
        if not self._map.closed:
            self._cells.release()
            self._map.close()
