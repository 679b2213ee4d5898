"""One rank process: meets the others, walks the turns, reports to its supervisor.

python -m gtpbench.launch.worker EVENT_FD CONTROL_FD
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gtpbench import __version__
from gtpbench.backends.base import Backend, Exchange, RankContext, open_backend
from gtpbench.errors import ExitCode, GtpbenchError, RunError, UsageError
from gtpbench.launch import probe
from gtpbench.launch.board import Board
from gtpbench.launch.faults import Fault
from gtpbench.launch.pipe_exchange import PipeExchange
from gtpbench.launch.pipes import Receiver, Sender
from gtpbench.launch.spec import WorkerSpec
from gtpbench.measure.calibrate import Counts, choose_counts
from gtpbench.measure.cell import CellRun, process_epoch_ns
from gtpbench.measure.ranks import Ranks
from gtpbench.plan import Case, Plan, build_plan
from gtpbench.schedule import Turn, block_rounds, turns
from gtpbench.workloads.collective import CollectiveWorkload

Live = list[tuple[int, list[str]]]
"""(case index, arms), in the order to run."""

_FUNCTIONAL_COUNTS = Counts(samples=2, k=1)


@dataclass(slots=True)
class _Rank:
    """What the functions below share: the rank's own state in one attempt."""

    spec: WorkerSpec
    plan: Plan
    board: Board
    events: Sender
    control: Receiver
    exchange: Exchange
    fault: Fault | None
    ranks: Ranks
    epoch_ns: int
    num_cases: int = 1
    counts: dict[int, Counts] = field(default_factory=dict)
    operations: int = 0
    case: int = -1
    arm: int = -1
    turn: int = -1
    cells: dict[str, CellRun] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    common_seconds: dict[str, float] = field(default_factory=dict)

    def mark(self, _: int = 0) -> None:
        """Note progress on the board."""
        self.operations += 1
        self.board.mark(self.spec.row, self.operations)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Be in a stage: on the board for the watchdog, in `stage_seconds` for the record."""
        arm = self.plan.arms[self.arm].name if self.arm >= 0 else ""
        self.operations = 0
        self.board.enter(self.spec.row, name, case=self.case, arm=self.arm, turn=self.turn)
        self._inject(name, arm)
        began = time.monotonic()
        yield
        totals = self.seconds.setdefault(arm, {}) if arm else self.common_seconds
        totals[name] = totals.get(name, 0.0) + time.monotonic() - began
        self.board.enter(self.spec.row, "waiting", case=self.case, arm=self.arm, turn=self.turn)

    def faulty(self, kind: str, *, stage: str = "", arm: str = "") -> bool:
        """Whether an injected fault of this kind fires now."""
        case = self.plan.cases[self.case].case_id if self.case >= 0 else ""
        return self.fault is not None and self.fault.applies(
            kind, rank=self.spec.rank, attempt=self.spec.attempt, stage=stage, arm=arm, case=case
        )

    def _inject(self, stage: str, arm: str) -> None:
        if self.fault and any(self.faulty(kind, stage=stage, arm=arm) for kind in ("hang", "die", "raise")):
            self.fault.fire()


class _MarkedExchange:
    """Counts every value set or awaited as progress, so that the watchdog sees which rank is behind."""

    def __init__(self, inner: Any, rank: "_Rank") -> None:
        self._inner, self._rank = inner, rank
        self.store = getattr(inner, "store", None)

    def set(self, key: str, value: bytes) -> None:
        self._rank.mark()
        self._inner.set(key, value)

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        self._rank.mark()
        value: bytes = self._inner.wait(key, timeout_s=timeout_s)
        return value


def main(argv: list[str]) -> None:
    """Run one rank; its outcome is what it sends, its exit code only says whether it could send."""
    _die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events, control = Sender(int(argv[0])), Receiver(int(argv[1]))
    message = control.wait()
    if message is None:
        return
    spec = WorkerSpec.model_validate_json(message["spec"])
    try:
        _run(spec, events, control)
    except GtpbenchError as error:
        events.send({"event": "error", "exit_code": int(error.exit_code), "text": str(error), "known": True})
    except Exception as error:  # noqa: BLE001 - the supervisor must hear of every failure
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        events.send({"event": "error", "exit_code": int(ExitCode.FAILED), "text": text, "known": False})
    finally:
        sys.stderr.flush()


def _run(spec: WorkerSpec, events: Sender, control: Receiver) -> None:
    if spec.cpu is not None:
        os.sched_setaffinity(0, {spec.cpu})
    rank = _Rank(
        spec=spec,
        plan=build_plan(spec.scenario),
        board=Board(spec.board_fd, spec.board_rows),
        events=events,
        control=control,
        exchange=None,  # type: ignore[arg-type]  # set by _join, inside the start stage
        ranks=None,  # type: ignore[arg-type]
        fault=Fault.from_environment(),
        epoch_ns=process_epoch_ns(),
    )
    with rank.stage("start"):
        _preload(rank)
    with rank.stage("rendezvous"):
        _join(rank)
        backend = open_backend(_backend_name(rank), _context(rank))
        began = time.perf_counter_ns()
        backend.open()
        communicator_us = (time.perf_counter_ns() - began) / 1e3
        live = _introduce(rank)
    _walk(rank, backend, live, communicator_us)
    code = _await_code(rank)
    rank.case = rank.arm = -1
    with rank.stage("teardown"):
        backend.close()
        _leave(rank)
    events.send({"event": "finished", "code": code})


def _preload(rank: _Rank) -> None:
    """Import what the backend needs, so that the rendezvous stage times the rendezvous."""
    if rank.spec.store.kind != "pipe":
        probe.load_torch(threads=1 if rank.spec.cpu is not None else None)


def _join(rank: _Rank) -> None:
    """Connect to the run's exchange and make sure that all ranks mean the same run."""
    spec = rank.spec
    timeout_s = spec.scenario.timeouts.rendezvous_s
    if spec.store.kind == "pipe":
        inner: Any = PipeExchange(rank.events, rank.control)
    else:
        from gtpbench.backends.exchange import TcpExchange
        from gtpbench.backends.tcp_store import open_store

        serve = spec.store.kind == "host"
        port = spec.store.port if serve or spec.store.port else _port_of_host(rank)
        # Shorter than the stage, so that this error names the address before the watchdog names the stage.
        store, port = open_store(spec.store.address, port, serve=serve, timeout_s=0.75 * timeout_s)
        inner = TcpExchange(store, prefix=f"{spec.store.prefix}/{spec.launch}.{spec.attempt}")
        if serve:
            rank.events.send({"event": "store", "port": port})
    rank.exchange = _MarkedExchange(inner, rank)
    rank.ranks = Ranks(
        rank.exchange, prefix=f"set{spec.set_id}", rank=spec.rank, num_ranks=spec.num_ranks, timeout_s=2 * timeout_s
    )
    hellos = rank.ranks.gather({"digest": spec.run_digest, "version": __version__, "host": probe.host_name()})
    complaint = rank.ranks.broadcast(_complaint(hellos) if hellos else None)
    if complaint:
        raise UsageError(complaint)


