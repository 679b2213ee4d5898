"""What backends of torch CPU tensors share: plain memory, data and its check, and scratch work to overlap with."""

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from gtpbench.backends.base import Buffer, CheckResult, MemoryState, PoolKind, RankContext, Witness
from gtpbench.backends.generated import Comparison, Float64s, chunks, flip_amount, generate, require_kind
from gtpbench.backends.interfaces import witness_counters
from gtpbench.backends.synchronous import SynchronousBackend
from gtpbench.collectives import DataKind, Reference, Source

TORCH_DTYPES: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "uint8": torch.uint8,
    "int32": torch.int32,
}
"""No fp8: gloo refuses it, and bytes that are only moved can be viewed as uint8."""

POISON_BYTE = 0xA5


class TorchCpuBackend(SynchronousBackend):
    """A synchronous backend whose buffers are torch CPU tensors and whose clock is the host's."""

    dtype_hint = "view the bytes as uint8"

    def __init__(self, context: RankContext) -> None:
        super().__init__(context)
        self._plain: dict[str, list[int]] = {}
        """[owner] -> bytes of each plain allocation."""
        self._scratch: dict[tuple[Any, ...], tuple[torch.Tensor, ...]] = {}

    # Memory

    def alloc(self, count: int, *, dtype: str, pool: PoolKind, owner: str = "") -> Buffer:
        """A buffer of `count` elements in the owner's pool.

        Raises:
            UnsupportedError: no such pool or dtype here.
        """
        self._require_pool(pool)
        self._require_dtype(dtype)
        allocation, handle = self._allocate(count, dtype=dtype, pool=pool, owner=owner)
        return Buffer(dtype=dtype, count=count, offset=0, allocation=allocation, pool=pool, owner=owner, handle=handle)

    def _allocate(self, count: int, *, dtype: str, pool: PoolKind, owner: str) -> tuple[int, torch.Tensor]:
        """Number and memory of a new allocation; here of the plain pool."""
        handle = torch.empty(count, dtype=TORCH_DTYPES[dtype])
        sizes = self._plain.setdefault(owner, [])
        sizes.append(handle.nbytes)
        return len(sizes) - 1, handle

    def register(self, pool: PoolKind, *, owner: str = "") -> float:
        """Nothing to register in plain memory."""
        self._require_pool(pool)
        return 0.0

    def release(self, pool: PoolKind, *, owner: str = "") -> float:
        """Forget the owner's plain buffers; each is freed with its last view."""
        self._require_pool(pool)
        self._plain.pop(owner, None)
        return 0.0

    def memory(self) -> MemoryState:
        """Accounting of this rank; free memory of a shared host says nothing. Local."""
        return MemoryState(
            buffers_bytes=sum(sum(sizes) for sizes in self._plain.values()),
            registered_bytes=0,
            free_bytes=None,
            num_communicators=self._num_communicators(),
            num_windows=0,
            num_pools=len(self._plain),
        )

    @abstractmethod
    def _num_communicators(self) -> int:
        """How many are alive."""

    # Time

    def record(self, queue: Any) -> Any:
        """Nanoseconds of the host's clock: all earlier work is done. Local."""
        return time.perf_counter_ns()

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Microseconds between two events. Local."""
        return float(end - start) / 1000.0

    # Data

    def fill(self, buffer: Buffer, *, seed: int, kind: DataKind, start: int = 0) -> None:
        """Write this rank's generated data, elements [start, start + count) of the pattern. Local."""
        require_kind(buffer.dtype, kind)
        num_ranks = self.context.num_ranks
        for first, last in chunks(buffer.count):
            run = Source(rank=self.context.rank, start=start + first, count=last - first)
            made = generate(run, seed=seed, kind=kind, num_ranks=num_ranks)
            buffer.handle[first:last].copy_(torch.from_numpy(made))

    def poison(self, buffer: Buffer) -> None:
        """Overwrite with NaN, or 0xA5 bytes in whole-number types. Local."""
        if buffer.handle.is_floating_point():
            buffer.handle.fill_(float("nan"))
        else:
            buffer.handle.view(torch.uint8).fill_(POISON_BYTE)

    def check(self, buffer: Buffer, reference: Reference, *, tolerance: float) -> CheckResult:
        """Compare with the fp64 reference; |difference| over `tolerance`, or NaN, is wrong. Local."""
        dtype = buffer.handle.dtype

        def read(first: int, last: int) -> Float64s:
            elements: Float64s = buffer.handle[first:last].to(torch.float64).numpy()
            return elements

        def rounded(exact: Float64s) -> Float64s:
            stored: Float64s = torch.from_numpy(exact).to(dtype).to(torch.float64).numpy()
            return stored

        comparison = Comparison(read=read, rounded=rounded, num_ranks=self.context.num_ranks)
        return comparison.check(reference, count=buffer.count, tolerance=tolerance)

    def flip(self, buffer: Buffer, index: int) -> None:
        """Change one element by more than any tolerance. Local."""
        if buffer.handle.is_floating_point():
            buffer.handle[index] += flip_amount(self.context.num_ranks)
        else:
            buffer.handle[index] ^= 1

    # Work

    def gemm(self, m: int, n: int, k: int, *, dtype: str, queue: Any) -> None:
        """An m x k by k x n matrix product on scratch operands made at first use. Local."""
        made = TORCH_DTYPES[dtype]
        left, right, out = self._operands(
            ("gemm", m, n, k, dtype),
            lambda: (torch.ones(m, k, dtype=made), torch.ones(k, n, dtype=made), torch.empty(m, n, dtype=made)),
        )
        torch.mm(left, right, out=out)

    def attention(self, *, tokens: int, heads: int, head_dim: int, dtype: str, queue: Any) -> None:
        """Causal self-attention over `tokens` on scratch operands. Local."""
        shape = (1, heads, tokens, head_dim)
        (x_BHTD,) = self._operands(
            ("attention", *shape, dtype), lambda: (torch.ones(shape, dtype=TORCH_DTYPES[dtype]),)
        )
        torch.nn.functional.scaled_dot_product_attention(x_BHTD, x_BHTD, x_BHTD, is_causal=True)

    def touch(self, num_bytes: int, *, queue: Any) -> None:
        """An element-wise pass that reads and writes `num_bytes` of scratch. Local."""
        (run,) = self._operands(("touch", num_bytes), lambda: (torch.ones(max(num_bytes // 4, 1)),))
        run.mul_(1.0)

    def _operands(self, key: tuple[Any, ...], make: Callable[[], tuple[torch.Tensor, ...]]) -> tuple[torch.Tensor, ...]:
        if key not in self._scratch:
            self._scratch[key] = make()
        return self._scratch[key]

    # Evidence

    def witness(self) -> Witness:
        """Bytes sent by the node's interfaces, on one rank a node. Local."""
        return Witness(counters=witness_counters(self.context))
