"""One registration case on one arm and rank: prepare, blocks, finish; leaves a `RankRegistration`.

A block is one repetition: the whole set is allocated, registered, deregistered and freed, each timed by the host.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gtpbench.backends.base import Backend, MemoryState, PoolKind
from gtpbench.cases import RegistrationCase
from gtpbench.errors import UnsupportedError
from gtpbench.measure.calibrate import Counts, Estimate
from gtpbench.measure.cell import LEVELS, StageClock
from gtpbench.measure.ranks import Ranks
from gtpbench.plan import Arm, PlanModel
from gtpbench.record.model import Clock, KernelRow, Memory, ProcessState, RankEvidence, Side, Verification
from gtpbench.workloads.registration import BufferSet, EndsGather

Phase = Literal["allocate", "register", "deregister"]
ALIGNMENT = "barrier"
"""Lines the ranks up before they allocate; before they register and deregister they tell one another so."""
_SLACK = 4.0
"""By how much a set may take longer than its buffers one by one, for the watchdog."""


class PhaseTimes(PlanModel):
    """One phase of one rank, a value a block, microseconds for the whole set."""

    time_us: tuple[float, ...]
    start_us: tuple[float, ...]
    wall_us: tuple[float, ...]
    """With the ranks' meeting before registration and deregistration, and freeing after it."""


class RankRegistration(PlanModel):
    """What one rank knows about one registration case on one arm."""

    rank: int
    phases: dict[Phase, PhaseTimes]
    single_us: float
    """Registration of the one buffer before the first block."""
    is_first: bool
    """Whether that was the first of its kind in this process."""
    single_deregistration_us: float
    gathers: int
    """All-gathers between the witnesses."""
    counters: dict[str, int]
    evidence: tuple[RankEvidence, ...]
    verification: Verification
    side: Side
    process: ProcessState
    memory: Memory
    communicator_us: float
    stage_seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lap:
    lasted_us: float
    start_us: float
    wall_us: float


