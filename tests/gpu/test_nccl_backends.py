"""The NCCL backends on a real GPU: results, capture, evidence, life and death. Run by scripts/test-gpu.

With NCCL 2.30 or newer two ranks share the GPU (NCCL_MULTI_RANK_GPU_ENABLE=1 is set here); older NCCL runs one rank.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from gtpbench.backends.base import Backend, KernelSeen
from gtpbench.collectives import COLLECTIVES, DTYPES, reference, tolerance
from tests.contract.ranks import run_ranks
from tests.markers import gpu

SIZE = 4 * 2**20
BOTH = [
    "nccl_torch",
    pytest.param(
        "nccl_direct",
        marks=pytest.mark.skipif(importlib.util.find_spec("nccl") is None, reason="nccl4py is not installed"),
    ),
]
every_backend = pytest.mark.parametrize("backend", BOTH)
POOLS: tuple[Any, ...] = ("plain", "mem_alloc", "registered", "window")


@pytest.fixture
def num_ranks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Two ranks on the GPU where NCCL allows it, else one."""
    import torch  # noqa: F401  # loads NCCL

    from gtpbench.backends.nccl_library import version

    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", os.environ.get("NCCL_NVLS_ENABLE", "0"))
    return 2 if version() >= (2, 30, 0) else 1


def run(num: int, work: Any, *args: Any, backend: str, **options: Any) -> list[Any]:
    return run_ranks(num, work, *args, backend=backend, timeout_s=20.0, kill_after_s=30.0, device=0, **options)


def wrong_elements(backend: Backend, name: str, *, dtype: str, pool: Any, op: Any = "sum") -> int:
    """Elements of one collective that differ from the reference."""
    collective, context = COLLECTIVES[name], backend.context
    element = DTYPES[dtype].size_bytes
    count = SIZE // element
    send_count = collective.send_bytes(SIZE, num_ranks=context.num_ranks) // element
    recv_count = collective.recv_bytes(SIZE, num_ranks=context.num_ranks) // element
    send = backend.alloc(send_count, dtype=dtype, pool=pool, owner="test")
    recv = backend.alloc(recv_count, dtype=dtype, pool=pool, owner="test")
    backend.register(pool, owner="test")
    queue = backend.queue("compute")
    backend.fill(send, seed=3, kind="integers")
    backend.poison(recv)
    if collective.reduces:
        backend.reduce_scatter(send, recv, op=op, queue=queue)
    else:
        backend.all_gather(send, recv, queue=queue)
    expected = reference(
        collective, rank=context.rank, num_ranks=context.num_ranks, total_count=count, seed=3, kind="integers", op=op
    )
    bound = tolerance(DTYPES[dtype], num_ranks=context.num_ranks, kind="integers", reduces=collective.reduces, op=op)
    found = backend.check(recv, expected, tolerance=bound).num_wrong
    backend.flip(recv, 0)
    assert backend.check(recv, expected, tolerance=bound).num_wrong == found + 1, "a flipped element was not seen"
    del send, recv
    backend.release(pool, owner="test")
    return found


def all_collectives(backend: Backend) -> dict[str, int]:
    found = {}
    for pool in POOLS:
        for dtype in ("bf16", "fp16", "fp32", "uint8"):
            for name in COLLECTIVES:
                found[f"{name} {dtype} {pool}"] = wrong_elements(backend, name, dtype=dtype, pool=pool)
    return found


@gpu(1)
@every_backend
def test_every_pool_gives_the_right_result(backend: str, num_ranks: int) -> None:
    """Whole numbers come out exactly, whatever is registered."""
    for found in run(num_ranks, all_collectives, backend=backend):
        assert set(found.values()) == {0}, found


def others(backend: Backend) -> list[Any]:
    context, queue = backend.context, backend.queue("compute")
    row = backend.alloc(64 * context.num_ranks, dtype="int32", pool="plain")
    back = backend.alloc(96 * context.num_ranks, dtype="int32", pool="plain")
    backend.fill(row, seed=1, kind="integers")
    told = row.handle.reshape(context.num_ranks, -1).tolist()
    even_rows = backend.slice(back, 0, row.count)
    backend.all_to_all(row, even_rows, queue=queue)
    even = even_rows.handle.reshape(context.num_ranks, -1).tolist()
    splits = [32 + 64 * peer for peer in range(context.num_ranks)] if context.num_ranks == 2 else [64]
    sent = backend.slice(row, 0, sum(splits))
    got = backend.slice(back, 0, splits[context.rank] * context.num_ranks)
    backend.all_to_all(
        sent, got, send_splits=splits, recv_splits=[splits[context.rank]] * context.num_ranks, queue=queue
    )
    backend.all_reduce(row, op="sum", queue=queue)
    with backend.coalesce(queue):
        for _ in range(2):
            backend.all_gather(backend.slice(row, 0, 64), even_rows, queue=queue)
    backend.gemm(64, 32, 16, dtype="bf16", queue=queue)
    backend.attention(tokens=32, heads=2, head_dim=64, dtype="bf16", queue=queue)
    backend.touch(4096, queue=queue)
    backend.host_sync(queue)
    return [told, even, row.handle.reshape(context.num_ranks, -1).tolist()]