def _port_of_host(rank: _Rank) -> int:
    """The port that the serving rank got, from the supervisor."""
    message = rank.control.wait()
    if message is None:
        raise RunError("the supervisor is gone")
    port: int = message["port"]
    return port


def _complaint(hellos: list[dict[str, str]]) -> str | None:
    first = hellos[0]
    for number, hello in enumerate(hellos):
        for what in ("version", "digest"):
            if hello[what] != first[what]:
                name = "gtpbench version" if what == "version" else "scenario"
                return (
                    f"ranks disagree: rank {number} on {hello['host']} has {name} {hello[what]}, "
                    f"rank 0 on {first['host']} has {first[what]}; start all ranks with the same command"
                )
    return None


def _context(rank: _Rank) -> RankContext:
    spec = rank.spec
    return RankContext(
        rank=spec.rank,
        num_ranks=spec.num_ranks,
        local_rank=spec.local_rank,
        local_size=spec.local_size,
        node=spec.node,
        num_nodes=spec.num_nodes,
        set_id=spec.set_id,
        exchange=rank.exchange,
        timeout_s=2 * spec.scenario.timeouts.rendezvous_s,
        mark=rank.mark,
    )


def _backend_name(rank: _Rank) -> str:
    worker_set = rank.plan.sets[rank.spec.set_id]
    if rank.fault and rank.fault.kind == "backend" and rank.fault.conditions["arm"] in worker_set.arms:
        return rank.fault.conditions["use"]
    return worker_set.backend


