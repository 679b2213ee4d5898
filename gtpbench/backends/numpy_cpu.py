"""Data of backends whose buffers are NumPy arrays, and its check. No torch."""

import numpy as np
import numpy.typing as npt

from gtpbench.backends.base import Buffer, CheckResult
from gtpbench.backends.generated import Comparison, Float64s, chunks, flip_amount, generate, require_kind
from gtpbench.backends.synchronous import SynchronousBackend
from gtpbench.collectives import DataKind, Reference, Source

NUMPY_DTYPES: dict[str, npt.DTypeLike] = {
    "fp32": np.float32,
    "fp64": np.float64,
    "uint8": np.uint8,
    "int32": np.int32,
}


class NumpyBackend(SynchronousBackend):
    """A synchronous backend whose buffers are one-dimensional NumPy arrays."""

    dtype_hint = "NumPy has no such type; gloo and cpu_window have bf16 and fp16"

    def fill(self, buffer: Buffer, *, seed: int, kind: DataKind, start: int = 0) -> None:
        """Write this rank's generated data, elements [start, start + count) of the pattern. Local."""
        require_kind(buffer.dtype, kind)
        for first, last in chunks(buffer.count):
            run = Source(rank=self.context.rank, start=start + first, count=last - first)
            buffer.handle[first:last] = generate(run, seed=seed, kind=kind, num_ranks=self.context.num_ranks)

    def poison(self, buffer: Buffer) -> None:
        """Overwrite with NaN, or 0xA5 bytes in whole-number types. Local."""
        if buffer.handle.dtype.kind == "f":
            buffer.handle.fill(np.nan)
        else:
            buffer.handle.view(np.uint8).fill(0xA5)

    def check(self, buffer: Buffer, reference: Reference, *, tolerance: float) -> CheckResult:
        """Compare with the fp64 reference; |difference| over `tolerance`, or NaN, is wrong. Local."""
        dtype = buffer.handle.dtype

        def read(first: int, last: int) -> Float64s:
            return np.asarray(buffer.handle[first:last], dtype=np.float64)

        def rounded(exact: Float64s) -> Float64s:
            return np.asarray(exact.astype(dtype), dtype=np.float64)

        comparison = Comparison(read=read, rounded=rounded, num_ranks=self.context.num_ranks)
        return comparison.check(reference, count=buffer.count, tolerance=tolerance)

    def flip(self, buffer: Buffer, index: int) -> None:
        """Change one element by more than any tolerance. Local."""
        if buffer.handle.dtype.kind == "f":
            buffer.handle[index] += flip_amount(self.context.num_ranks)
        else:
            buffer.handle[index] ^= 1
