"""Which rank is stuck, and where: decided from the progress boards alone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gtpbench.launch.board import STAGES, Position
from gtpbench.plan import Plan
from gtpbench.scenario.schema import Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A set that outlived a timeout."""

    set_id: int
    ranks: tuple[int, ...]
    """The ranks that are behind; all local ranks where none is."""
    stage: str
    case: int
    arm: int
    text: str


def overdue(
    boards: Mapping[int, Sequence[Position]],
    *,
    plan: Plan,
    global_ranks: Sequence[int],
    block_seconds: Mapping[int, float],
    watch_idle: bool,
) -> Finding | None:
    """The first set with a rank that is past its stage's timeout, or None.

    Args:
        boards: set id -> positions of its local ranks.
        global_ranks: rank number of each local rank.
        block_seconds: case index -> expected length of a block, added to the blocks timeout.
        watch_idle: also find a host all of whose ranks wait, which only another host could end.
    """
    timeouts = plan.scenario.timeouts
    for set_id, positions in boards.items():
        late = [position for position in positions if _is_late(position, timeouts, block_seconds)]
        if late:
            return _finding(set_id, positions, late[0], plan=plan, global_ranks=global_ranks)
    if not watch_idle:
        return None
    everyone = [position for positions in boards.values() for position in positions]
    idle = min((position.seconds_in_stage for position in everyone), default=0.0)
    if everyone and all(position.stage == "waiting" for position in everyone) and idle > timeouts.teardown_s:
        set_id = next(iter(boards))
        return Finding(
            set_id=set_id,
            ranks=tuple(global_ranks),
            stage="waiting",
            case=everyone[0].case,
            arm=everyone[0].arm,
            text=f"every rank of this host has waited {idle:.0f} s for another host, which sent nothing",
        )
    return None


def limit_s(stage: str, case: int, timeouts: Timeouts, block_seconds: Mapping[int, float]) -> float | None:
    """Seconds a rank may spend in a stage; None where the stage has no limit of its own."""
    if stage == "waiting":
        return None
    limit: float = getattr(timeouts, f"{stage}_s")
    return limit + (block_seconds.get(case, 0.0) if stage == "blocks" else 0.0)


def _is_late(position: Position, timeouts: Timeouts, block_seconds: Mapping[int, float]) -> bool:
    limit = limit_s(position.stage, position.case, timeouts, block_seconds)
    return limit is not None and position.seconds_in_stage > limit


def _finding(
    set_id: int, positions: Sequence[Position], late: Position, *, plan: Plan, global_ranks: Sequence[int]
) -> Finding:
    def progress(position: Position) -> tuple[int, int, int]:
        # A rank waits when it has left a stage: it is ahead of those still in a stage of the same turn.
        stage = len(STAGES) if position.stage == "waiting" else STAGES.index(position.stage)
        return (position.turn, stage, position.operation)

    least = min(progress(position) for position in positions)
    behind = [position for position in positions if progress(position) == least]
    ranks = tuple(global_ranks[position.rank_index] for position in behind)
    others = [global_ranks[p.rank_index] for p in positions if p not in behind]
    where = behind[0] if others else late
    arm = plan.arms[where.arm].name if where.arm >= 0 else ", ".join(plan.sets[set_id].arms)
    case = f", case {plan.cases[where.case].case_id}" if where.case >= 0 else ""
    who = f"rank {', '.join(map(str, ranks))}"
    tail = f"; rank {', '.join(map(str, others))} waits for it" if others else ": every rank of this host is there"
    text = f"{who} stuck in stage {where.stage}{case}, arm {arm}, for {where.seconds_in_stage:.0f} s{tail}"
    return Finding(set_id=set_id, ranks=ranks, stage=where.stage, case=where.case, arm=where.arm, text=text)
