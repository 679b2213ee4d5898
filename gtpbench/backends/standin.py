"""A backend without torch for tests of everything above one: real processes and real data, a made-up clock.

Data moves through one shared page in pieces, so that every kind of buffer works. Times come from a model and are the
same on every run: 10 us for an operation and 10 GB/s for the bytes it sends, twice as fast when all its buffers lie in
the window pool.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gtpbench.backends.base import Buffer, Capabilities, MemoryState, PoolKind, RankContext, Witness
from gtpbench.backends.numpy_cpu import NUMPY_DTYPES, NumpyBackend
from gtpbench.backends.rendezvous import Rendezvous, compare_allocations
from gtpbench.backends.shared_memory import FlagBarrier, require_x86_64
from gtpbench.backends.shared_page import SharedStage, SplitTable
from gtpbench.collectives import DTYPES, ReduceOp
from gtpbench.errors import RunError

LATENCY_US = 10.0
BYTES_PER_US = 10_000.0
WINDOW_SPEED_UP = 2.0
FLOP_PER_US = 1_000_000.0
REGISTRATION_US = 50.0
"""For one allocation; half of it to deregister."""
POOLS: tuple[PoolKind, ...] = ("plain", "registered", "window")


class StandinBackend(NumpyBackend):
    """NumPy arrays, and a virtual clock that each operation advances on each rank."""

    name = "standin"
    pool_hint = "it has plain, registered and window"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._now_us = 0.0
        self._sent_bytes = 0
        self._allocations: dict[tuple[PoolKind, str], list[tuple[str, int]]] = {}
        """[pool, owner] -> (dtype, count) in order."""
        self._registered: set[tuple[PoolKind, str]] = set()
        self._is_open = False
        self._rendezvous: Rendezvous
        self._barrier: FlagBarrier
        self._splits: SplitTable
        self._stage: SharedStage

    # Life

    def open(self) -> None:
        """Meet the other ranks and share the page. Collective.

        Raises:
            StageTimeout: not all ranks came.
            UnsupportedError: not x86-64.
        """
        if self._is_open:
            return
        require_x86_64(self.name)
        self._rendezvous = Rendezvous(self.context, name=self.name)
        self._barrier = FlagBarrier(self._rendezvous, self.context)
        self._splits = SplitTable(self._rendezvous, self.context, self._barrier)
        self._stage = SharedStage(self._rendezvous, self.context, self._barrier)
        self._is_open = True

    def close(self) -> None:
        """Forget buffers. Local."""
        self._is_open = False
        self._registered.clear()
        self._allocations.clear()

    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""
        return Capabilities(
            pools=frozenset(POOLS),
            dtypes=frozenset(NUMPY_DTYPES),
            reduce_ops=frozenset({"sum", "avg"}),
            capture=False,
            asynchronous=False,
            coalescing="emulated",
            process_group="standin",
        )

    # Memory

    def alloc(self, count: int, *, dtype: str, pool: PoolKind, owner: str = "") -> Buffer:
        """A buffer of `count` elements in the owner's pool.

        Raises:
            UnsupportedError: no such pool or dtype here.
            RunError: the pool is registered already.
        """
        self._require_pool(pool)
        self._require_dtype(dtype)
        if (pool, owner) in self._registered:
            raise RunError(f"the {pool} pool is registered: release it before allocating in it again")
        made = self._allocations.setdefault((pool, owner), [])
        made.append((dtype, count))
        handle = np.empty(count, dtype=NUMPY_DTYPES[dtype])
        return Buffer(
            dtype=dtype, count=count, offset=0, allocation=len(made) - 1, pool=pool, owner=owner, handle=handle
        )

    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        """Compare allocations across ranks. Collective.

        Raises:
            RunError: ranks allocated differently.
        """
        self._require_pool(pool)
        if pool == "plain" or (pool, owner) in self._registered:
            return 0.0
        made = self._allocations.setdefault((pool, owner), [])
        compare_allocations(self._rendezvous, pool, made)
        self._registered.add((pool, owner))
        return REGISTRATION_US * len(made)

    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        """Forget the pool's buffers. Collective."""
        self._require_pool(pool)
        made = self._allocations.pop((pool, owner), [])
        num_registered = len(made) if (pool, owner) in self._registered else 0
        self._registered.discard((pool, owner))
        return REGISTRATION_US / 2 * num_registered

    def memory(self) -> MemoryState:
        """Accounting of this rank. Local."""
        sizes = {
            key: sum(count * DTYPES[dtype].size_bytes for dtype, count in made)
            for key, made in self._allocations.items()
        }
        return MemoryState(
            buffers_bytes=sum(sizes.values()),
            registered_bytes=sum(sizes[key] for key in self._registered),
            free_bytes=None,
            num_communicators=int(self._is_open),
            num_windows=sum(len(self._allocations[key]) for key in self._registered if key[0] == "window"),
            num_pools=len(self._allocations),
        )

    # Time

    def record(self, queue: Any) -> Any:
        """The virtual clock, microseconds. Local."""
        return self._now_us

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Modelled microseconds between two events. Local."""
        return float(end - start)

    def barrier(self, queue: Any) -> None:
        """Line the ranks up; takes no modelled time. Collective."""
        self._barrier.wait()

    @property
    def alignment(self) -> str:
        """What `barrier` uses, for the record."""
        return "virtual"

    def _spend(self, sent_bytes: int, *buffers: Buffer) -> None:
        speed_up = WINDOW_SPEED_UP if all(buffer.pool == "window" for buffer in buffers) else 1.0
        self._now_us += (LATENCY_US + sent_bytes / BYTES_PER_US) / speed_up
        self._sent_bytes += sent_bytes

    # Work

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order. In place: send is recv's own part."""
        self._enter()
        parts = self._stage.share(send.handle, [send.count] * self.context.num_ranks)
        recv.handle[:] = np.concatenate(parts)
        self._spend(self.wire_bytes("all_gather", recv.handle.nbytes), send, recv)

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, reduced. In place: recv is send's own part."""
        self._enter(op, dtype=send.dtype)
        first = self.context.rank * recv.count
        parts = self._stage.share(send.handle, [send.count] * self.context.num_ranks)
        recv.handle[:] = _reduced([part[first : first + recv.count] for part in parts], op=op)
        self._spend(self.wire_bytes("reduce_scatter", send.handle.nbytes), send, recv)

    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Reduce in place over all ranks."""
        self._enter(op, dtype=buffer.dtype)
        parts = self._stage.share(buffer.handle, [buffer.count] * self.context.num_ranks)
        buffer.handle[:] = _reduced(parts, op=op)
        self._spend(self.wire_bytes("all_reduce", buffer.handle.nbytes), buffer)

    def all_to_all(
        self,
        send: Buffer,
        recv: Buffer,
        *,
        send_splits: Sequence[int] | None = None,
        recv_splits: Sequence[int] | None = None,
        queue: Any,
    ) -> None:
        """Part p of `send` goes to rank p; parts of `recv` come in rank order. Splits in elements, equal when None.

        Raises:
            RunError: a peer sends another number of elements than expected here.
        """
        self._enter()
        rank = self.context.rank
        tables = self._splits.exchange(send.count, send_splits)
        parts = self._stage.share(send.handle, [sum(table) for table in tables])
        error = self._splits.expected(recv.count, recv_splits, tables=tables)
        if error is not None:
            raise error
        edges = [(sum(table[:rank]), sum(table[: rank + 1])) for table in tables]
        recv.handle[:] = np.concatenate([part[first:last] for part, (first, last) in zip(parts, edges, strict=True)])
        others = sum(count for peer, count in enumerate(tables[rank]) if peer != rank)
        self._spend(others * send.handle.itemsize, send, recv)

    def gemm(self, m: int, n: int, k: int, *, dtype: str, queue: Any) -> None:
        """Spend the modelled time of an m x k by k x n matrix product. Local."""
        self._now_us += 2.0 * m * n * k / FLOP_PER_US

    def attention(self, *, tokens: int, heads: int, head_dim: int, dtype: str, queue: Any) -> None:
        """Spend the modelled time of causal self-attention: two products of which half is masked. Local."""
        self._now_us += 2.0 * tokens * tokens * heads * head_dim / FLOP_PER_US

    def touch(self, num_bytes: int, *, queue: Any) -> None:
        """Spend the modelled time of a pass over `num_bytes`. Local."""
        self._now_us += num_bytes / BYTES_PER_US

    # Evidence

    def witness(self) -> Witness:
        """Bytes that the model says this rank has sent. Local."""
        return Witness(counters={"modelled_bytes": self._sent_bytes})

    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        """Bytes this rank sends for one operation: all parts but one, twice for all-reduce. Local."""
        rounds = 2 if collective == "all_reduce" else 1
        return rounds * total_bytes * (self.context.num_ranks - 1) // self.context.num_ranks


def _reduced(parts: list[npt.NDArray[Any]], *, op: ReduceOp) -> npt.NDArray[Any]:
    total = np.sum(parts, axis=0, dtype=np.float64)
    return np.asarray(total / len(parts) if op == "avg" else total).astype(parts[0].dtype)
