"""A rank's way through the schedule: it acts when its worker set has the turn, and passes it on."""

from gtpbench.backends.base import Backend
from gtpbench.launch import probe
from gtpbench.launch.rank import FOREVER_S, Live, Rank
from gtpbench.measure.calibrate import Counts, choose_counts
from gtpbench.measure.cell import CellRun
from gtpbench.plan import Case
from gtpbench.schedule import Turn, turns
from gtpbench.workloads.collective import CollectiveWorkload

_FUNCTIONAL_COUNTS = Counts(samples=2, k=1)


def walk(rank: Rank, backend: Backend, live: Live, communicator_us: float) -> None:
    """All turns of all cases, each run when this set's turn comes."""
    spec, plan = rank.spec, rank.plan
    set_of = {arm: worker_set.set_id for worker_set in plan.sets for arm in worker_set.arms}
    sequence = [(case, turn) for case, arms in live for turn in turns(plan.rounds(case, arms, launch=spec.launch))]
    previous: tuple[int, Turn] | None = None
    for number, (case_index, turn) in enumerate(sequence):
        mine = set_of[turn.arm] == spec.set_id
        if mine:
            if previous is not None and set_of[previous[1].arm] != spec.set_id:
                rank.exchange.wait(f"turn/{number}", timeout_s=FOREVER_S)
            rank.case, rank.turn = case_index, number
            rank.arm = next(index for index, arm in enumerate(plan.arms) if arm.name == turn.arm)
            switched = previous is None or previous[1].kind != "block" or previous[1].arm != turn.arm
            _take_turn(rank, backend, turn, live, switched=switched, communicator_us=communicator_us)
            following = sequence[number + 1][1].arm if number + 1 < len(sequence) else turn.arm
            if set_of[following] != spec.set_id and spec.rank == 0:
                rank.exchange.set(f"turn/{number + 1}", b"")
        previous = (case_index, turn)


def _take_turn(rank: Rank, backend: Backend, turn: Turn, live: Live, *, switched: bool, communicator_us: float) -> None:
    case = rank.plan.cases[rank.case]
    if turn.kind == "prepare":
        rank.seconds[turn.arm] = dict(rank.common_seconds)
        cell = rank.cells[turn.arm] = _cell(rank, backend, case, turn.arm)
        estimate = cell.prepare()
        if rank.spec.rank == 0:
            rank.exchange.set(f"estimate/{rank.case}/{turn.arm}", repr(estimate).encode())
        return
    cell = rank.cells[turn.arm]
    if turn.kind == "block":
        warmup = rank.plan.scenario.measure.warmup if switched else 0
        cell.block(_counts(rank, live), warmup_iterations=warmup)
        return
    corrupt = rank.faulty("corrupt", arm=turn.arm)
    arm = turn.arm
    ranks = cell.finish(corrupt=corrupt, stage_seconds=lambda: rank.seconds[arm], communicator_us=communicator_us)
    del rank.cells[turn.arm]
    if ranks is not None:
        rank.events.send({"event": "cell", "case": rank.case, "arm": turn.arm, "ranks": ranks})


def _cell(rank: Rank, backend: Backend, case: Case, arm: str) -> CellRun:
    if rank.faulty("unequal", arm=arm):
        backend.alloc(64, dtype=case.dtype, pool="window")
    spec = rank.plan.arm(arm)
    if backend.name != spec.backend:
        # The test that wires the wrong backend: its buffers are what that backend has, its record claims the arm.
        spec = spec.model_copy(update={"registration": "none"})
    workload = CollectiveWorkload(
        backend,
        case,
        spec,
        seed=rank.plan.scenario.measure.seed,
        cache_bytes=probe.last_level_cache_bytes(),
    )
    return CellRun(workload, rank.ranks, rank.stage, epoch_ns=rank.epoch_ns)


def _counts(rank: Rank, live: Live) -> Counts:
    """The case's counts: of an earlier launch, else from the estimates of all its arms."""
    if rank.plan.scenario.functional:
        return _FUNCTIONAL_COUNTS
    if rank.case in rank.counts:
        return rank.counts[rank.case]
    arms = next(arms for case, arms in live if case == rank.case)
    estimates = {
        arm: float(rank.exchange.wait(f"estimate/{rank.case}/{arm}", timeout_s=rank.spec.scenario.timeouts.blocks_s))
        for arm in arms
    }
    counts = choose_counts(rank.plan.scenario.measure, estimates, num_cases=rank.num_cases)
    rank.counts[rank.case] = counts
    if rank.spec.rank == 0:
        seconds = counts.iterations * max(estimates.values()) / 1e6
        message = {"event": "counts", "case": rank.case, "samples": counts.samples, "k": counts.k}
        rank.events.send({**message, "block_seconds": seconds})
    return counts
