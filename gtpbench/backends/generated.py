"""Generated data as NumPy arrays: what buffers are filled with, and the comparison with the fp64 reference."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gtpbench.backends.base import CheckResult
from gtpbench.collectives import DTYPES, DataKind, Reference, Source, pattern, values
from gtpbench.errors import UsageError

Float64s: TypeAlias = npt.NDArray[np.float64]

CHUNK = 1 << 17
"""Elements at a time: the int64 and fp64 temporaries of one chunk stay in the cache, whatever the buffer's size."""


def chunks(count: int) -> Iterator[tuple[int, int]]:
    """[first, last) of consecutive chunks of `count` elements."""
    for first in range(0, count, CHUNK):
        yield first, min(first + CHUNK, count)


def generate(source: Source, *, seed: int, kind: DataKind, num_ranks: int) -> Float64s:
    """The run of data `source` describes, before rounding to a buffer's type."""
    index = np.arange(source.start, source.start + source.count, dtype=np.int64)
    made = values(pattern(index, seed=seed, rank=source.rank), kind=kind, num_ranks=num_ranks)
    return np.asarray(made, dtype=np.float64)


def require_kind(dtype: str, kind: DataKind) -> None:
    """Refuse data that a whole-number type cannot hold.

    Raises:
        UsageError: fractions asked for in a whole-number type.
    """
    if kind != "integers" and DTYPES[dtype].epsilon == 0.0:
        raise UsageError(f"{dtype} holds whole numbers: data kind must be 'integers', not {kind!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How to compare a buffer with its reference.

    Args:
        read: elements [first, last) of the buffer in fp64.
        rounded: values rounded to the buffer's type and back, as `fill` stored them.
        num_ranks: of the set.
    """

    read: Callable[[int, int], Float64s]
    rounded: Callable[[Float64s], Float64s]
    num_ranks: int

    def check(self, reference: Reference, *, count: int, tolerance: float) -> CheckResult:
        """Compare `count` elements, chunk by chunk.

        NaN, and anything else without a finite difference, is wrong and left out of the error's maximum and sum.
        """
        num_wrong, max_error, squares, place = 0, 0.0, 0.0, 0
        for piece in reference.pieces:
            for first, last in chunks(piece[0].count):
                expected = self._expected(piece, first, last, reference=reference)
                with np.errstate(invalid="ignore"):
                    error = np.abs(self.read(place + first, place + last) - expected)
                num_wrong += int(np.count_nonzero(~(error <= tolerance)))
                finite = error[np.isfinite(error)]
                max_error = max(max_error, float(finite.max(initial=0.0)))
                squares += float(finite @ finite)
            place += piece[0].count
        if place != count:
            raise UsageError(f"the reference describes {place} elements, the buffer has {count}")
        return CheckResult(num_wrong=num_wrong, num_checked=count, max_error=max_error, sum_squared_error=squares)

    def _expected(self, piece: tuple[Source, ...], first: int, last: int, *, reference: Reference) -> Float64s:
        runs = (Source(rank=source.rank, start=source.start + first, count=last - first) for source in piece)
        total = sum(
            self.rounded(generate(run, seed=reference.seed, kind=reference.kind, num_ranks=self.num_ranks))
            for run in runs
        )
        return np.asarray(total) / (len(piece) if reference.op == "avg" else 1)


def flip_amount(num_ranks: int) -> float:
    """What `flip` adds to a fraction: more than any tolerance of a sum over `num_ranks` values below 1."""
    return math.ldexp(1.0, (2 * num_ranks).bit_length())
