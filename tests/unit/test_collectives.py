"""Collectives: sizes, reference results and tolerances, against NumPy."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from gtpbench.collectives import (
    COLLECTIVES,
    DTYPES,
    DataKind,
    ReduceOp,
    Reference,
    dtype_named,
    pattern,
    reference,
    tolerance,
    values,
)
from gtpbench.errors import UsageError

Array = npt.NDArray[np.float64]
RANKS = (1, 2, 3, 8)


def data_of(rank: int, count: int, *, seed: int, kind: DataKind, num_ranks: int) -> Array:
    """All of one rank's generated data."""
    hashed = pattern(np.arange(count, dtype=np.int64), seed=seed, rank=rank)
    return np.asarray(values(hashed, kind=kind, num_ranks=num_ranks), dtype=np.float64)


def evaluate(expected: Reference, inputs: list[Array]) -> Array:
    """The reference's pieces, reduced and put together as its docstring says."""
    pieces = []
    for piece in expected.pieces:
        runs = [inputs[source.rank][source.start : source.start + source.count] for source in piece]
        total = np.sum(runs, axis=0)
        pieces.append(total / len(runs) if expected.op == "avg" else total)
    return np.concatenate(pieces)


@pytest.mark.parametrize("num_ranks", RANKS)
def test_all_gather_reference_is_the_concatenation(num_ranks: int) -> None:
    """Every rank holds all ranks' data in rank order."""
    share = 5
    inputs = [data_of(rank, share, seed=3, kind="uniform", num_ranks=num_ranks) for rank in range(num_ranks)]
    for rank in range(num_ranks):
        made = reference(
            COLLECTIVES["all_gather"],
            rank=rank,
            num_ranks=num_ranks,
            total_count=share * num_ranks,
            seed=3,
            kind="uniform",
            op="sum",
        )
        np.testing.assert_array_equal(np.concatenate(inputs), evaluate(made, inputs))


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("num_ranks", RANKS)
def test_reduce_scatter_reference_is_the_own_part_of_the_sum(num_ranks: int, op: ReduceOp) -> None:
    """Rank r holds part r of the element-wise sum or mean over ranks."""
    total = 4 * num_ranks
    inputs = [data_of(rank, total, seed=9, kind="uniform", num_ranks=num_ranks) for rank in range(num_ranks)]
    reduced = np.sum(inputs, axis=0) if op == "sum" else np.mean(inputs, axis=0)
    for rank in range(num_ranks):
        made = reference(
            COLLECTIVES["reduce_scatter"],
            rank=rank,
            num_ranks=num_ranks,
            total_count=total,
            seed=9,
            kind="uniform",
            op=op,
        )
        np.testing.assert_allclose(reduced[4 * rank : 4 * rank + 4], evaluate(made, inputs), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("name", "send", "recv"), [("all_gather", 256, 1024), ("reduce_scatter", 1024, 256)])
def test_a_size_is_the_larger_buffer(name: str, send: int, recv: int) -> None:
    """The all-gather's output and the reduce-scatter's input, as nccl-tests counts."""
    assert send == COLLECTIVES[name].send_bytes(1024, num_ranks=4)
    assert recv == COLLECTIVES[name].recv_bytes(1024, num_ranks=4)


@pytest.mark.parametrize(
    ("word", "name", "size_bytes"),
    [
        ("bf16", "bf16", 2),
        ("bfloat16", "bf16", 2),
        ("half", "fp16", 2),
        ("float", "fp32", 4),
        ("double", "fp64", 8),
        ("uint8", "uint8", 1),
        ("int", "int32", 4),
        ("f8e4m3", "fp8_e4m3", 1),
        ("f8e5m2", "fp8_e5m2", 1),
    ],
)
def test_nccl_tests_words_are_aliases(word: str, name: str, size_bytes: int) -> None:
    """`-d` takes nccl-tests' words."""
    assert (name, size_bytes) == (dtype_named(word).name, dtype_named(word).size_bytes)


def test_an_unknown_dtype_is_named_with_the_known_ones() -> None:
    """A typing mistake is answered with the choices."""
    with pytest.raises(UsageError, match="unknown dtype 'bf15': one of bf16, fp16, fp32"):
        dtype_named("bf15")


@pytest.mark.parametrize(
    ("name", "bits"), [("bf16", 8), ("fp16", 11), ("fp32", 24), ("fp64", 53), ("fp8_e4m3", 4), ("fp8_e5m2", 3)]
)
def test_epsilon_is_the_unit_roundoff(name: str, bits: int) -> None:
    """2^-p for p bits of significand, the hidden one counted."""
    assert 2.0**-bits == DTYPES[name].epsilon


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 16, 36, 37, 64, 128, 255])
def test_integers_stay_small_enough_to_be_exact(num_ranks: int) -> None:
    """At most 7, and the largest sum over all ranks is at most 255: exact in bf16 and uint8. Not all are zero."""
    made = values(np.arange(4096, dtype=np.int64), kind="integers", num_ranks=num_ranks)
    assert made.min() == 0
    assert 1 <= made.max() <= 7
    assert made.max() * num_ranks <= 255


