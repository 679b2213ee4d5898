"""The collectives: sizes per rank, busbw factor, reference result and the data they are checked with.

Pure. A size is always the total as nccl-tests counts it: the all-gather's output, the reduce-scatter's input.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from gtpbench.errors import UsageError

CollectiveName = Literal["all_gather", "reduce_scatter"]
ReduceOp = Literal["sum", "avg"]
DataKind = Literal["integers", "uniform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective of G ranks on a total of S bytes.

    `busbw_factor` follows nccl-tests' PERFORMANCE.md: (G-1)/G for both collectives, applied to algbw = S / time.
    """

    name: CollectiveName
    title: str
    reduces: bool

    def send_bytes(self, total_bytes: int, *, num_ranks: int) -> int:
        """Bytes of one rank's send buffer."""
        return total_bytes if self.reduces else total_bytes // num_ranks

    def recv_bytes(self, total_bytes: int, *, num_ranks: int) -> int:
        """Bytes of one rank's receive buffer."""
        return total_bytes // num_ranks if self.reduces else total_bytes

    def busbw_factor(self, num_ranks: int) -> Fraction:
        """What turns algbw into the rate each link must carry."""
        return Fraction(num_ranks - 1, num_ranks)


COLLECTIVES: dict[str, Collective] = {
    "all_gather": Collective(name="all_gather", title="all-gather", reduces=False),
    "reduce_scatter": Collective(name="reduce_scatter", title="reduce-scatter", reduces=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """An element type: its canonical name, size, and unit roundoff (0 for whole numbers)."""

    name: str
    size_bytes: int
    epsilon: float
    aliases: tuple[str, ...] = ()


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType(name="bf16", size_bytes=2, epsilon=2.0**-8, aliases=("bfloat16",)),
        DType(name="fp16", size_bytes=2, epsilon=2.0**-11, aliases=("half", "float16")),
        DType(name="fp32", size_bytes=4, epsilon=2.0**-24, aliases=("float", "float32")),
        DType(name="fp64", size_bytes=8, epsilon=2.0**-53, aliases=("double", "float64")),
        DType(name="uint8", size_bytes=1, epsilon=0.0),
        DType(name="int32", size_bytes=4, epsilon=0.0, aliases=("int",)),
        DType(name="fp8_e4m3", size_bytes=1, epsilon=2.0**-4, aliases=("f8e4m3",)),
        DType(name="fp8_e5m2", size_bytes=1, epsilon=2.0**-3, aliases=("f8e5m2",)),
    )
}


def dtype_named(text: str) -> DType:
    """The element type with this name or alias (nccl-tests' `-d` words are aliases).

    Raises:
        UsageError: no such type.
    """
    for dtype in DTYPES.values():
        if text == dtype.name or text in dtype.aliases:
            return dtype
    raise UsageError(f"unknown dtype {text!r}: one of {', '.join(DTYPES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A run of one rank's generated send data: elements [start, start + count) of rank `rank`."""

    rank: int
    start: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What a receive buffer must hold, as pieces of the ranks' generated inputs.

    `pieces` are concatenated; the sources inside one piece are reduced with `op` in fp64. `seed` and `kind` say
    which data `pattern` and `generate` made.
    """

    pieces: tuple[tuple[Source, ...], ...]
    seed: int
    kind: DataKind
    op: ReduceOp = "sum"


def reference(
    collective: Collective, *, rank: int, num_ranks: int, total_count: int, seed: int, kind: DataKind, op: ReduceOp
) -> Reference:
    """The result of `collective` on rank `rank` for `total_count` elements (a multiple of `num_ranks`)."""
    share = total_count // num_ranks
    if collective.reduces:
        pieces: tuple[tuple[Source, ...], ...] = (
            tuple(Source(rank=peer, start=rank * share, count=share) for peer in range(num_ranks)),
        )
    else:
        pieces = tuple((Source(rank=peer, start=0, count=share),) for peer in range(num_ranks))
    return Reference(pieces=pieces, seed=seed, kind=kind, op=op)


def pattern(index: Any, *, seed: Any, rank: int) -> Any:
    """A 32-bit hash of (seed, rank, element index), so that any range of any rank's data can be made anywhere.

    Args:
        index: int64 array of element numbers; NumPy or torch, only operators are used.
        seed: a whole number, or an int64 array of them that broadcasts with `index`.

    Returns:
        An int64 array of values in [0, 2^32). Multiply-xorshift finaliser in the manner of MurmurHash3.
    """
    mask = 0xFFFFFFFF
    x = (index * 0x9E3779B1 + ((seed * 0x85EBCA6B + rank * 0xC2B2AE35) & mask)) & mask
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & mask
    return x ^ (x >> 16)


def values(hashed: Any, *, kind: DataKind, num_ranks: int) -> Any:
    """Test data from hashes, before rounding to the buffer's type.

    `integers`: whole numbers from 0 to at most 7, fewer for many ranks, so that the sum over all ranks stays within
    255 and is exact in bf16 and uint8 (up to 255 ranks).
    `uniform`: multiples of 2^-23 in [-1, 1), which need rounding in every 16-bit type.
    """
    if kind == "integers":
        return hashed & max(1, 2 ** ((255 // num_ranks + 1).bit_length() - 1) - 1) & 7
    return (hashed & 0xFFFFFF) / 8388608.0 - 1.0


def tolerance(dtype: DType, *, num_ranks: int, kind: DataKind, reduces: bool, op: ReduceOp = "sum") -> float:
    """Largest allowed |result - fp64 reference| for data in [-1, 1).

    Copies and sums of small integers must be exact (0.0). Their average is exact only where G is a power of two;
    else rounding 1/G, its product with each value and each of the G - 1 additions, all of magnitude up to 7, is
    allowed for. A sum of G rounded values of magnitude under 1 may round at each of its G - 1 additions, each of
    magnitude under G: (G - 1) * G * epsilon bounds every summation order, and the average with it.
    """
    if not reduces:
        return 0.0
    if kind == "integers":
        is_exact = op == "sum" or num_ranks & (num_ranks - 1) == 0
        return 0.0 if is_exact else 7 * (num_ranks + 1) * dtype.epsilon
    return (num_ranks - 1) * num_ranks * dtype.epsilon
