"""One Case x Arm on one rank: prepare, blocks, finish; leaves a `RankCell` that travels to the supervisor."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from gtpbench.measure.calibrate import Counts
from gtpbench.measure.loop import BlockTimes, run_block
from gtpbench.measure.ranks import Ranks
from gtpbench.plan import PlanModel
from gtpbench.record.model import KernelRow, Memory, ProcessState, Side, Verification
from gtpbench.workloads.base import Workload

if TYPE_CHECKING:
    from gtpbench.backends.base import Backend

ESTIMATE_ITERATIONS = 3
ESTIMATE_MIN_US = 2000.0
"""A first estimate shorter than this is repeated with more iterations: small operations start cold."""


class StageClock(Protocol):
    """What names the stage a rank is in, for the watchdog and for `stage_seconds`."""

    def __call__(self, name: str) -> AbstractContextManager[None]:
        """Enter the stage for the duration of the context."""


class RankCell(PlanModel):
    """What one rank knows about one cell; times are [block][iteration], microseconds for one operation."""

    rank: int
    k: int
    alignment: str
    time_us: tuple[tuple[float, ...], ...]
    start_us: tuple[float, ...]
    wall_us: tuple[float, ...]
    warmup_time_us: tuple[tuple[float, ...], ...]
    warmup_start_us: tuple[float, ...]
    warmup_wall_us: tuple[float, ...]
    operations: int
    """Operations between the witnesses: warm-up and timed blocks."""
    counters: dict[str, int]
    """Sums of the witnesses' differences over the blocks; `peer_mappings` is the least seen."""
    kernels: tuple[KernelRow, ...]
    verification: Verification
    essential_bytes: int
    wire_bytes: int
    sides: dict[str, Side]
    process: ProcessState
    memory: Memory
    communicator_us: float
    registration_us: float
    deregistration_us: float
    load_average: tuple[float, ...]
    stage_seconds: dict[str, float]


_LEVELS = frozenset({"peer_mappings"})
"""Counters that are states, not totals."""


class CellRun:
    """Drives one workload through its turns. Every method is collective in the worker set."""

    def __init__(self, workload: Workload, ranks: Ranks, stage: StageClock, *, epoch_ns: int) -> None:
        """Nothing is allocated yet."""
        self._workload = workload
        self._backend: Backend = workload.backend
        self._ranks = ranks
        self._stage = stage
        self._epoch_ns = epoch_ns
        self._iteration = 0
        self._operations = 0
        self._timed: list[BlockTimes] = []
        self._warmup: list[BlockTimes] = []
        self._counters: dict[str, int] = {}
        self._loads: list[float] = []
        self._k = 1

    def prepare(self) -> float:
        """Allocate, register, warm up; returns the estimate of one operation, maximum over ranks, microseconds."""
        self._free_before = self._backend.memory().free_bytes
        with self._stage("registration"):
            self._registration_us = self._workload.prepare()
        self._queue = self._backend.queue("compute")
        with self._stage("warmup"):
            self._run(samples=1, k=ESTIMATE_ITERATIONS)
            estimate = self._estimate(ESTIMATE_ITERATIONS)
            if estimate * ESTIMATE_ITERATIONS < ESTIMATE_MIN_US:
                estimate = self._estimate(max(ESTIMATE_ITERATIONS, round(ESTIMATE_MIN_US / max(estimate, 1.0))))
        return estimate

    def block(self, counts: Counts, *, warmup_iterations: int) -> None:
        """One turn: a warm-up block unless `warmup_iterations` is 0, then a timed block, between two witnesses."""
        self._k = counts.k
        before = self._backend.witness().counters
        with self._stage("blocks"):
            if warmup_iterations:
                warmup = self._run(samples=-(-warmup_iterations // counts.k), k=counts.k)
                self._warmup.append(warmup)
            self._timed.append(self._run(samples=counts.samples, k=counts.k))
            self._operations += counts.iterations
            self._operations += len(self._warmup[-1].time_us) * counts.k if warmup_iterations else 0
            self._backend.context.mark(self._iteration)
            self._backend.barrier(self._queue)
        for name, value in self._backend.witness().counters.items():
            if name in _LEVELS:
                self._counters[name] = min(value, self._counters.get(name, value))
            else:
                self._counters[name] = self._counters.get(name, 0) + value - before[name]
        self._loads.append(_load_average())

    def finish(self, *, corrupt: bool, stage_seconds: Callable[[], dict[str, float]], communicator_us: float) -> Any:
        """Verify and release; returns every rank's `RankCell` as JSON text on rank 0, None elsewhere."""
        backend, workload = self._backend, self._workload
        with self._stage("proof"):
            memory, capabilities = backend.memory(), backend.capabilities()
        with self._stage("verify"):
            checked = workload.verify(corrupt=corrupt)
        sides = workload.sides()
        wire, essential = workload.wire_bytes(), workload.essential_bytes()
        with self._stage("teardown"):
            deregistration_us = workload.release()
        rank = backend.context.rank
        cell = RankCell(
            rank=rank,
            k=self._k,
            alignment=backend.alignment,
            time_us=tuple(block.time_us for block in self._timed),
            start_us=tuple(block.start_us for block in self._timed),
            wall_us=tuple(block.wall_us for block in self._timed),
            warmup_time_us=tuple(block.time_us for block in self._warmup),
            warmup_start_us=tuple(block.start_us for block in self._warmup),
            warmup_wall_us=tuple(block.wall_us for block in self._warmup),
            operations=self._operations,
            counters=self._counters,
            kernels=(),
            verification=checked,
            essential_bytes=essential,
            wire_bytes=wire,
            sides=sides,
            process=ProcessState(
                rank=rank,
                process_group=capabilities.process_group,
                num_communicators=memory.num_communicators,
                num_windows=memory.num_windows,
                num_pools=memory.num_pools,
                coalesced=capabilities.coalescing,
            ),
            memory=Memory(
                rank=rank,
                buffers_bytes=memory.buffers_bytes,
                registered_bytes=memory.registered_bytes,
                free_before_bytes=self._free_before,
                free_after_bytes=memory.free_bytes,
            ),
            communicator_us=communicator_us,
            registration_us=self._registration_us,
            deregistration_us=deregistration_us,
            load_average=tuple(self._loads),
            stage_seconds=stage_seconds(),
        )
        return self._ranks.gather(cell.model_dump_json())

    def _run(self, *, samples: int, k: int) -> BlockTimes:
        times = run_block(
            self._backend,
            self._workload.step,
            queue=self._queue,
            samples=samples,
            k=k,
            first_iteration=self._iteration,
            epoch_ns=self._epoch_ns,
        )
        self._iteration += samples * k
        return times

    def _estimate(self, iterations: int) -> float:
        return self._ranks.agree_max(self._run(samples=1, k=iterations).time_us[0])


def _load_average() -> float:
    with open("/proc/loadavg", encoding="ascii") as file:
        return float(file.read().split()[0])
