"""One Case x Arm on one rank: prepare, blocks, finish; leaves a `RankCell` that travels to the supervisor."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from gtpbench.measure.calibrate import Counts, Estimate
from gtpbench.measure.clocks import CallClock, GraphClock, TimedClock
from gtpbench.measure.estimate import estimate
from gtpbench.measure.evidence import kernel_evidence
from gtpbench.measure.loop import BlockTimes
from gtpbench.measure.ranks import Ranks
from gtpbench.plan import PlanModel
from gtpbench.record.model import BlockState, Clock, Memory, ProcessState, RankEvidence, Side, Verification
from gtpbench.workloads.base import Workload

if TYPE_CHECKING:
    from gtpbench.backends.base import Backend, MemoryState


class StageClock(Protocol):
    """What names the stage a rank is in, for the watchdog and for `stage_seconds`."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        """Enter the stage for the duration of the context."""


class RankSeries(PlanModel):
    """Blocks of one rank on one clock; times are [block][iteration], microseconds for one operation."""

    time_us: tuple[tuple[float, ...], ...]
    issue_us: tuple[tuple[float, ...], ...]
    start_us: tuple[float, ...]
    wall_us: tuple[float, ...]


class RankClock(PlanModel):
    """What one rank measured on one clock."""

    k: int
    alignment: str
    timed: RankSeries
    warmup: RankSeries


class RankCell(PlanModel):
    """What one rank knows about one cell."""

    rank: int
    clocks: dict[Clock, RankClock]
    operations: int
    """Operations between the witnesses: warm-up and timed blocks of all clocks."""
    counters: dict[str, int]
    """Sums of the witnesses' differences over the blocks; levels such as `peer_mappings` are the least seen."""
    evidence: tuple[RankEvidence, ...]
    """Kernels of the timed objects; empty where the backend runs none."""
    verification: Verification
    essential_bytes: int
    wire_bytes: int
    sides: dict[str, Side]
    process: ProcessState
    memory: Memory
    communicator_us: float
    registration_us: float
    num_registrations: int
    first_registration: bool
    deregistration_us: float
    capture_us: float | None
    block_states: tuple[BlockState, ...]
    stage_seconds: dict[str, float]


LEVELS = frozenset({"peer_mappings", "windows", "null_windows", "registered"})
"""Counters that are states, not totals."""


@dataclass(slots=True)
class _Blocks:
    timed: list[BlockTimes] = field(default_factory=list)
    warmup: list[BlockTimes] = field(default_factory=list)


