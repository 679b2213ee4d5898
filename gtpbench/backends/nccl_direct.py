"""An nccl4py communicator: NCCL without a process group. It tells of windows that NCCL did not make."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from gtpbench.backends.base import Buffer, Capabilities, RankContext
from gtpbench.backends.cuda_data import CUDA_DTYPES
from gtpbench.backends.cuda_torch import CudaPool, TorchCudaBackend
from gtpbench.collectives import ReduceOp
from gtpbench.errors import UnsupportedError


class NcclDirectBackend(TorchCudaBackend):
    """One communicator of all ranks of the set."""

    name = "nccl_direct"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._nccl: Any = None
        self._torch_memory: Any = None
        self._communicator: Any = None

    # Life

    def _connect(self) -> None:
        try:
            import nccl.core
            import nccl.core.interop.torch as torch_memory
        except ImportError as error:
            raise UnsupportedError(f"nccl_direct needs nccl4py: {error}", code="nccl4py") from error
        self._nccl, self._torch_memory = nccl.core, torch_memory
        own = bytes(nccl.core.get_unique_id()) if self.context.rank == 0 else b""
        identity = nccl.core.UniqueId.from_bytes(self._rendezvous.gather("unique id", own)[0])
        config = nccl.core.NCCLConfig()
        if self.context.cta_policy == "zero":
            config = nccl.core.NCCLConfig(cta_policy=nccl.core.CTAPolicy.ZERO)
        self._communicator = nccl.core.Communicator.init(
            self.context.num_ranks, self.context.rank, identity, config=config
        )

    def _disconnect(self) -> None:
        self._communicator.finalize()
        self._communicator.destroy()
        self._communicator = None

    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""
        return Capabilities(
            pools=frozenset({"plain", "mem_alloc", "registered", "window"}),
            dtypes=frozenset(CUDA_DTYPES),
            reduce_ops=frozenset({"sum", "avg"}),
            capture=True,
            asynchronous=True,
            coalescing="grouped",
            process_group="nccl4py communicator",
        )

    # Memory

    def _allocate(self, pool: CudaPool, count: int, *, dtype: torch.dtype) -> torch.Tensor:
        if pool.kind == "plain":
            return torch.empty(count, dtype=dtype, device=self._device)
        made: torch.Tensor = self._torch_memory.empty(count, dtype=dtype, device=self._device)
        return made

    def _register(self, pool: CudaPool) -> None:
        for tensor in pool.tensors:
            if pool.kind == "registered":
                pool.handles.append(self._communicator.register_buffer(tensor))
                continue
            handle = self._communicator.register_window(tensor, flags=self._nccl.WindowFlag.COLL_SYMMETRIC)
            # NCCL reports success and gives NULL where it supports no windows.
            pool.num_null += int(handle.handle == 0)
            pool.handles.append(handle)

    def _deregister(self, pool: CudaPool) -> None:
        for handle in pool.handles:
            handle.close()
        pool.handles.clear()

    # Work

    def _reduce_one(self, tensor: torch.Tensor, queue: Any) -> None:
        self._communicator.allreduce(tensor, tensor, self._nccl.NcclRedOp.SUM, stream=queue.cuda_stream)

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order. In place: send is recv's own part."""
        self._enter(queue)
        self._communicator.allgather(send.handle, recv.handle, stream=queue.cuda_stream)

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, reduced. In place: recv is send's own part."""
        self._enter(queue)
        self._communicator.reduce_scatter(send.handle, recv.handle, self._op(op), stream=queue.cuda_stream)

    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Reduce in place over all ranks."""
        self._enter(queue)
        self._communicator.allreduce(buffer.handle, buffer.handle, self._op(op), stream=queue.cuda_stream)

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
        self._enter(queue)
        if send_splits is None and recv_splits is None:
            self._communicator.alltoall(send.handle, recv.handle, stream=queue.cuda_stream)
            return
        outgoing = self._parts(send, send_splits)
        incoming = self._parts(recv, recv_splits)
        with self._nccl.group():
            for peer in range(self.context.num_ranks):
                if outgoing[peer].numel():
                    self._communicator.send(outgoing[peer], peer, stream=queue.cuda_stream)
                if incoming[peer].numel():
                    self._communicator.recv(incoming[peer], peer, stream=queue.cuda_stream)

    def coalesce(self, queue: Any) -> AbstractContextManager[None]:
        """Collectives issued inside form one NCCL group."""
        self._use(queue)
        manager: AbstractContextManager[None] = self._nccl.group()
        return manager

    def _parts(self, buffer: Buffer, splits: Sequence[int] | None) -> Sequence[torch.Tensor]:
        sizes = (
            list(splits) if splits is not None else [buffer.count // self.context.num_ranks] * self.context.num_ranks
        )
        parts: Sequence[torch.Tensor] = buffer.handle.split(sizes)
        return parts

    def _op(self, op: ReduceOp) -> Any:
        return self._nccl.NcclRedOp.AVG if op == "avg" else self._nccl.NcclRedOp.SUM
