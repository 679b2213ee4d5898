"""The clocks that time a workload: what an interval enqueues, and what lines the ranks up before it."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from gtpbench.backends.base import Backend, KernelSeen
from gtpbench.measure.loop import BlockTimes, run_block
from gtpbench.record.model import Clock

TRACED_CALLS = 8
"""Operations that the stream clock's proof runs under the tracer, fewer where an interval has fewer."""


class TimedClock(ABC):
    """One clock on one workload. Every method is collective unless it says local."""

    name: Clock
    align_once = False

    def __init__(self, backend: Backend, step: Callable[[int], None], *, queue: Any, epoch_ns: int) -> None:
        """`step` enqueues the iteration whose number it is given."""
        self._backend = backend
        self._step = step
        self._queue = queue
        self._epoch_ns = epoch_ns
        self._iteration = 0
        self._k = 1

    def prepare(self, k: int) -> None:
        """Make ready to run intervals of `k` operations."""
        self._k = k

    def run(self, samples: int) -> BlockTimes:
        """A block of `samples` intervals."""
        times = run_block(
            self._backend,
            self._interval,
            align=self._align,
            align_once=self.align_once,
            queue=self._queue,
            samples=samples,
            k=self._k,
            first_iteration=self._iteration,
            epoch_ns=self._epoch_ns,
        )
        self._iteration += samples * self._k
        return times

    @property
    def k(self) -> int:
        """Operations in an interval. Local."""
        return self._k

    @property
    def alignment(self) -> str:
        """What lines the ranks up. Local."""
        return self._backend.alignment

    def release(self) -> None:  # noqa: B027 - most clocks hold nothing
        """Drop what holds on to buffers. Local."""

    @abstractmethod
    def _interval(self, first: int) -> None:
        """Enqueue the interval that begins with iteration `first`. Local."""

    def _align(self) -> None:
        self._backend.barrier(self._queue)


class CallClock(TimedClock):
    """Operations called one after the other, as a program without graphs sees them."""

    def __init__(
        self, backend: Backend, step: Callable[[int], None], *, queue: Any, epoch_ns: int, name: Clock
    ) -> None:
        """`name` is `host` where calling is the operation itself, else `stream`."""
        super().__init__(backend, step, queue=queue, epoch_ns=epoch_ns)
        self.name = name

    def _interval(self, first: int) -> None:
        step = self._step
        for iteration in range(first, first + self._k):
            step(iteration)

    def trace(self) -> tuple[int, tuple[KernelSeen, ...]]:
        """Run some operations of an interval, same buffers and calls; how many, and the kernels that ran."""
        calls = min(TRACED_CALLS, self._k) if self._k > 1 else TRACED_CALLS

        def work() -> None:
            for iteration in range(calls):
                self._step(iteration)

        self._backend.barrier(self._queue)
        self._backend.host_sync(self._queue)
        return calls, self._backend.trace(work, queue=self._queue)


class GraphClock(TimedClock):
    """One captured graph of k operations, replayed: each replay lines the ranks up for the next."""

    name: Clock = "graph"
    align_once = True

    def __init__(self, backend: Backend, step: Callable[[int], None], *, queue: Any, epoch_ns: int) -> None:
        super().__init__(backend, step, queue=queue, epoch_ns=epoch_ns)
        self._graph: Any = None
        self.capture_us = 0.0
        """Of the last capture."""

    def prepare(self, k: int) -> None:
        """Capture `k` operations, unless that is what is captured already."""
        if self._graph is not None and k == self._k:
            return
        self.release()
        self._k = k

        def work() -> None:
            for iteration in range(k):
                self._step(iteration)

        began_ns = time.perf_counter_ns()
        self._graph = self._backend.capture(work, queue=self._queue)
        self.capture_us = (time.perf_counter_ns() - began_ns) / 1e3

    @property
    def alignment(self) -> str:
        """What lines the ranks up. Local."""
        return "previous_replay"

    def release(self) -> None:
        """Drop the graph: it holds on to the buffers. Local."""
        self._graph = None

    def observe(self) -> tuple[int, tuple[KernelSeen, ...]]:
        """How many operations the timed graph has, and its nodes. Local."""
        return self._k, self._backend.observe(self._graph)

    def _interval(self, first: int) -> None:  # noqa: ARG002 - a graph always replays the same operations
        self._graph.replay()

    def _align(self) -> None:
        self._graph.replay()