class CellRun:
    """Drives one workload through its turns. Every method is collective in the worker set."""

    def __init__(self, workload: Workload, ranks: Ranks, stage: StageClock, *, clock: str, epoch_ns: int) -> None:
        """Nothing is allocated yet. `clock` is the scenario's: host, graph, stream or both."""
        self._workload = workload
        self._backend: Backend = workload.backend
        self._ranks = ranks
        self._stage = stage
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._clocks: dict[Clock, TimedClock] = {}
        self._blocks: dict[Clock, _Blocks] = {}
        self._operations = 0
        self._counters: dict[str, int] = {}
        self._states: list[BlockState] = []

    def prepare(self) -> dict[Clock, Estimate]:
        """Allocate, register, warm up; returns what each clock needs, the same on every rank."""
        self._before = self._backend.memory()
        with self._stage("registration"):
            self._registration_us = self._workload.prepare()
            # Before another arm of the same processes registers.
            self._prepared = self._backend.memory()
        self._queue = self._backend.queue("compute")
        # Each has hung in its own way somewhere, and neither has a timeout of NCCL's.
        with self._stage("copy_engine" if self._backend.context.cta_policy == "zero" else "first_collective"):
            self._workload.step(0)
            self._backend.host_sync(self._queue)
        found: dict[Clock, Estimate] = {}
        for name in _clock_names(self._clock):
            with self._stage("capture" if name == "graph" else "warmup"):
                clock = self._clocks[name] = self._make_clock(name)
                self._blocks[name] = _Blocks()
                found[name] = estimate(clock, self._ranks, fixed_k=self._workload.interval_operations)
        return found

    def block(self, counts: Mapping[Clock, Counts], *, warmup_iterations: int) -> None:
        """One turn: on each clock a warm-up block unless `warmup_iterations` is 0, then a timed block."""
        before = self._backend.witness().counters
        with self._stage("blocks"):
            for name, clock in self._clocks.items():
                clock.prepare(counts[name].k)
                blocks = self._blocks[name]
                if warmup_iterations:
                    blocks.warmup.append(clock.run(-(-warmup_iterations // clock.k)))
                    self._operations += len(blocks.warmup[-1].time_us) * clock.k
                blocks.timed.append(clock.run(counts[name].samples))
                self._operations += counts[name].iterations
            self._backend.context.mark(self._operations)
            self._backend.barrier(self._queue)
            self._backend.host_sync(self._queue)
        for counter, value in self._backend.witness().counters.items():
            if counter in LEVELS:
                self._counters[counter] = min(value, self._counters.get(counter, value))
            else:
                self._counters[counter] = self._counters.get(counter, 0) + value - before[counter]
        self._states.append(self._block_state())

    def finish(self, *, corrupt: bool, stage_seconds: Callable[[], dict[str, float]], communicator_us: float) -> Any:
        """Prove, verify and release; returns every rank's `RankCell` as JSON text on rank 0, None elsewhere."""
        backend, workload, rank = self._backend, self._workload, self._backend.context.rank
        with self._stage("proof"):
            memory, capabilities = backend.memory(), backend.capabilities()
            evidence = kernel_evidence(self._clocks.values(), rank=rank, counters=self._counters)
        with self._stage("verify"):
            checked = workload.verify(corrupt=corrupt)
        graph = self._clocks.get("graph")
        sides = workload.sides(captured=None if graph is None else graph.k)
        capture_us = graph.capture_us if isinstance(graph, GraphClock) else None
        with self._stage("teardown"):
            for clock in self._clocks.values():
                clock.release()
            deregistration_us = workload.release()
        cell = RankCell(
            rank=rank,
            clocks={name: self._rank_clock(name) for name in self._clocks},
            operations=self._operations,
            counters=self._counters,
            evidence=evidence,
            verification=checked,
            essential_bytes=workload.essential_bytes(),
            wire_bytes=workload.wire_bytes(),
            sides=sides,
            process=ProcessState(
                rank=rank,
                process_group=capabilities.process_group,
                num_communicators=memory.num_communicators,
                num_windows=memory.num_windows,
                num_pools=memory.num_pools,
                cta_policy=backend.context.cta_policy if backend.context.device is not None else None,
                coalesced=capabilities.coalescing,
            ),
            memory=Memory(
                rank=rank,
                buffers_bytes=memory.buffers_bytes,
                registered_bytes=memory.registered_bytes,
                free_before_bytes=self._before.free_bytes,
                free_after_bytes=memory.free_bytes,
            ),
            communicator_us=communicator_us,
            registration_us=self._registration_us,
            num_registrations=self._prepared.num_registrations - self._before.num_registrations,
            first_registration=_first_registration(self._before, self._prepared),
            deregistration_us=deregistration_us,
            capture_us=capture_us,
            block_states=tuple(self._states),
            stage_seconds=stage_seconds(),
        )
        return self._ranks.gather(cell.model_dump_json())

    def _clock_args(self) -> dict[str, Any]:
        return {"queue": self._queue, "epoch_ns": self._epoch_ns}

    def _make_clock(self, name: Clock) -> TimedClock:
        if name == "graph":
            return GraphClock(self._backend, self._workload.step, **self._clock_args())
        return CallClock(self._backend, self._workload.step, name=name, **self._clock_args())

    def _rank_clock(self, name: Clock) -> RankClock:
        clock, blocks = self._clocks[name], self._blocks[name]
        return RankClock(
            k=clock.k, alignment=clock.alignment, timed=_series(blocks.timed), warmup=_series(blocks.warmup)
        )

    def _block_state(self) -> BlockState:
        rank, number = self._backend.context.rank, len(self._states)
        state = self._backend.device_state()
        if state is None:
            return BlockState(rank=rank, block=number, load_average=_load_average())
        return BlockState(
            rank=rank,
            block=number,
            sm_clock_mhz=state.sm_clock_mhz,
            power_w=state.power_w,
            throttle_reasons=state.throttle_reasons,
            load_average=_load_average(),
        )


def _first_registration(before: "MemoryState", after: "MemoryState") -> bool:
    """Whether the first window, or the first plain registration, of this process was made in between."""
    windows = (before.num_window_registrations, after.num_window_registrations)
    plain = (before.num_registrations - windows[0], after.num_registrations - windows[1])
    return any(earlier == 0 < now for earlier, now in (windows, plain))


def _clock_names(clock: str) -> tuple[Clock, ...]:
    """The clocks of a scenario's `measure.clock`, resolved."""
    names: dict[str, tuple[Clock, ...]] = {
        "both": ("graph", "stream"),
        "graph": ("graph",),
        "stream": ("stream",),
        "host": ("host",),
    }
    return names[clock]


def _series(blocks: list[BlockTimes]) -> RankSeries:
    return RankSeries(
        time_us=tuple(block.time_us for block in blocks),
        issue_us=tuple(block.issue_us for block in blocks),
        start_us=tuple(block.start_us for block in blocks),
        wall_us=tuple(block.wall_us for block in blocks),
    )


def _load_average() -> float:
    with open("/proc/loadavg", encoding="ascii") as file:
        return float(file.read().split()[0])
