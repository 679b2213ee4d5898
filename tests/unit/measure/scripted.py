"""A backend that logs every call, and on which time passes only as the test's script says."""

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gtpbench.backends.base import KernelSeen
from gtpbench.errors import UnsupportedError

GRAPH_ROWS = (KernelSeen(name="_Z21ncclDevKernel_AllGather", grid=16, count=4),)
TRACE_ROWS = (
    KernelSeen(name="ncclDevKernel_AllGather", grid=16, count=4),
    KernelSeen(name="Memcpy DtoD (Device -> Device)", grid=None, count=2, kind="memcpy"),
)


class ScriptedGraph:
    """What was captured; its end is logged too."""

    def __init__(self, backend: "ScriptedBackend", iterations: list[int]) -> None:
        self.iterations = iterations
        self._backend = backend
        weakref.finalize(self, backend.log.append, "graph gone").atexit = False

    def replay(self) -> None:
        """Log, and let the script's time pass."""
        self._backend.replayed(len(self.iterations))


class ScriptedBackend:
    """Logs calls; `call_us` is the time of a called operation by its number, `graph_us` that of a replay by length."""

    alignment = "all-reduce"

    def __init__(
        self,
        *,
        call_us: Callable[[int], float] = lambda _: 10.0,
        graph_us: Callable[[int], float] = lambda k: 10.0 * k,
    ) -> None:
        self.log: list[str] = []
        self.now_us = 0.0
        self.refuses: set[str] = set()
        """`observe`, `trace`: what answers that the backend cannot."""
        self.context = SimpleNamespace(mark=lambda number: self.log.append(f"mark {number}"))
        self._call_us, self._graph_us = call_us, graph_us
        self._captured: list[int] | None = None
        self._calls = 0

    def step(self, iteration: int) -> None:
        """One operation: into the graph while one is captured, else called."""
        self.log.append(f"step {iteration}")
        if self._captured is not None:
            self._captured.append(iteration)
            return
        self.now_us += self._call_us(self._calls)
        self._calls += 1

    def replayed(self, k: int) -> None:
        """A graph of `k` operations ran."""
        self.log.append("replay")
        self.now_us += self._graph_us(k)

    def barrier(self, queue: Any) -> None:
        self.log.append("barrier")

    def record(self, queue: Any) -> float:
        self.log.append("record")
        return self.now_us

    def host_sync(self, queue: Any) -> None:
        self.log.append("sync")

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def capture(self, work: Callable[[], None], *, queue: Any) -> ScriptedGraph:
        self.log.append("capture")
        self._captured = []
        work()
        graph, self._captured = ScriptedGraph(self, self._captured), None
        return graph

    def observe(self, replay: Any) -> tuple[KernelSeen, ...]:
        self._maybe_refuse("observe")
        self.log.append(f"observe {len(replay.iterations)}")
        return GRAPH_ROWS

    def trace(self, work: Callable[[], None], *, queue: Any) -> tuple[KernelSeen, ...]:
        self._maybe_refuse("trace")
        self.log.append("trace")
        work()
        return TRACE_ROWS

    def _maybe_refuse(self, what: str) -> None:
        if what in self.refuses:
            raise UnsupportedError(f"{what} needs a package", code="package")

    def taken(self) -> list[str]:
        """The log so far, which begins anew."""
        told, self.log[:] = list(self.log), []
        return told
