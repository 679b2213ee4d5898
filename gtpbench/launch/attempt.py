"""One attempt of a launch on one node: start every worker set, watch it, end it whatever happens. No torch here."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gtpbench.errors import ExitCode, Interrupted
from gtpbench.launch.board import Board
from gtpbench.launch.pipe_exchange import PipeBoard
from gtpbench.launch.pipes import Message, Receiver, Sender
from gtpbench.launch.place import Place
from gtpbench.launch.probe import interface_to
from gtpbench.launch.spec import StoreSpec, WorkerSpec
from gtpbench.launch.watchdog import Finding, overdue
from gtpbench.plan import Plan, WorkerSet, run_digest
from gtpbench.record.model import Clock

POLL_S = 0.1
_GRACE_S = 0.4
"""After a first failure, how long to listen for the failure that caused it."""
_STACK_S = 0.5
"""How long a stuck rank gets to write its Python stacks."""

CountKey = tuple[int, str, Clock]
"""(case index, arm, clock)"""

Live = list[tuple[int, list[str]]]
"""(case index, arms), in the order to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt ended early, and which cell is to blame."""

    status: Literal["error", "timeout"]
    code: str
    text: str
    exit_code: ExitCode
    set_id: int
    stage: str
    case: int
    arm: int
    """Indices into the plan; -1 where the failure belongs to no case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The attempt did all it had to; `code` is the run's exit code, None where another launch follows."""

    code: int | None


