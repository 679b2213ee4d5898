"""torch.distributed's gloo on CPU ranks: what a CPU has in place of NCCL without registration."""

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

import torch.distributed as dist

from gtpbench.backends.base import Buffer, Capabilities, RankContext
from gtpbench.backends.rendezvous import Rendezvous
from gtpbench.backends.shared_memory import FlagBarrier
from gtpbench.backends.torch_cpu import TORCH_DTYPES, TorchCpuBackend
from gtpbench.collectives import ReduceOp
from gtpbench.errors import RunError, StageTimeout, UnsupportedError


@runtime_checkable
class StoreExchange(Protocol):
    """An exchange that lies in a c10d store."""

    store: Any


class GlooBackend(TorchCpuBackend):
    """The default process group with gloo. One instance is open at a time in a process."""

    name = "gloo"
    pool_hint = "gloo sends from any memory; cpu_window has windows"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._barrier: FlagBarrier | None = None
        self._is_open = False
        self._gather: Callable[..., Any]
        self._scatter: Callable[..., Any]

    # Life

    def open(self) -> None:
        """Meet the other ranks and make the process group. Collective.

        Raises:
            StageTimeout: not all ranks came.
            UnsupportedError: the exchange has no store.
        """
        if self._is_open:
            return
        context = self.context
        if not isinstance(context.exchange, StoreExchange):
            raise UnsupportedError("gloo meets in a c10d store: the exchange must be a TcpExchange", code="exchange")
        # The names changed in torch 2.13, and the old ones warn there. Both write a single tensor.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        rendezvous = Rendezvous(context, name=self.name)
        # Before gloo does, because this says who is missing.
        rendezvous.gather("open")
        with self._explained("open"):
            dist.init_process_group(
                "gloo",
                store=dist.PrefixStore(rendezvous.namespace, context.exchange.store),
                rank=context.rank,
                world_size=context.num_ranks,
                timeout=timedelta(seconds=context.timeout_s),
            )
        self._is_open = True
        if context.num_nodes == 1 and platform.machine() == "x86_64":
            self._barrier = FlagBarrier(rendezvous, context)

    def close(self) -> None:
        """Forget buffers and leave the process group. Collective when open."""
        self._plain.clear()
        self._scratch.clear()
        self._barrier = None
        if self._is_open:
            self._is_open = False
            dist.destroy_process_group()

    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""
        return Capabilities(
            pools=frozenset({"plain"}),
            dtypes=frozenset(TORCH_DTYPES),
            reduce_ops=frozenset({"sum"}),
            capture=False,
            asynchronous=False,
            coalescing="emulated",
            process_group="gloo",
        )

    def _num_communicators(self) -> int:
        return int(self._is_open)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn gloo's bare RuntimeError into ours."""
        try:
            yield
        except RuntimeError as error:
            place = f"set {self.context.set_id}, rank {self.context.rank}: gloo {what}"
            if "timed out" in str(error).lower() or "timeout" in str(error).lower():
                raise StageTimeout(f"{place}: not all ranks came within {self.context.timeout_s:g} s") from error
            raise RunError(f"{place}: {error}") from error

    # Work

    def barrier(self, queue: Any) -> None:
        """Line the ranks up. Collective."""
        if self._barrier is not None:
            self._barrier.wait()
            return
        with self._explained("barrier"):
            dist.barrier()

    @property
    def alignment(self) -> str:
        """What `barrier` uses, for the record."""
        return "collective_barrier" if self._barrier is None else "shared_memory_barrier"

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order. In place: send is recv's own part."""
        self._enter()
        with self._explained("all_gather"):
            self._gather(recv.handle, send.handle)

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, summed. In place: recv is send's own part.

        Raises:
            UnsupportedError: an average.
        """
        self._enter(op)
        with self._explained("reduce_scatter"):
            self._scatter(recv.handle, send.handle)

    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Sum in place over all ranks.

        Raises:
            UnsupportedError: an average.
        """
        self._enter(op)
        with self._explained("all_reduce"):
            dist.all_reduce(buffer.handle)

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
        self._enter()
        with self._explained("all_to_all"):
            dist.all_to_all_single(
                recv.handle,
                send.handle,
                output_split_sizes=None if recv_splits is None else list(recv_splits),
                input_split_sizes=None if send_splits is None else list(send_splits),
            )

    # Evidence

    def wire_bytes(self, collective: str, total_bytes: int) -> int:
        """Bytes this rank sends for one operation, as counted on the interfaces. Local.

        A ring passes on all parts but one. torch makes the reduce-scatter from an all-reduce, which goes round twice.
        """
        rounds = 2 if collective in {"reduce_scatter", "all_reduce"} else 1
        return rounds * total_bytes * (self.context.num_ranks - 1) // self.context.num_ranks