class RegistrationRun:
    """Drives one registration case through its turns. Every method is collective in the worker set.

    Buffers are of fresh allocations in every block, and no allocation is registered twice (see `BufferSet`).
    """

    def __init__(
        self,
        backend: Backend,
        case: RegistrationCase,
        arm: Arm,
        ranks: Ranks,
        stage: StageClock,
        *,
        seed: int,
        is_first: bool,
        epoch_ns: int,
    ) -> None:
        """Nothing is allocated yet. `is_first`: this process has registered no buffer of the arm's kind before."""
        self._backend = backend
        self._case = case
        self._arm = arm
        self._pool: PoolKind = "window" if arm.registration == "window" else "registered"
        self._ranks = ranks
        self._stage = stage
        self._seed = seed
        self._is_first = is_first
        self._epoch_ns = epoch_ns
        self._queue = backend.queue("compute")
        self._sets = 0
        self._single: dict[Phase, _Lap] = {}
        self._blocks: dict[Phase, list[_Lap]] = {phase: [] for phase in get_args(Phase)}

    def prepare(self) -> dict[Clock, Estimate]:
        """Register one buffer by itself; returns what a block may take at most, the same on every rank.

        In a process the first of its kind sets up more than itself, such as the device communicator of windows.
        """
        with self._stage("registration"):
            self._single = self._live(self._new_set(self._case.sizes[:1]))
        wall_us = self._ranks.agree_max(sum(lap.wall_us for lap in self._single.values()))
        return {"host": Estimate(us=_SLACK * wall_us * self._case.num_buffers, k=1)}

    def block(self, counts: Mapping[Clock, Counts], *, warmup_iterations: int) -> None:  # noqa: ARG002
        """One turn: the life of one set. There is nothing to warm up or to choose."""
        with self._stage("blocks"):
            for phase, lap in self._live(self._new_set(self._case.sizes)).items():
                self._blocks[phase].append(lap)

    def finish(self, *, corrupt: bool, stage_seconds: Callable[[], dict[str, float]], communicator_us: float) -> Any:
        """Gather through one more set, prove and check; returns every rank's `RankRegistration` as JSON text on rank 0,
        None elsewhere."""
        backend, buffers = self._backend, self._new_set(self._case.sizes)
        before = backend.memory()
        with self._stage("blocks"):
            self._line_up()
            buffers.allocate()
            buffers.register()
        alive = backend.memory()
        gather = EndsGather(buffers, self._case.gathered, seed=self._seed)
        with self._stage("copy_engine" if backend.context.cta_policy == "zero" else "first_collective"):
            counters = self._gather(gather)
        with self._stage("verify"):
            checked = gather.verify(corrupt=corrupt)
        with self._stage("proof"):
            evidence = self._evidence(gather, counters)
        with self._stage("teardown"):
            gather.forget()
            buffers.release()
            self._line_up()
        cell = RankRegistration(
            rank=backend.context.rank,
            phases={phase: _times(laps) for phase, laps in self._blocks.items()},
            single_us=self._single["register"].lasted_us,
            is_first=self._is_first,
            single_deregistration_us=self._single["deregister"].lasted_us,
            gathers=checked.num_slots,
            counters=counters,
            evidence=evidence,
            verification=checked,
            side=buffers.side(),
            process=self._process(alive),
            memory=self._memory(before, alive),
            communicator_us=communicator_us,
            stage_seconds=stage_seconds(),
        )
        return self._ranks.gather(cell.model_dump_json())

    def _new_set(self, sizes: tuple[int, ...]) -> BufferSet:
        self._sets += 1
        owner = f"{self._arm.name}/{self._case.case_id}/{self._sets}"
        return BufferSet(self._backend, sizes, pool=self._pool, owner=owner)

    def _live(self, buffers: BufferSet) -> dict[Phase, _Lap]:
        """A set's life from its allocation to its end."""
        self._line_up()
        return {
            "allocate": self._lap(buffers.allocate),
            "register": self._lap(buffers.register),
            "deregister": self._lap(buffers.release),
        }

    def _line_up(self) -> None:
        self._backend.barrier(self._queue)
        self._backend.host_sync(self._queue)

    def _lap(self, call: Callable[[], float | None]) -> _Lap:
        """What `call` says it took, else how long it was."""
        began_ns = time.perf_counter_ns()
        told_us = call()
        wall_us = (time.perf_counter_ns() - began_ns) / 1e3
        start_us = (began_ns - self._epoch_ns) / 1e3
        return _Lap(lasted_us=wall_us if told_us is None else told_us, start_us=start_us, wall_us=wall_us)

    def _gather(self, gather: EndsGather) -> dict[str, int]:
        """Run the all-gathers; what the witnesses before and after them say."""
        gather.fill()
        before = self._backend.witness().counters
        gather.run()
        after = self._backend.witness().counters
        return {name: value if name in LEVELS else value - before[name] for name, value in after.items()}

    def _evidence(self, gather: EndsGather, counters: dict[str, int]) -> tuple[RankEvidence, ...]:
        """The nodes of a graph of the same all-gathers, where the backend captures."""
        backend = self._backend
        if not backend.capabilities().capture:
            return ()
        told: dict[str, Any] = {"rank": backend.context.rank, "source": "graph_nodes", "counters": counters}
        try:
            seen = backend.observe(backend.capture(gather.enqueue, queue=self._queue))
        except UnsupportedError as error:
            return (RankEvidence(**told, error=str(error)),)
        kernels = tuple(KernelRow(name=row.name, kind=row.kind, grid=row.grid, count=row.count) for row in seen)
        return (RankEvidence(**told, calls=len(gather), kernels=kernels),)

    def _process(self, alive: MemoryState) -> ProcessState:
        backend, capabilities = self._backend, self._backend.capabilities()
        return ProcessState(
            rank=backend.context.rank,
            process_group=capabilities.process_group,
            num_communicators=alive.num_communicators,
            num_windows=alive.num_windows,
            num_pools=alive.num_pools,
            cta_policy=backend.context.cta_policy if backend.context.device is not None else None,
            coalesced=capabilities.coalescing,
        )

    def _memory(self, before: MemoryState, alive: MemoryState) -> Memory:
        return Memory(
            rank=self._backend.context.rank,
            buffers_bytes=alive.buffers_bytes,
            registered_bytes=alive.registered_bytes,
            free_before_bytes=before.free_bytes,
            free_after_bytes=alive.free_bytes,
            free_released_bytes=self._backend.memory().free_bytes,
        )


def _times(laps: Sequence[_Lap]) -> PhaseTimes:
    return PhaseTimes(
        time_us=tuple(round(lap.lasted_us, 3) for lap in laps),
        start_us=tuple(round(lap.start_us, 1) for lap in laps),
        wall_us=tuple(round(lap.wall_us, 1) for lap in laps),
    )
