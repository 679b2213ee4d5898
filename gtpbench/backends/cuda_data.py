"""Generated data on a CUDA device: made, compared and reduced there, chunk by chunk. See `generated` for CPUs."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

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
_Other = TypeVar("_Other")
_CHUNK = 1 << 24
"""Elements at a time: a chunk's int64 and fp64 temporaries take some hundred MiB."""


def fill(items: Sequence[tuple[Buffer, int]], *, kind: DataKind, start: int, rank: int, num_ranks: int) -> None:
    """Write a rank's generated data, elements [start, start + count) of the pattern, into (buffer, seed)."""
    for batch in _batches(items, lambda item: (item[0].dtype, item[0].count)):
        buffers, seeds = [buffer for buffer, _ in batch], [seed for _, seed in batch]
        require_kind(buffers[0].dtype, kind)
        for first, last in _chunks(buffers[0].count):
            run = Source(rank=rank, start=start + first, count=last - first)
            made = _generate(run, seeds=seeds, kind=kind, num_ranks=num_ranks, device=buffers[0].handle.device)
            for buffer, row in zip(buffers, made, strict=True):
                buffer.handle[first:last].copy_(row)


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
    for batch in _batches(pairs, lambda pair: (pair[0].dtype, pair[0].count, replace(pair[1], seed=0))):
        handles = [buffer.handle for buffer, _ in batch]
        for first, expected in _expected_runs(batch, num_ranks=num_ranks):
            found = torch.stack([handle[first : first + expected.shape[1]] for handle in handles])
            error = (found.to(torch.float64) - expected).abs_().flatten()
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


def _expected_runs(batch: Sequence[tuple[Buffer, Reference]], *, num_ranks: int) -> Iterator[tuple[int, torch.Tensor]]:
    """(first element, fp64 values [buffer, element]) of runs that together are what the buffers must hold.

    Raises:
        UsageError: the reference is of another length.
    """
    buffer, reference = batch[0]
    described = sum(piece[0].count for piece in reference.pieces)
    if described != buffer.count:
        raise UsageError(f"the reference describes {described} elements, the buffer has {buffer.count}")
    seeds, place = [each.seed for _, each in batch], 0
    for piece in reference.pieces:
        for first, last in _chunks(piece[0].count):
            runs = [Source(rank=each.rank, start=each.start + first, count=last - first) for each in piece]
            yield (
                place + first,
                _reduced(runs, reference, seeds=seeds, num_ranks=num_ranks, like=buffer.handle),
            )
        place += piece[0].count


def flip(buffer: Buffer, index: int, *, num_ranks: int) -> None:
    """Change one element by more than any tolerance."""
    element = buffer.handle[index : index + 1]
    if buffer.dtype in _NAN_BYTE:
        element.view(torch.uint8).bitwise_xor_(0x40)
    elif element.is_floating_point():
        element += flip_amount(num_ranks)
    else:
        element ^= 1


def _reduced(
    runs: Sequence[Source], reference: Reference, *, seeds: Sequence[int], num_ranks: int, like: torch.Tensor
) -> torch.Tensor:
    """The runs reduced in fp64, each rounded to the buffer's type as `fill` stored it; [seed, element]."""
    total = torch.zeros(len(seeds), runs[0].count, dtype=torch.float64, device=like.device)
    for run in runs:
        made = _generate(run, seeds=seeds, kind=reference.kind, num_ranks=num_ranks, device=like.device)
        total += made.to(like.dtype).to(torch.float64)
    return total / len(runs) if reference.op == "avg" else total


def _generate(
    source: Source, *, seeds: Sequence[int], kind: DataKind, num_ranks: int, device: torch.device
) -> torch.Tensor:
    """[seed, element]"""
    index = torch.arange(source.start, source.start + source.count, dtype=torch.int64, device=device)
    column = torch.tensor(seeds, dtype=torch.int64, device=device).unsqueeze(1)
    made: torch.Tensor = values(pattern(index, seed=column, rank=source.rank), kind=kind, num_ranks=num_ranks)
    return made


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, _CHUNK):
        yield first, min(first + _CHUNK, count)


def _batches(
    items: Sequence[tuple[Buffer, _Other]], alike: Callable[[tuple[Buffer, _Other]], Hashable]
) -> Iterator[Sequence[tuple[Buffer, _Other]]]:
    """Runs of items that are alike and together no longer than a chunk: small buffers are launch-bound one by one."""
    for _, group in groupby(items, key=alike):
        left = list(group)
        size = max(1, _CHUNK // max(1, left[0][0].count))
        for first in range(0, len(left), size):
            yield left[first : first + size]
