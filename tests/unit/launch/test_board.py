"""The progress board, through two mappings of one page."""

import os
import time

from gtpbench.launch.board import STAGES, Board


def test_what_a_rank_writes_the_watchdog_reads() -> None:
    """Each row is its rank's own; a new board stands at `start`."""
    board, fd = Board.create(3)
    rank = Board(fd, 3)
    os.close(fd)
    rank.enter(1, "blocks", case=4, arm=2, turn=17)
    rank.mark(1, 9)
    position = board.position(1)
    assert (1, "blocks", 4, 2, 17, 9) == (
        position.rank_index,
        position.stage,
        position.case,
        position.arm,
        position.turn,
        position.operation,
    )
    for row in (0, 2):
        assert ("start", -1, -1, -1, 0) == (
            board.position(row).stage,
            board.position(row).case,
            board.position(row).arm,
            board.position(row).turn,
            board.position(row).operation,
        )
    rank.close()
    board.close()


def test_operations_are_counted_within_a_stage() -> None:
    """Ranks with different numbers of operations in earlier stages are equal again on entering the next."""
    board, fd = Board.create(1)
    os.close(fd)
    board.mark(0, 40)
    board.enter(0, "verify", case=0, arm=0, turn=1)
    assert 0 == board.position(0).operation
    board.close()


def test_time_in_a_stage_starts_on_entering() -> None:
    """And runs on."""
    board, fd = Board.create(1)
    os.close(fd)
    time.sleep(0.02)
    before = board.position(0).seconds_in_stage
    board.enter(0, "warmup", case=0, arm=0, turn=0)
    assert before >= 0.02
    assert 0.0 <= board.position(0).seconds_in_stage < before
    board.close()


def test_every_stage_survives_the_page() -> None:
    """All names can be written."""
    board, fd = Board.create(1)
    os.close(fd)
    for stage in STAGES:
        board.enter(0, stage, case=0, arm=0, turn=0)
        assert stage == board.position(0).stage
    board.close()


def test_closing_twice_is_fine() -> None:
    """The second time does nothing."""
    board, fd = Board.create(1)
    os.close(fd)
    board.close()
    board.close()
