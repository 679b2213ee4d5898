"""What backends tell about what they did: clocks, scratch work, and the bytes that took the network."""

from typing import Any

import pytest
from ranks import run_ranks

from gtpbench.backends.base import Backend

pytestmark = pytest.mark.ranks

TOTAL_BYTES = 6 * 2**20
RUNS = 15
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def issue(backend: Backend, collective: str, *, large: Any, small: Any, other: Any) -> None:
    queue = backend.queue("main")
    match collective:
        case "all_gather":
            backend.all_gather(small, large, queue=queue)
        case "reduce_scatter":
            backend.reduce_scatter(large, small, op="sum", queue=queue)
        case "all_reduce":
            backend.all_reduce(large, op="sum", queue=queue)
        case _:
            backend.all_to_all(large, other, queue=queue)


def sent(backend: Backend, pool: Any) -> dict[str, tuple[float, int]]:
    """[collective] -> bytes over loopback as a share of all ranks' wire bytes, the least of several runs because
    others use loopback too; and how many peers are mapped."""
    num_ranks, queue = backend.context.num_ranks, backend.queue("main")
    counts = (TOTAL_BYTES // 4, TOTAL_BYTES // 4 // num_ranks, TOTAL_BYTES // 4)
    large, small, other = (backend.alloc(count, dtype="fp32", pool=pool) for count in counts)
    for buffer in (large, small, other):
        backend.fill(buffer, seed=1, kind="integers")
    backend.register(pool)
    told = {}
    for collective in COLLECTIVES:
        shares = []
        expected = num_ranks * backend.wire_bytes(collective, TOTAL_BYTES)
        for _ in range(RUNS):
            backend.barrier(queue)
            before = backend.witness().counters
            backend.barrier(queue)
            issue(backend, collective, large=large, small=small, other=other)
            backend.barrier(queue)
            after = backend.witness().counters
            assert ("sent_bytes" in after) == (backend.context.local_rank == 0)
            shares.append((after.get("sent_bytes", 0) - before.get("sent_bytes", 0)) / expected)
        told[collective] = (min(shares), after.get("peer_mappings", 0))
    backend.release(pool)
    told["released"] = (0.0, backend.witness().counters.get("peer_mappings", 0))
    return told


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_gloo_bytes_cross_the_interface(num_ranks: int) -> None:
    """gloo's traffic on loopback is its wire bytes: (n-1)/n of the total for all-gather and all-to-all, twice that for
    the reductions, plus headers. The upper bound leaves room for other users of loopback, none for another factor."""
    told = run_ranks(num_ranks, sent, "plain", backend="gloo")[0]
    for collective in COLLECTIVES:
        assert 0.99 < told[collective][0] < 1.25, collective


@pytest.mark.parametrize("num_ranks", [2, 3])
def test_windows_keep_bytes_off_the_interface(num_ranks: int) -> None:
    """Less than 1 % of the bytes that peers load crosses loopback, and the kernel lists every peer's memory as mapped
    until it is released."""
    for told in run_ranks(num_ranks, sent, "window", backend="cpu_window"):
        for collective in COLLECTIVES:
            share, num_mapped = told[collective]
            assert share < 0.01, collective
            assert num_mapped == num_ranks - 1
        assert told["released"] == (0.0, 0)


def wire(backend: Backend) -> list[int]:
    return [backend.wire_bytes(collective, 1200) for collective in COLLECTIVES]


@pytest.mark.parametrize(
    ("backend", "expected"),
    [("gloo", [800, 1600, 1600, 800]), ("cpu_window", [800, 800, 1600, 800]), ("standin", [800, 800, 1600, 800])],
)
def test_wire_bytes_are_those_of_the_algorithm(backend: str, expected: list[int]) -> None:
    """Of 1200 B on 3 ranks each sends two thirds, and twice as much where the algorithm goes round twice."""
    assert run_ranks(3, wire, backend=backend) == [expected] * 3


def scratch(backend: Backend) -> list[float]:
    queue = backend.queue("compute", high_priority=True)
    spent = []
    works = (
        lambda: backend.gemm(64, 32, 16, dtype="fp32", queue=queue),
        lambda: backend.attention(tokens=32, heads=2, head_dim=16, dtype="fp32", queue=queue),
        lambda: backend.touch(4096, queue=queue),
    )
    for work in works:
        for _ in range(2):
            start = backend.record(queue)
            work()
            end = backend.record(queue)
        backend.wait(queue, end)
        backend.host_sync(queue)
        spent.append(backend.elapsed_us(start, end))
    return spent


@pytest.mark.parametrize("backend", ["gloo", "cpu_window", "standin"])
def test_scratch_work_takes_time(backend: str) -> None:
    """Products, attention and element-wise passes run, also a second time on the same operands, and take time."""
    for spent in run_ranks(2, scratch, backend=backend):
        assert all(0 < time_us < 1e6 for time_us in spent)


def modelled(backend: Backend, pool: Any) -> tuple[list[float], int]:
    queue = backend.queue("main")
    counts = (TOTAL_BYTES // 4, TOTAL_BYTES // 8, TOTAL_BYTES // 4)
    large, small, other = (backend.alloc(count, dtype="fp32", pool=pool) for count in counts)
    for buffer in (large, small, other):
        backend.fill(buffer, seed=1, kind="integers")
    backend.register(pool)
    times = []
    for collective in COLLECTIVES:
        start = backend.record(queue)
        issue(backend, collective, large=large, small=small, other=other)
        times.append(backend.elapsed_us(start, backend.record(queue)))
    return times, backend.witness().counters["modelled_bytes"]


@pytest.mark.parametrize(("pool", "speed_up"), [("plain", 1), ("registered", 1), ("window", 2)])
def test_standin_time_is_the_formula(pool: str, speed_up: int) -> None:
    """10 us and the sent bytes at 10 GB/s, half of it with windows; the same on every rank. Half of 6 MiB is sent,
    all of it by the all-reduce."""
    half_us = TOTAL_BYTES / 2 / 10_000
    expected = [(10 + rounds * half_us) / speed_up for rounds in (1, 1, 2, 1)]
    for times, num_bytes in run_ranks(2, modelled, pool, backend="standin"):
        assert times == pytest.approx(expected, rel=1e-12)
        assert num_bytes == 5 * TOTAL_BYTES // 2
