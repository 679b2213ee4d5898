"""The Backend protocol: narrow, queue-based, the same for real hardware and for a model of it.

A backend lives in one rank's process. Unless a method says *local*, every rank of the worker set calls it, in the same
order and with the same arguments (*collective*). Work is enqueued on queues and runs in order on each; a backend
without asynchronous queues runs it before the call returns.

Shapes are counts of elements; every buffer is one-dimensional and contiguous.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, Protocol

from gtpbench.backends import BACKENDS
from gtpbench.collectives import DataKind, ReduceOp, Reference
from gtpbench.errors import UsageError

PoolKind = Literal["plain", "mem_alloc", "registered", "window"]
"""Ordinary memory; the communication library's own memory, unregistered; registered; in a symmetric window."""


class Exchange(Protocol):
    """Small values between the processes of a run: rendezvous, allocation digests, turns, results.

    Keys are namespaced by the caller; a key is set once.
    """

    def set(self, key: str, value: bytes) -> None:
        """Publish a value. Local."""

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        """Block without using the CPU until `key` is set, and return its value. Local.

        Raises:
            StageTimeout: not set in time; the message names the key.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RankContext:
    """What a backend is opened with."""

    rank: int
    num_ranks: int
    local_rank: int
    local_size: int
    node: int
    num_nodes: int
    set_id: int
    exchange: Exchange
    timeout_s: float
    device: int | None = None
    """CUDA device of this rank; None on CPU ranks."""
    cta_policy: Literal["default", "zero"] = "default"
    """NCCL's CTA policy of the communicator."""
    mark: Callable[[int], None] = field(default=lambda _: None)
    """Told the number of each operation as it is entered, for the watchdog. Costs well under a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do; constant after `open`."""

    pools: frozenset[PoolKind]
    dtypes: frozenset[str]
    reduce_ops: frozenset[ReduceOp]
    capture: bool
    asynchronous: bool
    coalescing: Literal["grouped", "emulated"]
    process_group: str
    """Implementation, for the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A contiguous run of elements in a pool. Slicing shares storage."""

    dtype: str
    count: int
    offset: int
    """Elements from the start of the allocation; for windows equal on every rank."""
    allocation: int
    """Number of the allocation in its pool, in order of `alloc` calls."""
    pool: PoolKind
    owner: str
    handle: Any
    """The backend's own view of exactly these elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Outcome of comparing a buffer with its reference."""

    num_wrong: int
    num_checked: int
    max_error: float
    sum_squared_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSeen:
    """One kernel or copy node of a timed object."""

    name: str
    grid: int | None
    count: int
    kind: Literal["kernel", "memcpy", "memset", "batch_mem_op", "other"] = "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Evidence counters at one moment, local to the rank: bytes sent by the node's interfaces (on one rank a node),
    peers' mappings present. Differences of two witnesses bound what happened between them."""

    counters: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """Bytes of this rank: in buffers, of those registered, and free on the device (None on a shared host)."""

    buffers_bytes: int
    registered_bytes: int
    free_bytes: int | None
    num_communicators: int
    num_windows: int
    num_pools: int
    num_registrations: int = 0
    """Buffers registered so far, the released ones included."""
    num_window_registrations: int = 0
    """Those of them that were registered as windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """What a GPU did at one moment, as NVML tells; None where it does not."""

    sm_clock_mhz: int | None
    power_w: float | None
    throttle_reasons: tuple[str, ...]


class Backend(ABC):
    """One rank's way to move bytes. Use as a context manager; `close` may be called twice."""

    name: str

    def __init__(self, context: RankContext) -> None:
        """Keep the context; nothing is opened. Local."""
        self.context = context

    def __enter__(self) -> "Backend":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Life

    @abstractmethod
    def open(self) -> None:
        """Meet the other ranks and make the communicator. Collective.

        Raises:
            StageTimeout: not all ranks came.
        """

    @abstractmethod
    def close(self) -> None:
        """Deregister, free, leave: registrations before buffers before communicators. Collective when open."""

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""

    # Memory

    @abstractmethod
    def alloc(self, count: int, *, dtype: str, pool: PoolKind, owner: str = "") -> Buffer:
        """A buffer of `count` elements. Collective in order and size for registered and window pools.

        Every owner has its own pool of each kind.

        Raises:
            UnsupportedError: no such pool or dtype here.
        """

    def slice(self, buffer: Buffer, start: int, count: int) -> Buffer:
        """Elements [start, start + count) of a buffer, sharing its storage. Local."""
        assert 0 <= start <= start + count <= buffer.count, (start, count, buffer.count)
        handle = buffer.handle[start : start + count]
        return replace(buffer, count=count, offset=buffer.offset + start, handle=handle)

    @abstractmethod
    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        """Register everything allocated in the pool so far, once; no allocation in it may follow. Collective.

        Before anything is registered, the order and sizes of allocations are compared across ranks.

        Returns:
            Microseconds it took on this rank; 0 for pools that are not registered.

        Raises:
            RunError: ranks allocated differently; names the first rank and allocation that differ.
        """

    @abstractmethod
    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        """Deregister and free everything in the owner's pool, so that it can be filled anew. Collective.

        Captured work on its buffers must be gone.

        Returns:
            Microseconds of deregistration on this rank.
        """

    @abstractmethod
    def memory(self) -> MemoryState:
        """Accounting of this rank. Local."""

    # Data

    @abstractmethod
    def fill(self, buffer: Buffer, *, seed: int, kind: DataKind, start: int = 0) -> None:
        """Write this rank's generated data, elements [start, start + count) of the pattern. Local."""

    def fill_all(self, items: Sequence[tuple[Buffer, int]], *, kind: DataKind) -> None:
        """`fill` of several (buffer, seed); a device need not be asked for each on its own. Local."""
        for buffer, seed in items:
            self.fill(buffer, seed=seed, kind=kind)

    @abstractmethod
    def poison(self, buffer: Buffer) -> None:
        """Overwrite with a value no result has (NaN, or 0xA5 in whole-number types). Local."""

    @abstractmethod
    def check(self, buffer: Buffer, reference: Reference, *, tolerance: float) -> CheckResult:
        """Compare with the fp64 reference; |difference| over `tolerance`, or NaN, is wrong. Local."""

    def check_all(self, pairs: Sequence[tuple[Buffer, Reference]], *, tolerance: float) -> CheckResult:
        """`check` of several buffers in one result; a device need not be waited for after each. Local."""
        results = [self.check(buffer, reference, tolerance=tolerance) for buffer, reference in pairs]
        return CheckResult(
            num_wrong=sum(result.num_wrong for result in results),
            num_checked=sum(result.num_checked for result in results),
            max_error=max((result.max_error for result in results), default=0.0),
            sum_squared_error=sum(result.sum_squared_error for result in results),
        )

    @abstractmethod
    def flip(self, buffer: Buffer, index: int) -> None:
        """Change one element, for tests of `check`. Local."""

    # Queues and time

    @abstractmethod
    def queue(self, name: str, *, high_priority: bool = False) -> Any:
        """The queue with this name, made at first use. Local."""

    @abstractmethod
    def record(self, queue: Any) -> Any:
        """An event at the queue's present end. Local."""

    @abstractmethod
    def wait(self, queue: Any, event: Any) -> None:
        """Later work on `queue` starts after `event`. Local."""

    @abstractmethod
    def elapsed_us(self, start: Any, end: Any) -> float:
        """Microseconds between two events that have happened. Local."""

    @abstractmethod
    def host_sync(self, queue: Any) -> None:
        """Block the host until the queue is empty. Local."""

    @abstractmethod
    def barrier(self, queue: Any) -> None:
        """Line the ranks up on the queue with as little skew as the backend can. Collective."""

    @property
    @abstractmethod
    def alignment(self) -> str:
        """What `barrier` uses, for the record."""

    # Work

    @abstractmethod
    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order; recv.count = G x send.count. In place: send is recv's own part."""

    @abstractmethod
    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, reduced; send.count = G x recv.count. In place: recv is send's
        own part."""

    @abstractmethod
    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Reduce in place over all ranks."""

    @abstractmethod
    def all_to_all(
        self,
        send: Buffer,
        recv: Buffer,
        *,
        send_splits: Sequence[int] | None = None,
        recv_splits: Sequence[int] | None = None,
        queue: Any,
    ) -> None:
        """Part p of `send` goes to rank p; parts of `recv` come in rank order. Splits in elements, equal when None."""

    @abstractmethod
    def coalesce(self, queue: Any) -> AbstractContextManager[None]:
        """Collectives issued inside form one group where the backend can, else run in order (`emulated`)."""

    @abstractmethod
    def gemm(self, m: int, n: int, k: int, *, dtype: str, queue: Any) -> None:
        """An m x k by k x n matrix product on scratch operands made at first use. Local."""

    @abstractmethod
    def attention(self, *, tokens: int, heads: int, head_dim: int, dtype: str, queue: Any) -> None:
        """Causal self-attention over `tokens` on scratch operands. Local."""

    @abstractmethod
    def touch(self, num_bytes: int, *, queue: Any) -> None:
        """An element-wise pass that reads and writes `num_bytes` of scratch. Local."""

    @abstractmethod
    def capture(self, work: Callable[[], None], *, queue: Any) -> Any:
        """Record `work` once; returns an object whose `replay()` enqueues it.

        Raises:
            UnsupportedError: the backend cannot capture.
        """

    # Evidence

    @abstractmethod
    def observe(self, replay: Any) -> tuple[KernelSeen, ...]:
        """Kernel rows of a captured object, read from the object itself. Local.

        Raises:
            UnsupportedError: the backend runs no kernels, or cannot look.
        """

    @abstractmethod
    def trace(self, work: Callable[[], None], *, queue: Any) -> tuple[KernelSeen, ...]:
        """Run `work`, which enqueues on `queue`, and tell the kernels and copies that ran meanwhile. Local.

        Never inside a timed interval.

        Raises:
            UnsupportedError: the backend runs no kernels, or cannot look.
        """

    def device_state(self) -> DeviceState | None:
        """The rank's GPU now, None on CPU ranks. Local, outside timed intervals."""
        return None

    @property
    def cache_bytes(self) -> int | None:
        """Size of the device's last-level cache, None where the host's counts or it is not known."""
        return None

    @abstractmethod
    def witness(self) -> Witness:
        """Evidence counters now. Local, outside timed intervals."""

    @abstractmethod
    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        """Bytes this rank sends for one operation of the algorithm used here. Local."""


def open_backend(name: str, context: RankContext) -> Backend:
    """The backend registered under `name`, not yet opened.

    Raises:
        UsageError: no such backend.
    """
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}: one of {', '.join(BACKENDS)}")
    module, _, attribute = BACKENDS[name].target.partition(":")
    backend: Backend = getattr(import_module(module), attribute)(context)
    return backend
