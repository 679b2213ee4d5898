"""What all backends share that run work before the call returns: queues in name only, slices, and refusals."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

from gtpbench.backends.base import Backend, KernelSeen, PoolKind, RankContext
from gtpbench.collectives import DTYPES, ReduceOp
from gtpbench.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class NamedQueue:
    """A queue in name only: whatever is put on it has run when the call returns."""

    name: str
    high_priority: bool = False


class SynchronousBackend(Backend):
    """A backend whose queues are always empty and whose buffers' handles are one-dimensional arrays."""

    pool_hint: str
    """What would provide the pools that this backend lacks."""
    dtype_hint: str
    """What would provide the element types that this backend lacks."""

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._num_operations = 0

    # Queues

    def queue(self, name: str, *, high_priority: bool = False) -> Any:
        """The queue with this name; priority means nothing where nothing runs later. Local."""
        return NamedQueue(name, high_priority)

    def wait(self, queue: Any, event: Any) -> None:
        """Nothing to do: the event has happened. Local."""

    def host_sync(self, queue: Any) -> None:
        """Nothing to do: the queue is empty. Local."""

    def coalesce(self, queue: Any) -> AbstractContextManager[None]:
        """Collectives inside run in order; nothing is grouped."""
        return nullcontext()

    # Memory

    def _require_pool(self, pool: PoolKind) -> None:
        if pool not in self.capabilities().pools:
            raise UnsupportedError(f"{self.name} has no {pool} pool: {self.pool_hint}", code="pool")

    def _require_dtype(self, dtype: str) -> None:
        if dtype not in self.capabilities().dtypes:
            raise UnsupportedError(f"{self.name} has no {dtype}: {self.dtype_hint}", code="dtype")

    # Collectives

    def _enter(self, op: ReduceOp = "sum", *, dtype: str = "fp32") -> None:
        """Tell the watchdog that a collective begins, and refuse reductions this backend lacks."""
        self._num_operations += 1
        self.context.mark(self._num_operations)
        if op == "sum":
            return
        if op not in self.capabilities().reduce_ops:
            raise UnsupportedError(f"{self.name} cannot reduce with {op}: use sum, or cpu_window", code="reduction")
        if DTYPES[dtype].epsilon == 0.0:
            raise UnsupportedError(f"the {op} of {dtype} is not a whole number: use sum", code="reduction")

    def capture(self, work: Callable[[], None], *, queue: Any) -> NoReturn:
        """Refuse: the host cannot replay.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{self.name} cannot capture: CUDA graphs of an nccl backend provide it", code="capture")

    def observe(self, replay: Any) -> tuple[KernelSeen, ...]:
        """Refuse: no kernels run.

        Raises:
            UnsupportedError: always.
        """
        raise self._no_kernels()

    def trace(self, work: Callable[[], None], *, queue: Any) -> tuple[KernelSeen, ...]:
        """Refuse: no kernels run.

        Raises:
            UnsupportedError: always.
        """
        raise self._no_kernels()

    def _no_kernels(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.name} runs no kernels: its evidence is `witness`; an nccl backend has kernel rows", code="kernels"
        )
