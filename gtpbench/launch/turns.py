"""A rank's way through the schedule: it acts when its worker set has the turn, and passes it on."""

import json
from collections.abc import Iterator, Sequence

from gtpbench.backends.base import Backend
from gtpbench.launch import probe
from gtpbench.launch.rank import FOREVER_S, Live, Rank
from gtpbench.measure.calibrate import Counts, Estimate, choose_counts
from gtpbench.measure.cell import CellRun
from gtpbench.measure.registration import RegistrationRun
from gtpbench.plan import AnyCase, Case, RegistrationCase
from gtpbench.record.model import Clock
from gtpbench.schedule import Turn, turns
from gtpbench.workloads.collective import CollectiveWorkload

_FUNCTIONAL_COUNTS = Counts(samples=2, k=1)
_REGISTRATION_COUNTS = Counts(samples=1, k=1)


def my_turns(rank: Rank, arms: Sequence[str]) -> Iterator[int]:
    """The numbers of this set's turns in a sequence of turns, each given by its arm.

    Waits for each turn, and passes it on when the next is asked for: one set at a time, or kernels of one could hold
    the multiprocessors that the peers of another wait for.
    """
    mine = rank.spec.set_id
    set_of = {arm: worker_set.set_id for worker_set in rank.plan.sets for arm in worker_set.arms}
    sets = [set_of[arm] for arm in arms]
    for number, set_id in enumerate(sets):
        if set_id != mine:
            continue
        if number > 0 and sets[number - 1] != mine:
            rank.exchange.wait(f"turn/{number}", timeout_s=FOREVER_S)
        rank.turn = number
        rank.arm = next(index for index, arm in enumerate(rank.plan.arms) if arm.name == arms[number])
        yield number
        if number + 1 < len(sets) and sets[number + 1] != mine and rank.spec.rank == 0:
            rank.exchange.set(f"turn/{number + 1}", b"")


def walk(rank: Rank, backend: Backend, live: Live, communicator_us: float) -> None:
    """All turns of all cases, each run when this set's turn comes."""
    rounds = [(case, rank.plan.rounds(case, arms, launch=rank.spec.launch)) for case, arms in live]
    sequence = [(case, turn) for case, order in rounds for turn in turns(order)]
    for number in my_turns(rank, [turn.arm for _, turn in sequence]):
        rank.case, turn = sequence[number]
        before = sequence[number - 1][1] if number else None
        switched = before is None or before.kind != "block" or before.arm != turn.arm
        _take_turn(rank, backend, turn, live, switched=switched, communicator_us=communicator_us)


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


def make_workload(rank: Rank, backend: Backend, case: AnyCase, arm: str) -> CollectiveWorkload:
    """The workload of a collective's case and an arm on this rank; nothing is allocated yet."""
    assert isinstance(case, Case), f"{case.case_id} is no collective"
    if rank.faulty("unequal", arm=arm):
        backend.alloc(64, dtype=case.dtype, pool="window", owner=arm)
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
        sweep_max_bytes=max(other.size_bytes for other in rank.plan.cases if isinstance(other, Case)),
    )


def _cell(rank: Rank, backend: Backend, case: AnyCase, arm: str) -> CellRun | RegistrationRun:
    if isinstance(case, RegistrationCase):
        return _registration(rank, backend, case, arm)
    clock = rank.plan.scenario.measure.clock
    workload = make_workload(rank, backend, case, arm)
    return CellRun(workload, rank.ranks, rank.stage, clock=clock, epoch_ns=rank.epoch_ns)


def _registration(rank: Rank, backend: Backend, case: RegistrationCase, arm: str) -> RegistrationRun:
    spec = rank.plan.arm(arm)
    is_first = spec.registration not in rank.registered
    rank.registered.add(spec.registration)
    return RegistrationRun(
        backend,
        case,
        spec,
        rank.ranks,
        rank.stage,
        seed=rank.plan.scenario.measure.seed,
        is_first=is_first,
        epoch_ns=rank.epoch_ns,
    )


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
    if rank.plan.scenario.workload.kind == "registration":
        return _REGISTRATION_COUNTS
    if rank.plan.scenario.functional:
        return _FUNCTIONAL_COUNTS
    measure = rank.plan.scenario.measure
    return choose_counts(measure, estimates, num_cases=rank.num_cases, num_clocks=num_clocks)
