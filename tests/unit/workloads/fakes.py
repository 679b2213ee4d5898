"""A backend without ranks whose log says which buffers are made, used and let go of."""

import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gtpbench.backends.base import Backend, Buffer, Capabilities, CheckResult, MemoryState, PoolKind, Witness
from gtpbench.collectives import Reference


class Handle:
    """A view of a buffer that somebody holds."""


class LoggingGraph:
    """Captured work."""

    def replay(self) -> None:
        """Nothing runs."""


class LoggingBackend(Backend):
    """Logs allocation, registration, release, and the end of every view and graph; computes nothing.

    `device` is 0: what it plays is a GPU. Each operation takes 100 us of its clock.
    """

    name = "logging"

    def __init__(self, *, rank: int = 0, num_ranks: int = 2, cta_policy: str = "default") -> None:
        context: Any = SimpleNamespace(
            rank=rank, num_ranks=num_ranks, device=0, cta_policy=cta_policy, mark=lambda number: None
        )
        super().__init__(context)
        self.log: list[str] = []
        self.registrations = {"registered": 0, "window": 0}
        """[kind] -> buffers registered before now."""
        self.used: list[tuple[int, int]] = []
        """(first element of send, of recv) of each operation."""
        self._sizes: dict[tuple[str, str], list[int]] = {}
        self._registered: set[tuple[str, str]] = set()
        self._now_us = 0.0

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    # Memory

    def alloc(self, count: int, *, dtype: str, pool: PoolKind, owner: str = "") -> Buffer:
        made = self._sizes.setdefault((pool, owner), [])
        made.append(count)
        self.log.append(f"alloc {pool} {owner} {count}")
        return Buffer(
            dtype=dtype, count=count, offset=0, allocation=len(made) - 1, pool=pool, owner=owner, handle=self._handle()
        )

    def _handle(self) -> Handle:
        handle = Handle()
        weakref.finalize(handle, self.log.append, "view gone").atexit = False
        return handle

    def slice(self, buffer: Buffer, start: int, count: int) -> Buffer:
        assert 0 <= start <= start + count <= buffer.count, "a slot that lies outside its allocation"
        return Buffer(
            dtype=buffer.dtype,
            count=count,
            offset=buffer.offset + start,
            allocation=buffer.allocation,
            pool=buffer.pool,
            owner=buffer.owner,
            handle=self._handle(),
        )

    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        self.log.append(f"register {pool} {owner}")
        if pool in self.registrations:
            self.registrations[pool] += len(self._sizes[pool, owner])
            self._registered.add((pool, owner))
        return 40.0 if pool in self.registrations else 0.0

    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        if (pool, owner) in self._registered:
            self._registered.remove((pool, owner))
            self.log.append(f"deregister {pool} {owner}")
        self.log.append(f"free {pool} {owner}")
        del self._sizes[pool, owner]
        return 3.0

    def memory(self) -> MemoryState:
        return MemoryState(
            buffers_bytes=0,
            registered_bytes=0,
            free_bytes=1000 - sum(len(made) for made in self._sizes.values()),
            num_communicators=1,
            num_windows=0,
            num_pools=len(self._sizes),
            num_registrations=sum(self.registrations.values()),
            num_window_registrations=self.registrations["window"],
        )

    # Data

    def fill(self, buffer: Buffer, *, seed: int, kind: Any, start: int = 0) -> None:
        pass

    def poison(self, buffer: Buffer) -> None:
        pass

    def flip(self, buffer: Buffer, index: int) -> None:
        pass

    def check(self, buffer: Buffer, reference: Reference, *, tolerance: float) -> CheckResult:
        return CheckResult(num_wrong=0, num_checked=buffer.count, max_error=0.0, sum_squared_error=0.0)

    # Queues, time and work

    def queue(self, name: str, *, high_priority: bool = False) -> str:
        return name

    def wait(self, queue: Any, event: Any) -> None:
        pass

    def barrier(self, queue: Any) -> None:
        pass

    @property
    def alignment(self) -> str:
        return "nothing"

    def host_sync(self, queue: Any) -> None:
        pass

    def record(self, queue: Any) -> float:
        return self._now_us

    def elapsed_us(self, start: float, end: float) -> float:
        return end - start

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        self._now_us += 100.0
        self.used.append((send.offset, recv.offset))

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: Any, queue: Any) -> None:
        self._now_us += 100.0
        self.used.append((send.offset, recv.offset))

    def all_reduce(self, buffer: Buffer, *, op: Any, queue: Any) -> None:
        raise NotImplementedError

    def all_to_all(
        self, send: Buffer, recv: Buffer, *, send_splits: Any = None, recv_splits: Any = None, queue: Any
    ) -> None:
        raise NotImplementedError

    def coalesce(self, queue: Any) -> Any:
        raise NotImplementedError

    def gemm(self, m: int, n: int, k: int, *, dtype: str, queue: Any) -> None:
        raise NotImplementedError

    def attention(self, *, tokens: int, heads: int, head_dim: int, dtype: str, queue: Any) -> None:
        raise NotImplementedError

    def touch(self, num_bytes: int, *, queue: Any) -> None:
        raise NotImplementedError

    def capture(self, work: Callable[[], None], *, queue: Any) -> LoggingGraph:
        work()
        graph = LoggingGraph()
        weakref.finalize(graph, self.log.append, "graph gone").atexit = False
        return graph

    def observe(self, replay: Any) -> tuple[Any, ...]:
        return ()

    def trace(self, work: Callable[[], None], *, queue: Any) -> tuple[Any, ...]:
        return ()

    # The rest

    def capabilities(self) -> Capabilities:
        return Capabilities(
            pools=frozenset({"plain", "mem_alloc", "registered", "window"}),
            dtypes=frozenset({"bf16"}),
            reduce_ops=frozenset({"sum"}),
            capture=True,
            asynchronous=True,
            coalescing="grouped",
            process_group="logging",
        )

    def witness(self) -> Witness:
        return Witness(counters={"windows": 2, "null_windows": 0})

    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        return total_bytes // 2

    def taken(self) -> list[str]:
        """The log so far, which begins anew."""
        told, self.log[:] = list(self.log), []
        return told
