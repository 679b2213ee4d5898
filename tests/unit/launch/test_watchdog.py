"""Which rank is stuck, and where, from the boards alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gtpbench.launch.board import STAGES, Position
from gtpbench.launch.watchdog import Finding, limit_s, overdue
from gtpbench.scenario.schema import Timeouts
from tests.examples import make_plan

LIMITS = {
    "start": 100.0,
    "rendezvous": 20.0,
    "communicator": 25.0,
    "registration": 30.0,
    "first_collective": 32.0,
    "copy_engine": 34.0,
    "capture": 36.0,
    "warmup": 40.0,
    "blocks": 10.0,
    "proof": 50.0,
    "verify": 60.0,
    "teardown": 70.0,
}
PLAN = make_plan(
    workload={"collectives": ["all_gather"], "sizes": ["64K", "1M"]},
    timeouts={f"{stage}_s": limit for stage, limit in LIMITS.items()},
)


def at(
    stage: str, seconds: float, *, row: int = 0, turn: int = 3, operation: int = 5, case: int = 0, arm: int = 1
) -> Position:
    """A rank in a stage for so long."""
    return Position(
        rank_index=row, stage=stage, case=case, arm=arm, operation=operation, turn=turn, seconds_in_stage=seconds
    )


def find(
    boards: Mapping[int, Sequence[Position]],
    *,
    global_ranks: Sequence[int] = (0, 1, 2),
    block_seconds: Mapping[int, float] | None = None,
    watch_idle: bool = False,
) -> Finding | None:
    """What the watchdog says."""
    return overdue(
        boards, plan=PLAN, global_ranks=global_ranks, block_seconds=block_seconds or {}, watch_idle=watch_idle
    )


@pytest.mark.parametrize("stage", sorted(LIMITS))
def test_every_stage_has_its_timeout(stage: str) -> None:
    """At the limit a rank is in time, past it it is not."""
    limit = LIMITS[stage]
    assert find({0: [at(stage, limit), at(stage, limit, row=1)]}) is None
    found = find({0: [at(stage, limit + 0.01), at(stage, limit + 0.01, row=1)]})
    assert found is not None
    assert (0, stage) == (found.set_id, found.stage)


def test_stages_and_timeouts_belong_together() -> None:
    """Each stage but `waiting` has a timeout of its name, and the reverse."""
    assert set(STAGES) == {"waiting", *(name.removesuffix("_s") for name in Timeouts.model_fields)}
    assert set(STAGES) == {"waiting", *LIMITS}
    assert limit_s("waiting", 0, Timeouts(), {}) is None


def test_the_expected_block_is_added_to_the_blocks_timeout() -> None:
    """A long block is not late; that of another case or stage does not count."""
    expected = {0: 25.0}
    assert find({0: [at("blocks", 34.9)]}, block_seconds=expected) is None
    assert find({0: [at("blocks", 35.1)]}, block_seconds=expected) is not None
    assert find({0: [at("blocks", 10.1, case=1)]}, block_seconds=expected) is not None
    assert find({0: [at("verify", 60.1)]}, block_seconds=expected) is not None


def test_a_waiting_set_is_not_late() -> None:
    """Its turn has not come; the set that runs is in time."""
    assert find({0: [at("waiting", 5000.0)], 1: [at("blocks", 5.0)]}) is None


def test_the_late_set_is_named_not_the_waiting_one() -> None:
    """Whichever comes first."""
    found = find({0: [at("waiting", 5000.0, arm=0)], 1: [at("blocks", 11.0, arm=1)]})
    assert found is not None
    assert (1, 1, "blocks") == (found.set_id, found.arm, found.stage)


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_the_rank_with_fewer_operations_is_behind(behind: int) -> None:
    """The others entered one more operation and wait in it."""
    positions = [at("blocks", 11.0, row=row, operation=6 if row != behind else 5) for row in range(3)]
    found = find({0: positions}, global_ranks=(4, 5, 6))
    assert found is not None
    assert (4 + behind,) == found.ranks
    others = ", ".join(str(rank) for rank in (4, 5, 6) if rank != 4 + behind)
    assert (
        f"rank {4 + behind} stuck in stage blocks, case all_gather/bf16/65536/n2/out_of_place, arm symm, for 11 s; "
        f"rank {others} waits for it"
    ) == found.text


@pytest.mark.parametrize("behind", [0, 1])
def test_the_rank_in_an_earlier_stage_is_behind(behind: int) -> None:
    """Whatever their operations: those are counted within a stage."""
    positions = [
        at("proof", 51.0, row=row, operation=9) if row == behind else at("verify", 51.0, row=row, operation=0)
        for row in range(2)
    ]
    found = find({0: positions})
    assert found is not None
    assert ((behind,), "proof") == (found.ranks, found.stage)


@pytest.mark.parametrize("behind", [0, 1])
def test_a_rank_that_left_the_stage_is_ahead(behind: int) -> None:
    """One hangs in teardown, the other is through and waits for it to send its result: the first is to blame."""
    positions = [at("teardown", 71.0, row=row) if row == behind else at("waiting", 71.0, row=row) for row in range(2)]
    found = find({0: positions})
    assert found is not None
    assert ((behind,), "teardown", 0, 1) == (found.ranks, found.stage, found.case, found.arm)


def test_a_rank_that_still_waits_for_the_turn_is_behind() -> None:
    """It never left the turn before, and the others wait for it in theirs."""
    found = find({0: [at("warmup", 41.0, row=0, turn=4), at("waiting", 42.0, row=1, turn=3)]})
    assert found is not None
    assert ((1,), "waiting") == (found.ranks, found.stage)


def test_several_ranks_can_be_behind() -> None:
    """All are named."""
    positions = [at("blocks", 11.0, row=row, operation=6 if row == 1 else 5) for row in range(3)]
    found = find({0: positions})
    assert found is not None
    assert (0, 2) == found.ranks
    assert found.text.startswith("rank 0, 2 stuck in stage blocks")


def test_where_all_ranks_of_the_host_are_there_none_is_singled_out() -> None:
    """The one behind is on another host, or there is none."""
    found = find({0: [at("blocks", 11.0, row=row) for row in range(3)]})
    assert found is not None
    assert (0, 1, 2) == found.ranks
    assert found.text.endswith(": every rank of this host is there")


def test_before_the_first_case_the_sets_arms_are_named() -> None:
    """There is no case yet, and any of its arms may be to blame."""
    found = find({1: [at("start", 101.0, turn=-1, case=-1, arm=-1)]})
    assert found is not None
    assert (-1, -1) == (found.case, found.arm)
    assert "rank 0 stuck in stage start, arm symm, for 101 s" in found.text


def test_a_host_that_waits_as_a_whole_is_found() -> None:
    """Only another host could end it; teardown's timeout decides, counted from the last rank that came to wait."""
    boards: dict[int, list[Position]] = {
        0: [at("waiting", 500.0), at("waiting", 70.1, row=1)],
        1: [at("waiting", 90.0)],
    }
    found = find(boards, watch_idle=True)
    assert found is not None
    assert ("waiting", (0, 1, 2)) == (found.stage, found.ranks)
    assert "has waited 70 s for another host" in found.text
    assert find(boards, watch_idle=False) is None


@pytest.mark.parametrize("last", [at("waiting", 70.0, row=1), at("verify", 1.0, row=1)])
def test_a_host_with_a_rank_that_works_or_just_came_is_not_idle(last: Position) -> None:
    """One rank is enough."""
    assert find({0: [at("waiting", 500.0), last]}, watch_idle=True) is None


@pytest.mark.parametrize("boards", [{}, {0: []}])
def test_nobody_is_not_late(boards: dict[int, Any]) -> None:
    """All have finished."""
    assert find(boards, watch_idle=True) is None
