"""Generated data on a CUDA device: made, compared and reduced there, chunk by chunk. See `generated` for CPUs."""

from collections.abc import Iterator, Sequence

import torch

from gtpbench.backends.base import Buffer, CheckResult
from gtpbench.backends.generated import flip_amount, require_kind
from gtpbench.collectives import DataKind, Reference, Source, pattern, values
from gtpbench.errors import UsageError

CUDA_DTYPES: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "uint8": torch.uint8,
    "int32": torch.int32,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
POISON_BYTE = 0xA5
_NAN_BYTE = {"fp8_e4m3": 0x7F, "fp8_e5m2": 0x7F}
"""fp8 types have no fill; these bytes are NaN in them."""
_CHUNK = 1 << 24
"""Elements at a time: a chunk's int64 and fp64 temporaries take some hundred MiB."""


def fill(buffer: Buffer, *, seed: int, kind: DataKind, start: int, rank: int, num_ranks: int) -> None:
    """Write a rank's generated data, elements [start, start + count) of the pattern."""
    require_kind(buffer.dtype, kind)
    for first, last in _chunks(buffer.count):
        run = Source(rank=rank, start=start + first, count=last - first)
        made = _generate(run, seed=seed, kind=kind, num_ranks=num_ranks, device=buffer.handle.device)
        buffer.handle[first:last].copy_(made)


def poison(buffer: Buffer) -> None:
    """Overwrite with NaN, or 0xA5 bytes in whole-number types."""
    if buffer.dtype in _NAN_BYTE:
        buffer.handle.view(torch.uint8).fill_(_NAN_BYTE[buffer.dtype])
    elif buffer.handle.is_floating_point():
        buffer.handle.fill_(float("nan"))
    else:
        buffer.handle.view(torch.uint8).fill_(POISON_BYTE)


def check(
    pairs: Sequence[tuple[Buffer, Reference]], *, tolerance: float, num_ranks: int, device: torch.device
) -> CheckResult:
    """Compare buffers with their fp64 references; what has no finite difference is wrong, and in no other figure."""
    num_wrong = torch.zeros((), dtype=torch.int64, device=device)
    largest, squares = (torch.zeros((), dtype=torch.float64, device=device) for _ in range(2))
    for buffer, reference in pairs:
        for first, expected in _expected_runs(buffer, reference, num_ranks=num_ranks):
            error = (buffer.handle[first : first + expected.numel()].to(torch.float64) - expected).abs_()
            num_wrong += (~(error <= tolerance)).sum()
            error.nan_to_num_(nan=0.0, posinf=0.0)
            largest = torch.maximum(largest, error.max())
            squares += torch.dot(error, error)
    return CheckResult(
        num_wrong=int(num_wrong),
        num_checked=sum(buffer.count for buffer, _ in pairs),
        max_error=float(largest),
        sum_squared_error=float(squares),
    )


def _expected_runs(buffer: Buffer, reference: Reference, *, num_ranks: int) -> Iterator[tuple[int, torch.Tensor]]:
    """(first element, fp64 values) of runs that together are what the buffer must hold.

    Raises:
        UsageError: the reference is of another length.
    """
    place = 0
    for piece in reference.pieces:
        for first, last in _chunks(piece[0].count):
            yield (
                place + first,
                _expected(piece, first, last, reference=reference, num_ranks=num_ranks, like=buffer.handle),
            )
        place += piece[0].count
    if place != buffer.count:
        raise UsageError(f"the reference describes {place} elements, the buffer has {buffer.count}")


def flip(buffer: Buffer, index: int, *, num_ranks: int) -> None:
    """Change one element by more than any tolerance."""
    element = buffer.handle[index : index + 1]
    if buffer.dtype in _NAN_BYTE:
        element.view(torch.uint8).bitwise_xor_(0x40)
    elif element.is_floating_point():
        element += flip_amount(num_ranks)
    else:
        element ^= 1


def _expected(
    piece: tuple[Source, ...], first: int, last: int, *, reference: Reference, num_ranks: int, like: torch.Tensor
) -> torch.Tensor:
    """The sources reduced in fp64, each rounded to the buffer's type as `fill` stored it."""
    total = torch.zeros(last - first, dtype=torch.float64, device=like.device)
    for source in piece:
        run = Source(rank=source.rank, start=source.start + first, count=last - first)
        made = _generate(run, seed=reference.seed, kind=reference.kind, num_ranks=num_ranks, device=like.device)
        total += made.to(like.dtype).to(torch.float64)
    return total / len(piece) if reference.op == "avg" else total


def _generate(source: Source, *, seed: int, kind: DataKind, num_ranks: int, device: torch.device) -> torch.Tensor:
    index = torch.arange(source.start, source.start + source.count, dtype=torch.int64, device=device)
    made: torch.Tensor = values(pattern(index, seed=seed, rank=source.rank), kind=kind, num_ranks=num_ranks)
    return made


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _CHUNK):
        yield first, min(first + _CHUNK, count)