@dataclass(slots=True)
class _Process:
    """One rank process of this node."""

    popen: subprocess.Popen[bytes]
    worker_set: WorkerSet
    local_rank: int
    rank: int
    events: Receiver
    control: Sender
    board: Board
    log: Path
    done: bool = False
    finished: bool = False
    code: int | None = None
    error: Message | None = None
    error_at: float = 0.0
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """Start, watch, end. Use `run` once."""

    plan: Plan
    place: Place
    launch: int
    number: int
    live: Live
    sets: Sequence[WorkerSet]
    counts: dict[CountKey, tuple[int, int]]
    """(case index, arm, clock) -> (samples, k); fixed by the first launch, added to here."""
    num_cases: int
    log_dir: Path
    on_hello: Callable[[int, Message], None]
    """(set id, message) when a set's ranks have met; only on the deciding node."""
    on_cell: Callable[[Message], None]
    decide: Callable[[], int | None]
    """Called when all turns are done; only on the deciding node."""
    interrupted: Callable[[], bool]
    on_turn: Callable[[int], None]
    """Told the number of the newest turn, for progress."""
    reads_paths: bool = False
    """Time nothing: run every cell once with NCCL's log on."""
    _processes: list[_Process] = field(default_factory=list)
    _values: PipeBoard = field(default_factory=PipeBoard)
    _block_seconds: dict[int, float] = field(default_factory=dict)
    _decided: bool = False
    _epoch_ns: int = field(default_factory=time.perf_counter_ns)

    def run(self) -> Finished | Failure:
        """Run to the end, a failure or an interrupt; no process is left behind.

        Raises:
            Interrupted: `interrupted` became true.
        """
        selector = selectors.DefaultSelector()
        try:
            for worker_set in self.sets:
                self._start_set(worker_set, selector)
            return self._loop(selector)
        finally:
            self._end(selector)

    def _start_set(self, worker_set: WorkerSet, selector: selectors.BaseSelector) -> None:
        board, board_fd = Board.create(len(self.place.global_ranks))
        for local_rank, rank in enumerate(self.place.global_ranks):
            process = self._start_rank(worker_set, board, board_fd, local_rank, rank)
            self._processes.append(process)
            selector.register(process.events.fd, selectors.EVENT_READ, process)
        os.close(board_fd)

    def _start_rank(self, worker_set: WorkerSet, board: Board, board_fd: int, local_rank: int, rank: int) -> _Process:
        event_read, event_write = os.pipe()
        control_read, control_write = os.pipe()
        log = self.log_dir / f"launch{self.launch}-attempt{self.number}-set{worker_set.set_id}-rank{rank}.log"
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", "gtpbench.launch.worker", str(event_write), str(control_read)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(os.environ) | set_variables(worker_set, self.place) | self._log_variables(worker_set, rank),
                pass_fds=(event_write, control_read, board_fd),
                process_group=0,
            )
        os.close(event_write)
        os.close(control_read)
        process = _Process(
            popen=popen,
            worker_set=worker_set,
            local_rank=local_rank,
            rank=rank,
            events=Receiver(event_read),
            control=Sender(control_write),
            board=board,
            log=log,
        )
        process.control.send({"spec": self._spec(process, board_fd).model_dump_json()})
        return process

    def _nccl_log(self, worker_set: WorkerSet, rank: int) -> Path | None:
        """Where NCCL writes its log: rank 0 alone says what all ranks do."""
        wanted = self.reads_paths and rank == 0
        return (self.log_dir / f"nccl-set{worker_set.set_id}.log").resolve() if wanted else None

    def _log_variables(self, worker_set: WorkerSet, rank: int) -> dict[str, str]:
        log = self._nccl_log(worker_set, rank)
        if log is None:
            return {}
        file = str(log).replace("%", "%%")  # NCCL puts host and process in place of %h and %p
        return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,TUNING,REG,ALLOC", "NCCL_DEBUG_FILE": file}

    def _spec(self, process: _Process, board_fd: int) -> WorkerSpec:
        place, worker_set = self.place, process.worker_set
        first = worker_set.set_id == self.sets[0].set_id and process.rank == 0
        on_cpu = not worker_set.backend.startswith("nccl")
        kind: Literal["pipe", "host", "client"] = "host" if first and not place.agent_store else "client"
        if worker_set.backend == "standin":
            kind = "pipe"
        return WorkerSpec(
            scenario=self.plan.scenario,
            run_digest=run_digest(self.plan.scenario),
            set_id=worker_set.set_id,
            launch=self.launch,
            attempt=self.number,
            rank=process.rank,
            num_ranks=place.world_size,
            local_rank=process.local_rank,
            local_size=len(place.global_ranks),
            node=place.node,
            num_nodes=place.num_nodes,
            row=process.local_rank,
            board_fd=board_fd,
            board_rows=len(place.global_ranks),
            cpu=place.cpu_of(process.local_rank) if on_cpu else None,
            device=None if on_cpu else process.local_rank // self.plan.scenario.ranks_per_gpu,
            epoch_ns=self._epoch_ns,
            store=StoreSpec(kind=kind, address=place.master_address, port=place.master_port, prefix=place.store_prefix),
            set_ids=tuple(item.set_id for item in self.sets),
            live=tuple((case, tuple(arms)) for case, arms in self.live),
            counts=tuple((*key, *counts) for key, counts in sorted(self.counts.items())),
            num_cases=self.num_cases,
            decides=first,
            reads_paths=self.reads_paths,
            nccl_log=str(log) if (log := self._nccl_log(worker_set, process.rank)) else None,
        )

    def _loop(self, selector: selectors.BaseSelector) -> Finished | Failure:
        failed_at: float | None = None
        while True:
            for key, _ in selector.select(timeout=POLL_S):
                self._read(key.data, selector)
            if self.interrupted():
                raise Interrupted
            if failed_at is None and self._someone_failed():
                failed_at = time.monotonic()
            if failed_at is not None and time.monotonic() > failed_at + _GRACE_S:
                return self._failure()
            if failed_at is not None:
                continue
            if all(process.finished for process in self._processes):
                return Finished(code=self._processes[0].code)
            self.on_turn(max(process.board.position(process.local_rank).turn for process in self._processes))
            if self.place.decides and not self._decided and all(process.done for process in self._processes):
                self._decided = True
                code = self.decide()
                for process in self._processes:
                    if process.rank == 0 and process.worker_set.set_id == self.sets[0].set_id:
                        process.control.send({"code": code})
            finding = self._overdue()
            if finding is not None:
                self._dump_stacks(finding.set_id)
                return self._timed_out(finding)

    def _read(self, process: _Process, selector: selectors.BaseSelector) -> None:
        for message in process.events.available():
            self._handle(process, message)
        if process.events.ended:
            selector.unregister(process.events.fd)

    def _handle(self, process: _Process, message: Message) -> None:
        if self._values.handle(message, process.control):
            return
        match message["event"]:
            case "store":
                for other in self._processes:
                    if other is not process:
                        other.control.send({"port": message["port"]})
            case "hello":
                self.on_hello(process.worker_set.set_id, message)
            case "counts":
                case, seconds = message["case"], message["block_seconds"]
                self._block_seconds[case] = max(seconds, self._block_seconds.get(case, 0.0))
                for clock, (samples, k) in message["counts"].items():
                    self.counts[case, message["arm"], clock] = (samples, k)
            case "cell":
                self.on_cell(message)
            case "done":
                process.done = True
            case "finished":
                process.finished, process.code = True, message["code"]
            case "error":
                process.error, process.error_at = message, time.monotonic()
            case unknown:
                raise AssertionError(f"message {unknown!r} from rank {process.rank}")

    def _someone_failed(self) -> bool:
        for process in self._processes:
            if not process.ended and process.popen.poll() is not None and process.events.ended:
                process.ended = True
        return any(process.error or (process.ended and not process.finished) for process in self._processes)

    def _failure(self) -> Failure:
        """The failure that came first: a rank ended by a signal explains its peers' errors, not the reverse."""
        killed = [p for p in self._processes if p.ended and not p.error and not p.finished]
        if killed:
            process = killed[0]
            said = f" (log: {process.log})" if process.log.stat().st_size else ""
            return self._blame(process, "died", f"rank {process.rank} {_ending(process.popen.returncode)}{said}")
        process = min((p for p in self._processes if p.error), key=lambda p: p.error_at)
        assert process.error is not None
        text = process.error["text"]
        known = process.error["known"]
        told = text if known else f"rank {process.rank} failed: {text} (log: {process.log})"
        return self._blame(process, "rank_error", told, exit_code=ExitCode(process.error["exit_code"]))

    def _blame(self, process: _Process, code: str, text: str, *, exit_code: ExitCode = ExitCode.FAILED) -> Failure:
        position = process.board.position(process.local_rank)
        arm = self.plan.arms[position.arm].name if position.arm >= 0 else ", ".join(process.worker_set.arms)
        case = f", case {self.plan.cases[position.case].case_id}" if position.case >= 0 else ""
        return Failure(
            status="error",
            code=code,
            text=text if exit_code == ExitCode.USAGE else f"{text}, in stage {position.stage}{case}, arm {arm}",
            exit_code=exit_code,
            set_id=process.worker_set.set_id,
            stage=position.stage,
            case=position.case,
            arm=position.arm,
        )

    def _overdue(self) -> Finding | None:
        boards: dict[int, list[Any]] = {}
        for process in self._processes:
            if not process.finished:
                position = process.board.position(process.local_rank)
                boards.setdefault(process.worker_set.set_id, []).append(position)
        return overdue(
            boards,
            plan=self.plan,
            global_ranks=self.place.global_ranks,
            block_seconds=self._block_seconds,
            watch_idle=not self._decided,
        )

    def _timed_out(self, finding: Finding) -> Failure:
        return Failure(
            status="timeout",
            code="timeout",
            text=f"{finding.text}; Python stacks are in {self.log_dir}",
            exit_code=ExitCode.FAILED,
            set_id=finding.set_id,
            stage=finding.stage,
            case=finding.case,
            arm=finding.arm,
        )

    def _dump_stacks(self, set_id: int) -> None:
        for process in self._processes:
            if process.worker_set.set_id == set_id and process.popen.poll() is None:
                process.popen.send_signal(signal.SIGUSR1)
        time.sleep(_STACK_S)

    def _end(self, selector: selectors.BaseSelector) -> None:
        """Kill what still runs, with its whole process group, and reap it."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                if process.popen.poll() is None and not process.finished:
                    os.killpg(process.popen.pid, signal.SIGKILL)
        for process in self._processes:
            try:
                process.popen.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.popen.pid, signal.SIGKILL)
                process.popen.wait()
            process.events.close()
            process.control.close()
            process.board.close()
            if not process.log.stat().st_size:
                process.log.unlink()
        selector.close()


def set_variables(worker_set: WorkerSet, place: Place) -> dict[str, str]:
    """What a set's rank processes get on top of the supervisor's environment."""
    added = dict(worker_set.env)
    if not worker_set.backend.startswith("nccl"):
        added["OMP_NUM_THREADS"] = "1"
        if place.num_nodes > 1 and "GLOO_SOCKET_IFNAME" not in os.environ:
            interface = interface_to(place.master_address)
            added |= {"GLOO_SOCKET_IFNAME": interface} if interface else {}
    for name in ("NCCL_NVLS_ENABLE", "NCCL_MAX_CTAS"):
        if name in os.environ:
            added.pop(name, None)  # an exported value is left alone
    return added


def _ending(returncode: int) -> str:
    if returncode < 0:
        return f"was ended by {signal.Signals(-returncode).name}"
    return f"ended with code {returncode} before its work was done"
