"""torch.distributed's NCCL process group: what Megatron runs. Supports torch 2.9 to 2.15.

Names that differ between torch versions are resolved once, in `open`.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gtpbench.backends import nccl_memory
from gtpbench.backends.base import Buffer, Capabilities, RankContext
from gtpbench.backends.cuda_data import CUDA_DTYPES
from gtpbench.backends.cuda_torch import CudaPool, TorchCudaBackend
from gtpbench.backends.gloo import StoreExchange
from gtpbench.collectives import ReduceOp
from gtpbench.errors import RunError, UnsupportedError

_CTA_POLICY_ZERO = 2
"""ncclConfig_t's value; torch names it NCCL_CTA_POLICY_ZERO from 2.11 on."""


class NcclTorchBackend(TorchCudaBackend):
    """The default process group with NCCL. One instance is open at a time in a process."""

    name = "nccl_torch"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._gather: Callable[..., Any]
        self._scatter: Callable[..., Any]
        self._group: Any = None
        self._implementation = "ProcessGroupNCCL"

    # Life

    def _connect(self) -> None:
        context = self.context
        if not isinstance(context.exchange, StoreExchange):
            raise UnsupportedError("NCCL meets in a c10d store: the exchange must be a TcpExchange", code="exchange")
        # The names changed in torch 2.13, and the old ones warn there. Both write a single tensor.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")
        with self._explained("init_process_group"):
            dist.init_process_group(
                "nccl",
                store=dist.PrefixStore(self._rendezvous.namespace, context.exchange.store),
                rank=context.rank,
                world_size=context.num_ranks,
                timeout=timedelta(seconds=context.timeout_s),
                pg_options=self._options(),
                device_id=self._device,
            )
        group = dist.group.WORLD
        assert group is not None, "init_process_group made it"
        self._group = group._get_backend(self._device)
        self._implementation = type(self._group).__name__

    def _options(self) -> Any:
        """Communicator settings; None where the defaults do.

        Raises:
            UnsupportedError: this torch cannot set the CTA policy.
        """
        if self.context.cta_policy == "default":
            return None
        options = dist.ProcessGroupNCCL.Options()
        if not hasattr(options.config, "cta_policy"):
            raise UnsupportedError(f"torch {torch.__version__} cannot set the CTA policy", code="cta_policy")
        options.config.cta_policy = _CTA_POLICY_ZERO
        options._timeout = timedelta(seconds=self.context.timeout_s)
        return options

    def _disconnect(self) -> None:
        self._group = None
        dist.destroy_process_group()

    def capabilities(self) -> Capabilities:
        """What this backend can do. Local."""
        return Capabilities(
            pools=frozenset({"plain", "mem_alloc", "registered", "window"}),
            dtypes=frozenset(CUDA_DTYPES),
            reduce_ops=frozenset({"sum", "avg"}),
            capture=True,
            asynchronous=True,
            coalescing="grouped",
            process_group=self._implementation,
        )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn torch's errors into ours, with the rank and the operation."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise RunError(f"set {self.context.set_id}, rank {self.context.rank}: nccl {what}: {first}") from error

    # Memory

    def _allocate(self, pool: CudaPool, count: int, *, dtype: torch.dtype) -> torch.Tensor:
        if pool.kind == "plain":
            return torch.empty(count, dtype=dtype, device=self._device)
        if pool.memory is None:
            pool.memory = nccl_memory.new_pool()
        with torch.cuda.use_mem_pool(pool.memory, device=self._device):
            return torch.empty(count, dtype=dtype, device=self._device)

    def _register(self, pool: CudaPool) -> None:
        if not hasattr(self._group, "register_mem_pool"):
            raise UnsupportedError(
                f"{self._implementation} of torch {torch.__version__} cannot register a memory pool: "
                "set TORCH_DIST_USE_NCCL2=0",
                code="register_mem_pool",
            )
        with self._explained(f"register_mem_pool, {pool.kind}"):
            self._group.register_mem_pool(pool.memory, symm=pool.kind == "window")

    def _deregister(self, pool: CudaPool) -> None:
        with self._explained(f"deregister_mem_pool, {pool.kind}"):
            self._group.deregister_mem_pool(pool.memory)

    # Work

    def _reduce_one(self, tensor: torch.Tensor, queue: Any) -> None:
        dist.all_reduce(tensor)

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        """recv = the ranks' `send` in rank order. In place: send is recv's own part."""
        self._enter(queue)
        self._gather(recv.handle, send.handle)

    def reduce_scatter(self, send: Buffer, recv: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """recv = part `rank` of the ranks' `send`, reduced. In place: recv is send's own part."""
        self._enter(queue)
        self._scatter(recv.handle, send.handle, op=_REDUCE_OPS[op])

    def all_reduce(self, buffer: Buffer, *, op: ReduceOp, queue: Any) -> None:
        """Reduce in place over all ranks."""
        self._enter(queue)
        dist.all_reduce(buffer.handle, op=_REDUCE_OPS[op])

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
        dist.all_to_all_single(
            recv.handle,
            send.handle,
            output_split_sizes=None if recv_splits is None else list(recv_splits),
            input_split_sizes=None if send_splits is None else list(send_splits),
        )

    def coalesce(self, queue: Any) -> AbstractContextManager[None]:
        """Collectives of one kind issued inside form one NCCL group, as Megatron groups them."""
        self._use(queue)
        manager: AbstractContextManager[None] = dist._coalescing_manager(device=self._device, async_ops=False)
        return manager


_REDUCE_OPS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG}