def _introduce(rank: _Rank) -> Live:
    """Tell the supervisor where the set's ranks run; learn from rank 0 what is to be run."""
    spec = rank.spec
    place = probe.rank_place(
        rank=spec.rank,
        local_rank=spec.local_rank,
        node=spec.node,
        on_gpu=spec.cpu is None and spec.store.kind != "pipe",
    )
    places = rank.ranks.gather(place.model_dump_json())
    if places is not None:
        software = probe.libraries(with_torch=spec.store.kind != "pipe")
        rank.events.send(
            {
                "event": "hello",
                "places": places,
                "libraries": [library.model_dump_json() for library in software],
                "interfaces": probe.interfaces(spec.num_nodes) if spec.store.kind != "pipe" else [],
            }
        )
    decided = rank.ranks.broadcast(
        {
            "live": [[case, list(arms)] for case, arms in spec.live],
            "counts": [list(item) for item in spec.counts],
            "num_cases": spec.num_cases,
        }
    )
    rank.num_cases = decided["num_cases"]
    rank.counts = {case: Counts(samples=samples, k=k) for case, samples, k in decided["counts"]}
    return [(case, arms) for case, arms in decided["live"]]


def _walk(rank: _Rank, backend: Backend, live: Live, communicator_us: float) -> None:
    """All turns of all cases, each run when this set's turn comes."""
    spec, plan = rank.spec, rank.plan
    set_of = {arm: worker_set.set_id for worker_set in plan.sets for arm in worker_set.arms}
    sequence = [(case, turn) for case, arms in live for turn in turns(_rounds(plan, case, arms, spec.launch))]
    previous: tuple[int, Turn] | None = None
    for number, (case_index, turn) in enumerate(sequence):
        mine = set_of[turn.arm] == spec.set_id
        if mine:
            if previous is not None and set_of[previous[1].arm] != spec.set_id:
                rank.exchange.wait(f"turn/{number}", timeout_s=_FOREVER_S)
            rank.case, rank.turn = case_index, number
            rank.arm = next(index for index, arm in enumerate(plan.arms) if arm.name == turn.arm)
            switched = previous is None or previous[1].kind != "block" or previous[1].arm != turn.arm
            _take_turn(rank, backend, turn, live, switched=switched, communicator_us=communicator_us)
            following = sequence[number + 1][1].arm if number + 1 < len(sequence) else turn.arm
            if set_of[following] != spec.set_id and spec.rank == 0:
                rank.exchange.set(f"turn/{number + 1}", b"")
        previous = (case_index, turn)


_FOREVER_S = 7 * 24 * 3600.0
"""Waiting for a turn has no timeout of its own: the set whose turn it is has one."""


def _rounds(plan: Plan, case: int, arms: list[str], launch: int) -> list[tuple[str, ...]]:
    measure = plan.scenario.measure
    blocks = 2 if plan.scenario.functional else measure.blocks
    return block_rounds(arms, blocks=blocks, seed=measure.seed, launch=launch, case_id=plan.cases[case].case_id)


def _take_turn(
    rank: _Rank, backend: Backend, turn: Turn, live: Live, *, switched: bool, communicator_us: float
) -> None:
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


def _cell(rank: _Rank, backend: Backend, case: Case, arm: str) -> CellRun:
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


def _counts(rank: _Rank, live: Live) -> Counts:
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


def _await_code(rank: _Rank) -> int | None:
    """Say that all turns are done; learn the exit code of the run, or None where another launch follows."""
    rank.events.send({"event": "done"})
    rank.board.enter(rank.spec.row, "waiting", case=rank.case, arm=rank.arm, turn=rank.turn)
    if rank.spec.decides:
        command = rank.control.wait()
        if command is None:
            raise RunError("the supervisor is gone")
        rank.exchange.set("finish", repr(command["code"]).encode())
    code = rank.exchange.wait("finish", timeout_s=_FOREVER_S).decode()
    return None if code == "None" else int(code)


def _leave(rank: _Rank) -> None:
    """The rank that serves the store leaves last."""
    spec = rank.spec
    if spec.store.kind == "pipe":
        return
    if spec.store.kind == "client":
        rank.exchange.set(f"bye/{spec.set_id}/{spec.rank}", b"")
        return
    for set_id in spec.set_ids:
        for peer in range(spec.num_ranks):
            if (set_id, peer) != (spec.set_id, spec.rank):
                rank.exchange.wait(f"bye/{set_id}/{peer}", timeout_s=spec.scenario.timeouts.teardown_s)


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the supervisor dies, however it dies."""
    pr_set_pdeathsig = 1
    parent = os.getppid()
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(int(ExitCode.FAILED))


if __name__ == "__main__":
    main(sys.argv[1:])
