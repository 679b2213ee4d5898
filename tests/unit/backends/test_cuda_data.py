"""Generated data of the CUDA backends, on CPU tensors: the same code, and the same data as the CPU backends'."""

import numpy as np
import pytest
import torch

from gtpbench.backends import cuda_data
from gtpbench.backends.base import Buffer
from gtpbench.backends.generated import generate
from gtpbench.collectives import COLLECTIVES, Reference, Source, reference
from gtpbench.errors import UsageError


def _buffer(count: int, dtype: str) -> Buffer:
    handle = torch.zeros(count, dtype=cuda_data.CUDA_DTYPES[dtype])
    return Buffer(dtype=dtype, count=count, offset=0, allocation=0, pool="plain", owner="", handle=handle)


def _check(buffers: list[Buffer], references: list[Reference], *, tolerance: float = 0.0, num_ranks: int = 2):  # type: ignore[no-untyped-def]
    pairs = list(zip(buffers, references, strict=True))
    return cuda_data.check(pairs, tolerance=tolerance, num_ranks=num_ranks, device=torch.device("cpu"))


def _gathered(seed: int, *, count: int = 1000) -> Reference:
    return reference(
        COLLECTIVES["all_gather"], rank=0, num_ranks=2, total_count=count, seed=seed, kind="integers", op="sum"
    )


@pytest.mark.parametrize("chunk", [64, 1 << 24])
@pytest.mark.parametrize("kind", ["integers", "uniform"])
def test_the_data_is_that_of_the_cpu_backends(kind: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is made together, and in whatever chunks."""
    monkeypatch.setattr(cuda_data, "_CHUNK", chunk)
    items = [(_buffer(count, "fp64"), seed) for seed, count in enumerate((100, 100, 100, 7, 100))]
    cuda_data.fill(items, kind=kind, start=5, rank=3, num_ranks=4)  # type: ignore[arg-type]
    for buffer, seed in items:
        expected = generate(Source(rank=3, start=5, count=buffer.count), seed=seed, kind=kind, num_ranks=4)  # type: ignore[arg-type]
        np.testing.assert_array_equal(buffer.handle.numpy(), expected)


@pytest.mark.parametrize("chunk", [64, 1 << 24])
def test_wrong_elements_are_counted_over_all_buffers(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three right buffers, then one element off by 8 in the second: error 8, squares 64, one wrong of 3000."""
    monkeypatch.setattr(cuda_data, "_CHUNK", chunk)
    buffers, references = [_buffer(1000, "fp32") for _ in range(3)], [_gathered(seed) for seed in range(3)]
    for seed, buffer in enumerate(buffers):
        for rank in range(2):
            half = Buffer(
                dtype="fp32", count=500, offset=0, allocation=0, pool="plain", owner="",
                handle=buffer.handle[rank * 500 : (rank + 1) * 500],
            )  # fmt: skip
            cuda_data.fill([(half, seed)], kind="integers", start=0, rank=rank, num_ranks=2)
    assert _check(buffers, references).num_wrong == 0
    cuda_data.flip(buffers[1], 700, num_ranks=2)
    found = _check(buffers, references)
    assert (found.num_wrong, found.num_checked, found.max_error, found.sum_squared_error) == (1, 3000, 8.0, 64.0)


@pytest.mark.parametrize("dtype", sorted(cuda_data.CUDA_DTYPES))
def test_poison_is_wrong_everywhere_and_in_no_error(dtype: str) -> None:
    """Also in the types of 8 bits, which have no fill."""
    buffer = _buffer(1000, dtype)
    cuda_data.poison(buffer)
    found = _check([buffer], [_gathered(1)])
    assert found.num_wrong == 1000
    assert np.isfinite(found.max_error)


def test_sums_are_of_rounded_inputs() -> None:
    """Two ranks' bf16 values, added in fp64 and rounded to bf16, differ by at most half a unit in the last place."""
    scattered = reference(
        COLLECTIVES["reduce_scatter"], rank=1, num_ranks=2, total_count=512, seed=9, kind="uniform", op="sum"
    )
    parts = []
    for rank in range(2):
        send = _buffer(512, "bf16")
        cuda_data.fill([(send, 9)], kind="uniform", start=0, rank=rank, num_ranks=2)
        parts.append(send.handle[256:].to(torch.float64))
    recv = _buffer(256, "bf16")
    recv.handle.copy_(parts[0] + parts[1])
    found = _check([recv], [scattered], tolerance=2.0**-8)
    assert (found.num_wrong, found.num_checked) == (0, 256)
    assert 0 < found.max_error <= 2.0**-8


def test_a_reference_of_another_length_is_refused() -> None:
    """Before anything is compared."""
    with pytest.raises(UsageError, match="1000 elements, the buffer has 10"):
        _check([_buffer(10, "fp32")], [_gathered(0)])


@pytest.mark.parametrize("dtype", sorted(cuda_data.CUDA_DTYPES))
def test_a_flipped_element_is_wrong_in_every_type(dtype: str) -> None:
    """Wherever it is; what was filled is right before."""
    buffer = _buffer(1000, dtype)
    wanted = Reference(pieces=((Source(rank=0, start=0, count=1000),),), seed=4, kind="integers")
    for index in (0, 500, 999):
        cuda_data.fill([(buffer, 4)], kind="integers", start=0, rank=0, num_ranks=2)
        assert _check([buffer], [wanted]).num_wrong == 0
        cuda_data.flip(buffer, index, num_ranks=2)
        assert _check([buffer], [wanted]).num_wrong == 1


def test_an_average_is_the_sum_over_the_ranks() -> None:
    """And what is not a number, or not finite, is wrong and in neither figure: 0.5 and 2 off make 2 and 4.25."""
    runs = tuple(Source(rank=rank, start=0, count=100) for rank in range(2))
    wanted = Reference(pieces=(runs,), seed=4, kind="integers", op="avg")
    first, second, mean = (_buffer(100, "fp32") for _ in range(3))
    for rank, buffer in enumerate((first, second)):
        cuda_data.fill([(buffer, 4)], kind="integers", start=0, rank=rank, num_ranks=2)
    mean.handle.copy_((first.handle + second.handle) / 2)
    assert _check([mean], [wanted]).num_wrong == 0
    mean.handle[3] += 0.5
    mean.handle[70] -= 2.0
    mean.handle[[4, 5]] = torch.tensor([float("nan"), float("inf")])
    found = _check([mean], [wanted])
    assert (found.num_wrong, found.max_error, found.sum_squared_error) == (4, 2.0, 4.25)
    assert _check([mean], [wanted], tolerance=0.5).num_wrong == 3


def test_fractions_do_not_go_into_whole_numbers() -> None:
    """As on CPU ranks."""
    with pytest.raises(UsageError, match="uint8"):
        cuda_data.fill([(_buffer(10, "uint8"), 0)], kind="uniform", start=0, rank=0, num_ranks=2)
