"""CPU ranks that map one another's buffers: the counterpart of a symmetric window reached by load and store.

Every collective is: barrier, pull from the peers' memory, barrier. The first barrier says that all `send` buffers are
ready, the second that nobody reads them any more. Each rank begins with the peer after itself, so that they do not all
read the same memory at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gtpbench.backends.base import Buffer, Capabilities, MemoryState, PoolKind, RankContext, Witness
from gtpbench.backends.interfaces import witness_counters
from gtpbench.backends.reducer import Reducer
from gtpbench.backends.rendezvous import Rendezvous
from gtpbench.backends.shared_memory import FlagBarrier, Memory, require_x86_64
from gtpbench.backends.shared_page import SplitTable
from gtpbench.backends.torch_cpu import TORCH_DTYPES, TorchCpuBackend
from gtpbench.backends.window_pool import WindowPool, mapped_peers
from gtpbench.collectives import DTYPES, ReduceOp
from gtpbench.errors import RunError, UnsupportedError


class CpuWindowBackend(TorchCpuBackend):
    """Ranks of one host over windows in shared memory."""

    name = "cpu_window"
    pool_hint = "its windows need no other registration; nccl backends have a registered pool"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._is_open = False
        self._views: dict[str, list[list[torch.Tensor]]] = {}
        """[owner][rank][allocation], filled by `register`."""
        self._order = [(context.rank + step) % context.num_ranks for step in range(context.num_ranks)]
        self._barrier: FlagBarrier
        self._splits: SplitTable
        self._windows: dict[str, WindowPool] = {}
        self._rendezvous: Rendezvous
        self._reducer: Reducer

    # Life

    def open(self) -> None:
        """Meet the other ranks and share the barrier. Collective.

        Raises:
            StageTimeout: not all ranks came.
            UnsupportedError: several nodes, or not x86-64.
        """
        if self._is_open:
            return
        if self.context.num_nodes > 1:
            raise UnsupportedError(
                f"cpu_window maps memory of one host, and the ranks are on {self.context.num_nodes} nodes: "
                "run it on one node, or use gloo",
                code="one_host",
            )
        require_x86_64(self.name)
        self._rendezvous = Rendezvous(self.context, name=self.name)
        self._barrier = FlagBarrier(self._rendezvous, self.context)
        self._splits = SplitTable(self._rendezvous, self.context, self._barrier)
        self._reducer = Reducer()
        self._is_open = True

    def close(self) -> None:
        """Unmap peers and forget buffers. Meets nobody: mappings outlive their owner, so no rank need wait."""
        self._plain.clear()
        self._scratch.clear()
        self._views.clear()
        if self._is_open:
            self._is_open = False
            for windows in self._windows.values():
                windows.drop()
            self._windows.clear()

    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""
        return Capabilities(
            pools=frozenset({"plain", "window"}),
            dtypes=frozenset(TORCH_DTYPES),
            reduce_ops=frozenset({"sum", "avg"}),
            capture=False,
            asynchronous=False,
            coalescing="emulated",
            process_group="cpu_window",
        )

    def _num_communicators(self) -> int:
        return 0

    # Memory

    def _allocate(self, count: int, *, dtype: str, pool: PoolKind, owner: str) -> tuple[int, torch.Tensor]:
        if pool != "window":
            return super()._allocate(count, dtype=dtype, pool=pool, owner=owner)
        num_bytes = count * DTYPES[dtype].size_bytes
        allocation, memory = self._window_pool(owner).alloc(count, dtype=dtype, num_bytes=num_bytes)
        return allocation, _as_tensor(memory, count=count, dtype=dtype)

    def _window_pool(self, owner: str) -> WindowPool:
        return self._windows.setdefault(owner, WindowPool(self.context, self._rendezvous))

    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        """Compare allocations across ranks, then map those of the peers. Collective.

        Raises:
            RunError: ranks allocated differently.
        """
        if pool != "window":
            return super().register(pool, owner=owner)
        windows = self._window_pool(owner)
        lasted_us = windows.register()
        self._views[owner] = [
            [
                _as_tensor(windows.of(rank, allocation), count=count, dtype=dtype)
                for allocation, (dtype, count) in enumerate(windows.described)
            ]
            for rank in range(self.context.num_ranks)
        ]
        return lasted_us

    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        """Unmap the peers' memory and forget this rank's, freed with its last view. Collective."""
        if pool != "window":
            return super().release(pool, owner=owner)
        self._views.pop(owner, None)
        return self._window_pool(owner).release()

    def memory(self) -> MemoryState:
        """Accounting of this rank. Local."""
        plain, pools = super().memory(), [windows for windows in self._windows.values() if len(windows)]
        registered = [windows for windows in pools if windows.is_registered]
        return replace(
            plain,
            buffers_bytes=plain.buffers_bytes + sum(windows.num_bytes for windows in pools),
            registered_bytes=sum(windows.num_bytes for windows in registered),
            num_windows=sum(len(windows) for windows in registered),
            num_pools=plain.num_pools + len(pools),
        )

    def _peer(self, buffer: Buffer, rank: int, offset: int, count: int) -> torch.Tensor:
        """Elements [offset, offset + count) of the allocation `buffer` lies in, on another rank."""
        if buffer.pool != "window":
            raise UnsupportedError(
                "cpu_window pulls from the peers' send buffers: allocate them in the window pool", code="pool"
            )
        if buffer.owner not in self._views:
            raise RunError("the window pool is not registered: call register('window') before its first collective")
        return self._views[buffer.owner][rank][buffer.allocation][offset : offset + count]

    # Work

    def barrier(self, queue: Any) -> None:
        """Line the ranks up. Collective."""
        self._barrier.wait()

    @property
    def alignment(self) -> str:
        """What `barrier` uses, for the record."""
        return "shared_memory_barrier"

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order. In place: send is recv's own part."""
        self._enter()
        share, rank = send.count, self.context.rank
        in_place = _is_part(send, recv, rank * share)
        # In place the peers' parts lie where they go; otherwise at the same offset on every rank.
        step = share if in_place else 0
        base = send.offset - rank * step
        sources = [(peer, self._peer(send, peer, base + peer * step, share)) for peer in self._others(own=not in_place)]
        self._barrier.wait()
        for peer, source in sources:
            recv.handle[peer * share : (peer + 1) * share].copy_(source)
        self._barrier.wait()

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, reduced. In place: recv is send's own part."""
        self._enter(op, dtype=send.dtype)
        share = recv.count
        base = send.offset + self.context.rank * share
        sources = [self._peer(send, peer, base, share) for peer in self._order]
        self._barrier.wait()
        self._reducer.reduce(recv.handle, sources, average=op == "avg")
        self._barrier.wait()

    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Reduce in place over all ranks: each reduces its part of all buffers, then pulls the other parts."""
        self._enter(op, dtype=buffer.dtype)
        num_ranks, rank = self.context.num_ranks, self.context.rank
        edges = [buffer.count * part // num_ranks for part in range(num_ranks + 1)]
        first, count = edges[rank], edges[rank + 1] - edges[rank]
        sources = [self._peer(buffer, peer, buffer.offset + first, count) for peer in self._order]
        self._barrier.wait()
        # Nobody else reads or writes this part of this rank's buffer until the next barrier.
        self._reducer.reduce(buffer.handle[first : first + count], sources, average=op == "avg")
        self._barrier.wait()
        for peer in self._others(own=False):
            part = slice(edges[peer], edges[peer + 1])
            source = self._peer(buffer, peer, buffer.offset + part.start, part.stop - part.start)
            buffer.handle[part].copy_(source)
        self._barrier.wait()

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
        error = self._splits.expected(recv.count, recv_splits, tables=tables)
        if error is None:
            arriving = [table[rank] for table in tables]
            for peer in self._order:
                source = self._peer(send, peer, send.offset + sum(tables[peer][:rank]), arriving[peer])
                place = sum(arriving[:peer])
                recv.handle[place : place + arriving[peer]].copy_(source)
        # Before any error, so that the peers are not left waiting.
        self._barrier.wait()
        if error is not None:
            raise error

    def _others(self, *, own: bool) -> list[int]:
        """Ranks in this rank's order, with or without itself."""
        return self._order if own else self._order[1:]

    # Evidence

    def witness(self) -> Witness:
        """Peers whose windows are mapped now and, on one rank a node, bytes sent by its interfaces. Local."""
        return Witness(counters={"peer_mappings": mapped_peers(self.context), **witness_counters(self.context)})

    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        """Bytes that the peers load from this rank's memory for one operation; none of them cross an interface. Local.

        All parts but this rank's own; an all-reduce also loads the reduced parts.
        """
        rounds = 2 if collective == "all_reduce" else 1
        return rounds * total_bytes * (self.context.num_ranks - 1) // self.context.num_ranks


def _as_tensor(memory: Memory, *, count: int, dtype: str) -> torch.Tensor:
    if count == 0:
        return torch.empty(0, dtype=TORCH_DTYPES[dtype])
    return torch.frombuffer(memory, dtype=TORCH_DTYPES[dtype], count=count)


def _is_part(inner: Buffer, outer: Buffer, start: int) -> bool:
    """Whether `inner` begins at element `start` of `outer`, in the same memory."""
    same = (inner.pool, inner.owner, inner.allocation) == (outer.pool, outer.owner, outer.allocation)
    return same and inner.offset == outer.offset + start