@gpu(1)
@every_backend
def test_the_other_operations(backend: str, num_ranks: int) -> None:
    """all_to_all moves part p to rank p, all_reduce adds, groups and scratch work run."""
    found = run(num_ranks, others, backend=backend)
    for rank, (_, even, total) in enumerate(found):
        assert even == [found[peer][0][rank] for peer in range(num_ranks)]
        rows = [found[peer][0] for peer in range(num_ranks)]
        assert total == [[sum(row[part][index] for row in rows) for index in range(64)] for part in range(num_ranks)]


def evidence(backend: Backend, pool: Any) -> tuple[list[KernelSeen], list[KernelSeen], float, float]:
    context, queue = backend.context, backend.queue("compute")
    send = backend.alloc(SIZE // context.num_ranks, dtype="uint8", pool=pool, owner="x")
    recv = backend.alloc(SIZE, dtype="uint8", pool=pool, owner="x")
    backend.register(pool, owner="x")
    backend.fill(send, seed=1, kind="integers")

    def work() -> None:
        for _ in range(10):
            backend.all_gather(send, recv, queue=queue)

    work()
    graph = backend.capture(work, queue=queue)
    backend.barrier(queue)
    graph.replay()
    start = backend.record(queue)
    graph.replay()
    end = backend.record(queue)
    backend.host_sync(queue)
    graph_us = backend.elapsed_us(start, end) / 10
    nodes, traced = list(backend.observe(graph)), list(backend.trace(work, queue=queue))
    backend.host_sync(queue)
    start = backend.record(queue)
    work()
    end = backend.record(queue)
    backend.host_sync(queue)
    del graph
    return nodes, traced, graph_us, backend.elapsed_us(start, end) / 10


@gpu(1)
@every_backend
@pytest.mark.parametrize("pool", ["plain", "window"])
def test_graph_nodes_and_trace_show_every_call(backend: str, pool: str, num_ranks: int) -> None:
    """Ten calls are ten kernels of one name in the graph and under CUPTI, with the same grid."""
    for nodes, traced, graph_us, stream_us in run(num_ranks, evidence, pool, backend=backend):
        print(backend, pool, nodes, traced, graph_us, stream_us)
        assert graph_us > 0 < stream_us
        if num_ranks == 1:
            continue  # NCCL copies then, or does nothing
        (node,) = [row for row in nodes if row.kind == "kernel"]
        (row,) = [row for row in traced if row.kind == "kernel"]
        assert (10, 10) == (node.count, row.count)
        assert node.grid == row.grid
        assert ("ncclSymkDevKernel" if pool == "window" else "ncclDevKernel") in node.name


def lives_again(backend: Backend) -> tuple[int, int, bool]:
    for _ in range(2):
        backend.open()
        wrong_elements(backend, "all_gather", dtype="bf16", pool="window")
        alive = backend.memory()
        backend.alloc(2**20, dtype="bf16", pool="window", owner="left")
        backend.register("window", owner="left")
        backend.close()
        backend.close()
    return alive.num_windows, alive.num_pools, alive.free_bytes is not None


@gpu(1)
@every_backend
def test_open_and_close_may_be_repeated(backend: str, num_ranks: int) -> None:
    """What was left registered is deregistered first; a second life works as the first."""
    assert run(num_ranks, lives_again, backend=backend, enter=False) == [(0, 0, True)] * num_ranks


def ends_without_close(backend: Backend, folder: str) -> None:
    backend.open()
    backend.alloc(2**20, dtype="bf16", pool="window", owner="left")
    backend.register("window", owner="left")
    Path(folder, f"rank{backend.context.rank}").touch()


@gpu(1)
@every_backend
def test_a_process_may_end_with_windows(backend: str, num_ranks: int, tmp_path: Path) -> None:
    """No crash and no hang at interpreter exit, though nobody closed the backend."""
    run(num_ranks, ends_without_close, str(tmp_path), backend=backend, enter=False)
    assert len(list(tmp_path.iterdir())) == num_ranks
