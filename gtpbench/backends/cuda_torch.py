"""What the NCCL backends share: CUDA buffers as torch tensors, queues as streams, graphs, data, accounting."""

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gtpbench.backends import cuda_data, cuda_graph, cuda_trace
from gtpbench.backends.base import (
    Backend,
    Buffer,
    CheckResult,
    DeviceState,
    KernelSeen,
    MemoryState,
    PoolKind,
    RankContext,
    Witness,
)
from gtpbench.backends.nvml import Gpu
from gtpbench.backends.rendezvous import Rendezvous, compare_allocations
from gtpbench.collectives import DTYPES, DataKind, Reference
from gtpbench.errors import RunError, UnsupportedError

REGISTERED: tuple[PoolKind, ...] = ("registered", "window")


@dataclass(slots=True)
class CudaPool:
    """One owner's pool of one kind: its tensors, and what keeps them allocated and registered."""

    kind: PoolKind
    tensors: list[torch.Tensor] = field(default_factory=list)
    described: list[tuple[str, int]] = field(default_factory=list)
    """(dtype, count) of each allocation, in order."""
    memory: Any = None
    """The allocator's own pool, where it has one."""
    handles: list[Any] = field(default_factory=list)
    """Registrations, in order."""
    num_null: int = 0
    """Windows that NCCL did not make."""
    is_registered: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of its buffers."""
        return sum(tensor.nbytes for tensor in self.tensors)


class TorchCudaBackend(Backend):
    """One rank on one GPU. Subclasses say how communicators, memory and registrations are made."""

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._pools: dict[tuple[PoolKind, str], CudaPool] = {}
        self._queues: dict[str, torch.cuda.Stream] = {}
        self._current: torch.cuda.Stream | None = None
        self._scratch: dict[tuple[Any, ...], tuple[torch.Tensor, ...]] = {}
        self._is_open = False
        self._num_operations = 0
        self._num_registrations: Counter[PoolKind] = Counter()
        self._rendezvous: Rendezvous
        self._device: torch.device
        self._gpu: Gpu
        self._barrier_buffer: torch.Tensor

    # Life

    def open(self) -> None:
        """Meet the other ranks and make the communicator. Collective.

        Raises:
            StageTimeout: not all ranks came.
        """
        if self._is_open:
            return
        assert self.context.device is not None, "a CUDA rank needs a device"
        self._device = torch.device("cuda", self.context.device)
        torch.cuda.set_device(self._device)
        self._gpu = Gpu(str(torch.cuda.get_device_properties(self._device).uuid))
        self._rendezvous = Rendezvous(self.context, name=self.name)
        # Before NCCL does, because this says who is missing.
        self._rendezvous.gather("open")
        self._connect()
        self._is_open = True
        self._barrier_buffer = torch.zeros(1, dtype=torch.float32, device=self._device)
        # Both implementations of torch make their communicator lazily; registration needs it.
        queue = self.queue("compute")
        self.barrier(queue)
        self.host_sync(queue)

    def close(self) -> None:
        """Deregister, free, leave. Collective when open."""
        if not self._is_open:
            return
        torch.cuda.synchronize(self._device)
        for kind, owner in list(self._pools):
            self.release(kind, owner=owner)
        self._is_open = False
        self._scratch.clear()
        self._queues.clear()
        self._disconnect()

    @abstractmethod
    def _connect(self) -> None:
        """Make the communicator. Collective."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Destroy the communicator; nothing is registered with it any more. Collective."""

    # Memory

    def alloc(self, count: int, *, dtype: str, pool: PoolKind, owner: str = "") -> Buffer:
        """A buffer of `count` elements. Collective in order and size for registered and window pools.

        Raises:
            UnsupportedError: no such dtype here.
            RunError: the pool is registered already, or there is not enough memory.
        """
        if dtype not in cuda_data.CUDA_DTYPES:
            raise UnsupportedError(f"{self.name} has no {dtype}", code="dtype")
        made = self._pools.setdefault((pool, owner), CudaPool(kind=pool))
        if made.is_registered:
            raise RunError(f"the {pool} pool is registered: release it before allocating in it again")
        try:
            tensor = self._allocate(made, count, dtype=cuda_data.CUDA_DTYPES[dtype])
        except torch.OutOfMemoryError as error:
            size = count * DTYPES[dtype].size_bytes
            raise RunError(f"rank {self.context.rank}: no room for {size} B on the GPU: {error}") from error
        made.tensors.append(tensor)
        made.described.append((dtype, count))
        allocation = len(made.tensors) - 1
        return Buffer(dtype=dtype, count=count, offset=0, allocation=allocation, pool=pool, owner=owner, handle=tensor)

    @abstractmethod
    def _allocate(self, pool: CudaPool, count: int, *, dtype: torch.dtype) -> torch.Tensor:
        """Memory of a pool's kind. Local."""

    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        """Compare allocations across ranks, then register them all, once. Collective.

        Raises:
            RunError: ranks allocated differently.
        """
        made = self._pools.setdefault((pool, owner), CudaPool(kind=pool))
        if pool not in REGISTERED or made.is_registered:
            return 0.0
        compare_allocations(self._rendezvous, f"{pool} ({owner})" if owner else pool, made.described)
        torch.cuda.synchronize(self._device)
        began_ns = time.perf_counter_ns()
        self._register(made)
        lasted_us = (time.perf_counter_ns() - began_ns) / 1e3
        made.is_registered = True
        self._num_registrations[pool] += len(made.tensors)
        return lasted_us

    @abstractmethod
    def _register(self, pool: CudaPool) -> None:
        """Register every allocation of a pool. Collective."""

    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        """Deregister while the buffers live, then free them. Collective.

        Every rank waits for its device, then for the other ranks, before the first deregisters: a peer may still load
        from this rank's window.
        """
        made = self._pools.pop((pool, owner), None)
        if made is None:
            return 0.0
        torch.cuda.synchronize(self._device)
        lasted_us = 0.0
        if made.is_registered:
            self._rendezvous.gather("deregister")
            began_ns = time.perf_counter_ns()
            self._deregister(made)
            lasted_us = (time.perf_counter_ns() - began_ns) / 1e3
        made.tensors.clear()
        made.memory = None
        # The caller's own slices may still hold on to plain memory: it goes back with the last of them.
        torch.cuda.empty_cache()
        return lasted_us

    @abstractmethod
    def _deregister(self, pool: CudaPool) -> None:
        """Undo `_register`; the buffers still live. Collective."""

    def memory(self) -> MemoryState:
        """Accounting of this rank. Local."""
        registered = [pool for pool in self._pools.values() if pool.is_registered]
        return MemoryState(
            buffers_bytes=sum(pool.num_bytes for pool in self._pools.values()),
            registered_bytes=sum(pool.num_bytes for pool in registered),
            free_bytes=int(torch.cuda.mem_get_info(self._device)[0]),
            num_communicators=int(self._is_open),
            num_windows=self._num_windows(),
            num_pools=len(self._pools),
            num_registrations=self._num_registrations.total(),
            num_window_registrations=self._num_registrations["window"],
        )

    def _num_windows(self) -> int:
        windows = [pool for pool in self._pools.values() if pool.kind == "window" and pool.is_registered]
        return sum(len(pool.tensors) - pool.num_null for pool in windows)

    # Data

    def fill(self, buffer: Buffer, *, seed: int, kind: DataKind, start: int = 0) -> None:
        """Write this rank's generated data, elements [start, start + count) of the pattern. Local."""
        self._fill([(buffer, seed)], kind=kind, start=start)

    def fill_all(self, items: Sequence[tuple[Buffer, int]], *, kind: DataKind) -> None:
        """`fill` of several (buffer, seed), made together. Local."""
        self._fill(items, kind=kind, start=0)

    def _fill(self, items: Sequence[tuple[Buffer, int]], *, kind: DataKind, start: int) -> None:
        self._use(self.queue("compute"))
        context = self.context
        cuda_data.fill(items, kind=kind, start=start, rank=context.rank, num_ranks=context.num_ranks)

    def poison(self, buffer: Buffer) -> None:
        """Overwrite with a value no result has. Local."""
        self._use(self.queue("compute"))
        cuda_data.poison(buffer)

    def check(self, buffer: Buffer, reference: Reference, *, tolerance: float) -> CheckResult:
        """Compare with the fp64 reference; |difference| over `tolerance`, or NaN, is wrong. Local."""
        return self.check_all([(buffer, reference)], tolerance=tolerance)

    def check_all(self, pairs: Sequence[tuple[Buffer, Reference]], *, tolerance: float) -> CheckResult:
        """`check` of several buffers in one result; the device is waited for once. Local."""
        self._use(self.queue("compute"))
        return cuda_data.check(pairs, tolerance=tolerance, num_ranks=self.context.num_ranks, device=self._device)

    def flip(self, buffer: Buffer, index: int) -> None:
        """Change one element, for tests of `check`. Local."""
        self._use(self.queue("compute"))
        cuda_data.flip(buffer, index, num_ranks=self.context.num_ranks)

    # Queues and time

    def queue(self, name: str, *, high_priority: bool = False) -> Any:
        """The stream with this name, made at first use; never the legacy default stream. Local."""
        if name not in self._queues:
            self._queues[name] = torch.cuda.Stream(self._device, priority=-1 if high_priority else 0)
        return self._queues[name]

    def _use(self, queue: Any) -> None:
        """Make `queue` torch's current stream: what torch enqueues goes there. Local."""
        if queue is not self._current:
            torch.cuda.set_stream(queue)
            self._current = queue

    def record(self, queue: Any) -> Any:
        """A timing event at the stream's present end. Local."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(queue)
        return event

    def wait(self, queue: Any, event: Any) -> None:
        """Later work on `queue` starts after `event`. Local."""
        queue.wait_event(event)

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Microseconds between two events that have happened, by the device's clock. Local."""
        return float(start.elapsed_time(end)) * 1000.0

    def host_sync(self, queue: Any) -> None:
        """Block the host until the stream is empty. Local."""
        queue.synchronize()

    def barrier(self, queue: Any) -> None:
        """Line the ranks up on the stream by an all-reduce of one element in ordinary memory. Collective."""
        self._use(queue)
        self._reduce_one(self._barrier_buffer, queue)

    @abstractmethod
    def _reduce_one(self, tensor: torch.Tensor, queue: Any) -> None:
        """All-reduce a tensor on the queue. Collective."""

    @property
    def alignment(self) -> str:
        """What `barrier` uses, for the record."""
        return "device_all_reduce"

    def _enter(self, queue: Any) -> None:
        """Tell the watchdog that a collective begins, and make its stream current. Local."""
        self._num_operations += 1
        self.context.mark(self._num_operations)
        if queue is not self._current:
            self._use(queue)

    # Work

    def gemm(self, m: int, n: int, k: int, *, dtype: str, queue: Any) -> None:
        """An m x k by k x n matrix product on scratch operands made at first use. Local."""
        self._use(queue)
        made = {"dtype": cuda_data.CUDA_DTYPES[dtype], "device": self._device}
        left, right, out = self._operands(
            ("gemm", m, n, k, dtype),
            lambda: (torch.randn(m, k, **made), torch.randn(k, n, **made), torch.empty(m, n, **made)),
        )
        torch.mm(left, right, out=out)

    def attention(self, *, tokens: int, heads: int, head_dim: int, dtype: str, queue: Any) -> None:
        """Causal self-attention over `tokens` on scratch operands. Local."""
        self._use(queue)
        shape = (1, heads, tokens, head_dim)
        made = {"dtype": cuda_data.CUDA_DTYPES[dtype], "device": self._device}
        (x_BHTD,) = self._operands(("attention", *shape, dtype), lambda: (torch.randn(shape, **made),))
        torch.nn.functional.scaled_dot_product_attention(x_BHTD, x_BHTD, x_BHTD, is_causal=True)

    def touch(self, num_bytes: int, *, queue: Any) -> None:
        """An element-wise pass that reads and writes `num_bytes` of scratch. Local."""
        self._use(queue)
        (run,) = self._operands(
            ("touch", num_bytes), lambda: (torch.ones(max(num_bytes // 4, 1), device=self._device),)
        )
        run.mul_(1.0)

    def _operands(self, key: tuple[Any, ...], make: Callable[[], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
        if key not in self._scratch:
            self._scratch[key] = make()
        return self._scratch[key]

    def capture(self, work: Callable[[], None], *, queue: Any) -> Any:
        """Record `work`, which enqueues on `queue`, as a CUDA graph. Collective where `work` is."""
        self._use(queue)
        return cuda_graph.CapturedGraph(work)

    # Evidence

    def observe(self, replay: Any) -> tuple[KernelSeen, ...]:
        """The nodes of a captured graph. Local."""
        return cuda_graph.nodes(replay)

    def trace(self, work: Callable[[], None], *, queue: Any) -> tuple[KernelSeen, ...]:
        """Run `work` under CUPTI; the kernels and copies that ran meanwhile. Local."""
        self._use(queue)
        return cuda_trace.trace(work)

    def device_state(self) -> DeviceState | None:
        """The rank's GPU now. Local, outside timed intervals."""
        return self._gpu.state()

    @property
    def cache_bytes(self) -> int | None:
        """Size of the GPU's L2 cache."""
        return int(torch.cuda.get_device_properties(self._device).L2_cache_size)

    def witness(self) -> Witness:
        """Windows made and refused, and plain registrations, alive in this process. Local."""
        pools = [pool for pool in self._pools.values() if pool.is_registered]
        return Witness(
            counters={
                "windows": self._num_windows(),
                "null_windows": sum(pool.num_null for pool in pools),
                "registered": sum(len(pool.tensors) for pool in pools if pool.kind == "registered"),
            }
        )

    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        """Bytes this rank must send for one operation: all parts but one, twice for all-reduce. Local."""
        rounds = 2 if collective == "all_reduce" else 1
        return rounds * total_bytes * (self.context.num_ranks - 1) // self.context.num_ranks
