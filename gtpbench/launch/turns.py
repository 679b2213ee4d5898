"""A rank's way through the schedule: it acts when its worker set has the turn, and passes it on."""

import json

from gtpbench.backends.base import Backend
from gtpbench.launch import probe
from gtpbench.launch.rank import FOREVER_S, Live, Rank
from gtpbench.measure.calibrate import Counts, Estimate, choose_counts
from gtpbench.measure.cell import CellRun
from gtpbench.plan import Case
from gtpbench.record.model import Clock
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
        estimates = {clock: [found.us, found.k] for clock, found in cell.prepare().items()}
        if rank.spec.rank == 0:
            rank.exchange.set(f"estimate/{rank.case}/{turn.arm}", json.dumps(estimates).encode())
        return
    cell = rank.cells[turn.arm]
    if turn.kind == "block":
        warmup = rank.plan.scenario.measure.warmup if switched else 0
        cell.block(_counts(rank, live, turn.arm), warmup_iterations=warmup)
        return
    corrupt = rank.faulty("corrupt", arm=turn.arm)
    arm = turn.arm
    ranks = cell.finish(corrupt=corrupt, stage_seconds=lambda: rank.seconds[arm], communicator_us=communicator_us)
    del rank.cells[turn.arm]
    if ranks is not None:
        rank.events.send({"event": "cell", "case": rank.case, "arm": turn.arm, "ranks": ranks})


def make_workload(rank: Rank, backend: Backend, case: Case, arm: str) -> CollectiveWorkload:
    """The workload of a case and an arm on this rank; nothing is allocated yet."""
    if rank.faulty("unequal", arm=arm):
        backend.alloc(64, dtype=case.dtype, pool="window")
    spec = rank.plan.arm(arm)
    if backend.name != spec.backend:
        # The test that wires the wrong backend: its buffers are what that backend has, its record claims the arm.
        spec = spec.model_copy(update={"registration": "none"})
    return CollectiveWorkload(
        backend,
        case,
        spec,
        seed=rank.plan.scenario.measure.seed,
        cache_bytes=backend.cache_bytes if backend.context.device is not None else probe.last_level_cache_bytes(),
        sweep_max_bytes=max(other.size_bytes for other in rank.plan.cases),
    )


def _cell(rank: Rank, backend: Backend, case: Case, arm: str) -> CellRun:
    clock = rank.plan.scenario.measure.clock
    workload = make_workload(rank, backend, case, arm)
    return CellRun(workload, rank.ranks, rank.stage, clock=clock, epoch_ns=rank.epoch_ns)


def _counts(rank: Rank, live: Live, arm: str) -> dict[Clock, Counts]:
    """The arm's counts by clock: of an earlier launch, else from the estimates of all arms it is compared with."""
    plan, case = rank.plan, rank.case
    if (case, arm) in rank.counts:
        return rank.counts[case, arm]
    family = plan.arm(arm).family
    peers = [name for name in next(arms for index, arms in live if index == case) if plan.arm(name).family == family]
    estimates = {peer: _estimates(rank, peer) for peer in peers}
    clocks = list(estimates[arm])
    counts = {
        clock: _choose(rank, {peer: found[clock] for peer, found in estimates.items()}, num_clocks=len(clocks))
        for clock in clocks
    }
    rank.counts[case, arm] = counts
    if rank.spec.rank == 0:
        seconds = sum(counts[clock].iterations * estimates[arm][clock].us for clock in clocks) / 1e6
        told = {clock: [count.samples, count.k] for clock, count in counts.items()}
        rank.events.send({"event": "counts", "case": case, "arm": arm, "counts": told, "block_seconds": seconds})
    return counts


def _estimates(rank: Rank, arm: str) -> dict[Clock, Estimate]:
    timeout_s = rank.spec.scenario.timeouts.blocks_s
    told = json.loads(rank.exchange.wait(f"estimate/{rank.case}/{arm}", timeout_s=timeout_s))
    return {clock: Estimate(us=us, k=k) for clock, (us, k) in told.items()}


def _choose(rank: Rank, estimates: dict[str, Estimate], *, num_clocks: int) -> Counts:
    if rank.plan.scenario.functional:
        return _FUNCTIONAL_COUNTS
    measure = rank.plan.scenario.measure
    return choose_counts(measure, estimates, num_cases=rank.num_cases, num_clocks=num_clocks)
