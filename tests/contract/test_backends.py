"""What every backend must do: results, refusals, and a check that catches what is wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from ranks import run_ranks

from gtpbench.backends.base import Backend, Buffer
from gtpbench.collectives import COLLECTIVES, DTYPES, reference, tolerance
from gtpbench.errors import RunError, UnsupportedError, UsageError

pytestmark = pytest.mark.ranks

BACKENDS = ("gloo", "cpu_window", "standin")
SHARES = (0, 1, 1025)
MARGIN = 3
UNTOUCHED = 9

every_backend = pytest.mark.parametrize("backend", BACKENDS)
two_and_three = pytest.mark.parametrize("num_ranks", [2, 3])


def value(rank: int, index: int) -> int:
    """Element `index` of rank `rank`: small enough that a sum over three ranks is exact in every type."""
    return (rank * 3 + index * 7) % 5


def pool_of(backend: Backend) -> Any:
    return "window" if "window" in backend.capabilities().pools else "plain"


def write(buffer: Buffer, numbers: list[int]) -> None:
    made = np.array(numbers, dtype=np.float64)
    if hasattr(buffer.handle, "copy_"):
        import torch

        buffer.handle.copy_(torch.from_numpy(made))
    else:
        buffer.handle[:] = made


class Sides:
    """Buffers of one case with a margin on both sides, registered; freed by `close`."""

    def __init__(self, backend: Backend, dtype: str, *counts: int) -> None:
        self.backend, self.pool = backend, pool_of(backend)
        whole = [backend.alloc(count + 2 * MARGIN, dtype=dtype, pool=self.pool) for count in counts]
        backend.register(self.pool)
        for buffer in whole:
            write(buffer, [UNTOUCHED] * buffer.count)
        self.whole = whole
        self.inner = [backend.slice(b, MARGIN, c) for b, c in zip(whole, counts, strict=True)]

    def close(self) -> bool:
        """Free everything; whether the margins are as they were."""
        edges = [number for b in self.whole for number in (*b.handle[:MARGIN].tolist(), *b.handle[-MARGIN:].tolist())]
        self.backend.release(self.pool)
        return set(edges) == {UNTOUCHED}


def gathers(backend: Backend, dtype: str, share: int, *, in_place: bool) -> bool:
    num_ranks, rank = backend.context.num_ranks, backend.context.rank
    sides = Sides(backend, dtype, num_ranks * share, share)
    recv, send = sides.inner
    if in_place:
        send = backend.slice(recv, rank * share, share)
    backend.poison(recv)
    write(send, [value(rank, index) for index in range(share)])
    backend.all_gather(send, recv, queue=backend.queue("main"))
    expected = [value(peer, index) for peer in range(num_ranks) for index in range(share)]
    return recv.handle.tolist() == expected and sides.close()


def scatters(backend: Backend, dtype: str, share: int, *, in_place: bool, op: Any = "sum") -> bool:
    num_ranks, rank = backend.context.num_ranks, backend.context.rank
    sides = Sides(backend, dtype, num_ranks * share, share)
    send, recv = sides.inner
    if in_place:
        recv = backend.slice(send, rank * share, share)
    backend.poison(recv)
    # For the average all values are multiples of the number of ranks, so that it is a whole number.
    times = num_ranks if op == "avg" else 1
    write(send, [times * value(rank, index) for index in range(num_ranks * share)])
    backend.reduce_scatter(send, recv, op=op, queue=backend.queue("main"))
    expected = [
        sum(value(peer, index) for peer in range(num_ranks)) for index in range(rank * share, (rank + 1) * share)
    ]
    return recv.handle.tolist() == expected and sides.close()


def reduces(backend: Backend, dtype: str, count: int) -> bool:
    num_ranks, rank = backend.context.num_ranks, backend.context.rank
    sides = Sides(backend, dtype, count)
    (buffer,) = sides.inner
    write(buffer, [value(rank, index) for index in range(count)])
    backend.all_reduce(buffer, op="sum", queue=backend.queue("main"))
    expected = [sum(value(peer, index) for peer in range(num_ranks)) for index in range(count)]
    return buffer.handle.tolist() == expected and sides.close()


def exchanges(backend: Backend, dtype: str, splits: Callable[[int, int], int], *, given: bool) -> bool:
    num_ranks, rank = backend.context.num_ranks, backend.context.rank
    out = [splits(rank, peer) for peer in range(num_ranks)]
    back = [splits(peer, rank) for peer in range(num_ranks)]
    longest = max(sum(splits(a, b) for b in range(num_ranks)) for a in range(num_ranks))
    most = max(sum(splits(a, b) for a in range(num_ranks)) for b in range(num_ranks))
    # Windows are equal on all ranks; what is sent of them is not.
    sides = Sides(backend, dtype, longest, most)
    send, recv = backend.slice(sides.inner[0], 0, sum(out)), backend.slice(sides.inner[1], 0, sum(back))
    write(send, [value(rank, index) for index in range(sum(out))])
    backend.poison(recv)
    backend.all_to_all(
        send,
        recv,
        send_splits=out if given else None,
        recv_splits=back if given else None,
        queue=backend.queue("main"),
    )
    starts = [sum(splits(peer, other) for other in range(rank)) for peer in range(num_ranks)]
    expected = [value(peer, starts[peer] + index) for peer in range(num_ranks) for index in range(back[peer])]
    return recv.handle.tolist() == expected and sides.close()


def unequal(sender: int, receiver: int) -> int:
    """Splits of which some are zero and all rows differ."""
    return (sender * 2 + receiver * 3) % 4 * 5


def exact_cases(backend: Backend) -> Iterator[tuple[str, bool]]:
    for dtype in sorted(backend.capabilities().dtypes):
        for share in SHARES:
            for in_place in (False, True):
                place = f"{dtype} {share} in_place={in_place}"
                yield f"all_gather {place}", gathers(backend, dtype, share, in_place=in_place)
                yield f"reduce_scatter {place}", scatters(backend, dtype, share, in_place=in_place)
            yield f"all_reduce {dtype} {share}", reduces(backend, dtype, share)
            yield f"all_to_all {dtype} {share}", exchanges(backend, dtype, lambda _a, _b, s=share: s, given=False)
        yield f"all_to_all {dtype} unequal", exchanges(backend, dtype, unequal, given=True)


def wrong_cases(backend: Backend) -> list[str]:
    return [name for name, is_right in exact_cases(backend) if not is_right]


@every_backend
@two_and_three
def test_whole_numbers_come_out_exact(backend: str, num_ranks: int) -> None:
    """Every collective moves and sums small whole numbers exactly in every type, at odd sizes and offsets, in place
    and not, with equal, unequal and zero splits, and writes nothing beside its buffers."""
    assert run_ranks(num_ranks, wrong_cases, backend=backend) == [[]] * num_ranks


def averages(backend: Backend) -> list[bool]:
    floats = [name for name in sorted(backend.capabilities().dtypes) if DTYPES[name].epsilon > 0]
    return [
        scatters(backend, dtype, 1025, in_place=in_place, op="avg") for dtype in floats for in_place in (False, True)
    ]


@pytest.mark.parametrize("backend", ["cpu_window", "standin"])
@two_and_three
def test_average_is_the_sum_over_the_number_of_ranks(backend: str, num_ranks: int) -> None:
    """Where `avg` is offered, it is exact for values whose average is a whole number."""
    for told in run_ranks(num_ranks, averages, backend=backend):
        assert all(told)


def random_cases(backend: Backend) -> list[str]:
    """Collectives of random data whose check is not clean: (wrong, or an error over the formula's bound)."""
    num_ranks, rank, pool = backend.context.num_ranks, backend.context.rank, pool_of(backend)
    failed = []
    for dtype in sorted(backend.capabilities().dtypes):
        kind: Any = "uniform" if DTYPES[dtype].epsilon > 0 else "integers"
        # One type over several chunks of the check is enough.
        share = 140_001 if dtype == "fp32" else 1001
        small, large = (backend.alloc(count, dtype=dtype, pool=pool) for count in (share, share * num_ranks))
        backend.register(pool)
        for collective in COLLECTIVES.values():
            send, recv = (large, small) if collective.reduces else (small, large)
            backend.fill(send, seed=5, kind=kind)
            backend.poison(recv)
            backend.barrier(backend.queue("main"))
            if collective.reduces:
                backend.reduce_scatter(send, recv, op="sum", queue=backend.queue("main"))
            else:
                backend.all_gather(send, recv, queue=backend.queue("main"))
            wanted = reference(
                collective, rank=rank, num_ranks=num_ranks, total_count=large.count, seed=5, kind=kind, op="sum"
            )
            bound = tolerance(DTYPES[dtype], num_ranks=num_ranks, kind=kind, reduces=collective.reduces)
            result = backend.check(recv, wanted, tolerance=bound)
            backend.flip(recv, share // 2)
            flipped = backend.check(recv, wanted, tolerance=bound)
            backend.poison(backend.slice(recv, 0, 1))
            poisoned = backend.check(recv, wanted, tolerance=bound)
            counts = (result.num_wrong, flipped.num_wrong, poisoned.num_wrong)
            if counts != (0, 1, 2) or result.num_checked != recv.count or result.max_error > bound:
                failed.append(f"{collective.name} {dtype}: {counts}, {result}")
        backend.release(pool)
    return failed


@every_backend
@two_and_three
def test_random_data_is_within_tolerance_and_faults_are_caught(backend: str, num_ranks: int) -> None:
    """Random data stays within `tolerance` of the fp64 reference; then one flipped element and
    one left poisoned are counted as one wrong each."""
    assert run_ranks(num_ranks, random_cases, backend=backend) == [[]] * num_ranks


def poisoned(backend: Backend) -> list[tuple[int, int]]:
    counts = []
    for dtype in sorted(backend.capabilities().dtypes):
        buffer = backend.alloc(100, dtype=dtype, pool="plain")
        backend.poison(buffer)
        wanted = reference(
            COLLECTIVES["all_gather"], rank=0, num_ranks=2, total_count=100, seed=1, kind="integers", op="sum"
        )
        result = backend.check(buffer, wanted, tolerance=1.0)
        counts.append((result.num_wrong, result.num_checked))
    return counts


@every_backend
def test_poison_is_wrong_everywhere(backend: str) -> None:
    """A buffer that was poisoned and never written has no right element, whatever the type."""
    for told in run_ranks(2, poisoned, backend=backend):
        assert set(told) == {(100, 100)}


def refusals(backend: Backend) -> dict[str, tuple[str, str]]:
    """What each unsupported request is answered with: (code, message)."""
    can, queue = backend.capabilities(), backend.queue("main")
    whole = backend.alloc(8, dtype="int32", pool="plain")
    requests: dict[str, Callable[[], Any]] = {
        "dtype": lambda: backend.alloc(8, dtype="fp8_e4m3", pool="plain"),
        "capture": lambda: backend.capture(lambda: None, queue=queue),
        "kernels observed": lambda: backend.observe(None),
        "kernels traced": lambda: backend.trace(lambda: None, queue=queue),
        "reduction": lambda: backend.all_reduce(whole, op="avg", queue=queue),
    }
    pools: tuple[Any, ...] = ("registered", "window")
    requests |= {f"pool {pool}": lambda p=pool: backend.alloc(8, dtype="fp32", pool=p) for pool in pools}
    told = {}
    for name, request in requests.items():
        try:
            request()
        except UnsupportedError as error:
            told[name] = (error.code, str(error))
    assert not any(f"pool {pool}" in told for pool in can.pools)
    return told


@pytest.mark.parametrize(
    ("backend", "lacks"),
    [("gloo", {"pool registered", "pool window"}), ("cpu_window", {"pool registered"}), ("standin", set())],
)
def test_what_is_missing_is_refused_with_a_way_out(backend: str, lacks: set[str]) -> None:
    """Unsupported types, pools, reductions, captures and observations raise UnsupportedError with their code; the
    message names what would provide it."""
    for told in run_ranks(2, refusals, backend=backend):
        assert set(told) == {"dtype", "capture", "kernels observed", "kernels traced", "reduction"} | lacks
        for name, (code, message) in told.items():
            assert code == name.split()[0]
            assert ":" in message


def gloo_average(backend: Backend) -> str:
    buffer = backend.alloc(8, dtype="fp32", pool="plain")
    with pytest.raises(UnsupportedError) as caught:
        backend.reduce_scatter(buffer, backend.slice(buffer, 0, 4), op="avg", queue=backend.queue("main"))
    return caught.value.code


def test_gloo_refuses_averages() -> None:
    """gloo has no average: the reduction is refused by its code instead of failing inside torch."""
    assert run_ranks(2, gloo_average, backend="gloo") == ["reduction"] * 2


def fractions_in_bytes(backend: Backend) -> str:
    buffer = backend.alloc(8, dtype="uint8", pool="plain")
    with pytest.raises(UsageError) as caught:
        backend.fill(buffer, seed=1, kind="uniform")
    return str(caught.value)


@every_backend
def test_fractions_do_not_go_into_whole_numbers(backend: str) -> None:
    """Filling a whole-number type with fractions is the caller's mistake, and is named as such."""
    for message in run_ranks(2, fractions_in_bytes, backend=backend):
        assert "uint8" in message
        assert "integers" in message


def mismatched_splits(backend: Backend) -> tuple[str, bool]:
    """Rank 0 expects three elements of rank 1, which sends two; then all gather."""
    rank, told = backend.context.rank, ""
    sides = Sides(backend, "fp32", 8, 8)
    send, recv = backend.slice(sides.inner[0], 0, 4), backend.slice(sides.inner[1], 0, 5 - rank)
    try:
        backend.all_to_all(send, recv, send_splits=[2, 2], recv_splits=[2, 3 - rank], queue=backend.queue("main"))
    except RunError as error:
        told = str(error)
    sides.close()
    return told, gathers(backend, "fp32", 7, in_place=False)


@pytest.mark.parametrize("backend", ["cpu_window", "standin"])
def test_splits_that_do_not_match_name_the_rank(backend: str) -> None:
    """A rank that expects other splits than it is sent raises; the others go on, and so can it."""
    (first, first_gathers), (second, second_gathers) = run_ranks(2, mismatched_splits, backend=backend)
    assert "rank 0" in first
    assert "[2, 2]" in first
    assert "[2, 3]" in first
    assert second == ""
    assert first_gathers
    assert second_gathers