def test_uniform_data_fills_the_interval() -> None:
    """[-1, 1) from end to end, mean near 0 and variance near 1/3."""
    ends = values(np.array([0, 0xFFFFFF], dtype=np.int64), kind="uniform", num_ranks=2)
    assert [-1.0, 1.0 - 2.0**-23] == ends.tolist()
    made = data_of(1, 100_000, seed=5, kind="uniform", num_ranks=2)
    assert 0.0 == pytest.approx(made.mean(), abs=0.01)
    assert 1 / 3 == pytest.approx(made.var(), abs=0.01)


def test_pattern_can_be_made_from_any_start() -> None:
    """A run in the middle equals the middle of a longer run; values are 32-bit."""
    whole = pattern(np.arange(1000, dtype=np.int64), seed=7, rank=3)
    np.testing.assert_array_equal(whole[400:500], pattern(np.arange(400, 500, dtype=np.int64), seed=7, rank=3))
    assert 0 <= whole.min() <= whole.max() < 2**32


def test_pattern_far_out_equals_exact_arithmetic() -> None:
    """int64 wraps around without harm: the low 32 bits are those of unbounded integers."""
    index = [2**31, 2**40 + 12345, 2**62]
    exact = [int(pattern(number, seed=7, rank=3)) for number in index]
    assert exact == pattern(np.array(index, dtype=np.int64), seed=7, rank=3).tolist()


def test_pattern_differs_by_rank_and_seed() -> None:
    """Ranks and seeds do not share data: equal elements are no more frequent than chance (1 in 2^32)."""
    index = np.arange(20_000, dtype=np.int64)
    base = pattern(index, seed=0, rank=0)
    for seed, rank in ((0, 1), (1, 0), (1_000_003, 0), (7, 7)):
        assert np.count_nonzero(base == pattern(index, seed=seed, rank=rank)) == 0


@pytest.mark.parametrize("kind", ["integers", "uniform"])
def test_copies_must_be_exact(kind: DataKind) -> None:
    """An all-gather moves bytes."""
    assert 0.0 == tolerance(DTYPES["bf16"], num_ranks=8, kind=kind, reduces=False)


def test_sums_of_small_integers_must_be_exact() -> None:
    """They fit in every type, in any order of summation."""
    assert 0.0 == tolerance(DTYPES["bf16"], num_ranks=8, kind="integers", reduces=True)


@pytest.mark.parametrize(
    ("name", "num_ranks", "bound"), [("bf16", 2, 2 / 256), ("bf16", 8, 56 / 256), ("fp32", 3, 6 / 2**24)]
)
def test_tolerance_of_a_sum(name: str, num_ranks: int, bound: float) -> None:
    """(G - 1) x G x unit roundoff."""
    assert bound == tolerance(DTYPES[name], num_ranks=num_ranks, kind="uniform", reduces=True)


def _round_bf16(x: Array) -> Array:
    """Round to nearest even at bit 16 of fp32."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    bits += 0x7FFF + ((bits >> 16) & 1)
    return ((bits >> 16) << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def _round_fp16(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float64)


@pytest.mark.parametrize(("name", "rounded"), [("bf16", _round_bf16), ("fp16", _round_fp16)])
@pytest.mark.parametrize("num_ranks", [2, 3, 8])
def test_a_sum_rounded_at_every_step_is_within_tolerance(
    name: str, rounded: Callable[[Array], Array], num_ranks: int
) -> None:
    """Ring order and tree order in 16 bits pass; a result that lacks one rank does not."""
    stored = [rounded(data_of(rank, 4096, seed=1, kind="uniform", num_ranks=num_ranks)) for rank in range(num_ranks)]
    exact = np.sum(stored, axis=0)
    bound = tolerance(DTYPES[name], num_ranks=num_ranks, kind="uniform", reduces=True)
    ring = stored[0]
    for other in stored[1:]:
        ring = rounded(ring + other)
    parts = list(stored)
    while len(parts) > 1:
        parts = [rounded(a + b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + parts[len(parts) // 2 * 2 :]
    for result in (ring, parts[0], rounded(exact)):
        assert np.abs(result - exact).max() <= bound
    assert np.abs(ring - stored[-1] - exact).max() > bound


@pytest.mark.parametrize("name", ["bf16", "fp16"])
@pytest.mark.parametrize("num_ranks", [2, 3, 4, 6, 7, 8])
def test_averages_of_small_integers(name: str, num_ranks: int) -> None:
    """Dividing the sum, and adding values that were multiplied by 1/G first, are both within tolerance; a power of
    two is exact."""
    rounded = {"bf16": _round_bf16, "fp16": _round_fp16}[name]
    stored = [data_of(rank, 2048, seed=2, kind="integers", num_ranks=num_ranks) for rank in range(num_ranks)]
    exact = np.mean(stored, axis=0)
    bound = tolerance(DTYPES[name], num_ranks=num_ranks, kind="integers", reduces=True, op="avg")
    factor = rounded(np.array([1 / num_ranks]))
    scaled = np.zeros(2048)
    for one in stored:
        scaled = rounded(scaled + rounded(one * factor))
    assert np.abs(rounded(exact) - exact).max() <= bound
    assert np.abs(scaled - exact).max() <= bound
    assert (bound == 0.0) == (num_ranks in {2, 4, 8})
