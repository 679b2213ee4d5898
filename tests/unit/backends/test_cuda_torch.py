"""What the NCCL backends share, on a device that logs: life, pools, registration, teardown, accounting."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from gtpbench.backends import cuda_torch
from gtpbench.backends.base import Backend, RankContext
from gtpbench.collectives import COLLECTIVES, reference
from gtpbench.errors import RunError, UnsupportedError
from tests.unit.backends.fake_cuda import EchoExchange, FakeGpu, FakeTorch, LoggedBackend

_sets = itertools.count(7000)


@pytest.fixture
def log() -> list[str]:
    """What happened, in order."""
    return []


@pytest.fixture
def backend(log: list[str], monkeypatch: pytest.MonkeyPatch) -> LoggedBackend:
    """Rank 1 of two, not yet opened."""
    monkeypatch.setattr(cuda_torch, "torch", FakeTorch(log))
    monkeypatch.setattr(cuda_torch, "Gpu", FakeGpu)
    context = RankContext(
        rank=1,
        num_ranks=2,
        local_rank=1,
        local_size=2,
        node=0,
        num_nodes=1,
        set_id=next(_sets),
        exchange=EchoExchange(log),
        timeout_s=1.0,
        device=0,
    )
    return LoggedBackend(context, log)


def _taken(log: list[str]) -> list[str]:
    """The log so far, which begins anew."""
    told, log[:] = list(log), []
    return told


def _filled(backend: LoggedBackend, pool: Any = "window", *, owner: str = "a", buffers: int = 2) -> None:
    """An open backend with registered buffers that nobody holds on to."""
    backend.open()
    for _ in range(buffers):
        backend.alloc(8, dtype="fp32", pool=pool, owner=owner)
    backend.register(pool, owner=owner)
    _taken(backend.log)


# Life


def test_opening_meets_the_ranks_first(backend: LoggedBackend, log: list[str]) -> None:
    """The rendezvous names who is missing, which NCCL does not; then the communicator, and one collective that makes
    it: registration needs it. Opening twice does nothing."""
    backend.open()
    backend.open()
    assert log == [
        "set device",
        "meet: open",
        "connect",
        "use stream 1",
        "all-reduce 1",
        "synchronize stream 1",
    ]


def test_closing_releases_every_pool_and_then_leaves(backend: LoggedBackend, log: list[str]) -> None:
    """Registrations before buffers before communicators, pool by pool in the order they were made; twice is fine."""
    backend.open()
    backend.alloc(8, dtype="fp32", pool="plain", owner="a")
    for owner in ("a", "b"):
        backend.alloc(8, dtype="fp32", pool="window", owner=owner)
        backend.register("window", owner=owner)
    _taken(log)
    backend.close()
    assert log == [
        "synchronize",
        "synchronize",
        "tensor gone",
        "pool gone",
        "empty cache",
        *[
            "synchronize",
            "meet: deregister",
            "deregister window: 1 tensors, memory True",
            "tensor gone",
            "pool gone",
            "empty cache",
        ]
        * 2,
        "disconnect",
    ]
    _taken(log)
    backend.close()
    assert [] == log


def test_a_closed_backend_opens_again(backend: LoggedBackend, log: list[str]) -> None:
    """With streams of its own; what was registered before is counted on."""
    _filled(backend)
    backend.close()
    _taken(log)
    _filled(backend)
    memory = backend.memory()
    assert (1, 2, 4) == (memory.num_communicators, memory.num_windows, memory.num_registrations)


# Registration and release


def test_release_deregisters_while_the_buffers_live(backend: LoggedBackend, log: list[str]) -> None:
    """Wait for the device, then for the other ranks, which may still load from this one's window; deregister; drop the
    tensors; drop their pool."""
    _filled(backend)
    assert backend.release("window", owner="a") >= 0.0
    assert log == [
        "synchronize",
        "meet: deregister",
        "deregister window: 2 tensors, memory True",
        "tensor gone",
        "tensor gone",
        "pool gone",
        "empty cache",
    ]


@pytest.mark.parametrize("pool", ["plain", "mem_alloc", "registered", "window"])
def test_only_what_was_registered_is_deregistered(backend: LoggedBackend, log: list[str], pool: Any) -> None:
    """Other pools are let go of without meeting anybody, and so is a pool that was never registered."""
    backend.open()
    backend.alloc(8, dtype="fp32", pool=pool, owner="a")
    if pool in {"plain", "mem_alloc"}:
        assert 0.0 == backend.register(pool, owner="a")
    _taken(log)
    assert 0.0 == backend.release(pool, owner="a")
    assert ["synchronize", "tensor gone", "pool gone", "empty cache"] == _taken(log)
    assert 0.0 == backend.release(pool, owner="a")
    assert [] == log


@pytest.mark.parametrize("pool", ["registered", "window"])
def test_registration_compares_the_ranks_first(backend: LoggedBackend, log: list[str], pool: Any) -> None:
    """Then waits for the device; once, however often it is asked for; nothing may be allocated afterwards."""
    backend.open()
    backend.alloc(8, dtype="fp32", pool=pool, owner="a")
    backend.alloc(4, dtype="bf16", pool=pool, owner="a")
    _taken(log)
    assert backend.register(pool, owner="a") > 0.0
    assert [f"meet: {pool} (a) allocations", "synchronize", f"register {pool}: 2 tensors"] == _taken(log)
    assert 0.0 == backend.register(pool, owner="a")
    assert [] == log
    with pytest.raises(RunError, match=f"the {pool} pool is registered: release it"):
        backend.alloc(8, dtype="fp32", pool=pool, owner="a")
    assert 0 == backend.alloc(8, dtype="fp32", pool=pool, owner="b").allocation


def test_unequal_ranks_register_nothing(backend: LoggedBackend, log: list[str]) -> None:
    """The first allocation that differs is named, and the pool of whom."""
    played = {"window (a) allocations": [b'[["fp32", 9]]', b'[["fp32", 8]]']}
    backend.context = replace(backend.context, exchange=EchoExchange(log, **played))
    backend.open()
    backend.alloc(8, dtype="fp32", pool="window", owner="a")
    with pytest.raises(RunError, match=r"allocation 0 of the window \(a\) pool: rank 1 made 8 x fp32, rank 0 made 9"):
        backend.register("window", owner="a")
    assert not any(line.startswith("register") for line in log)


def test_a_released_pool_is_filled_anew(backend: LoggedBackend) -> None:
    """Allocations are numbered from 0 again."""
    _filled(backend)
    backend.release("window", owner="a")
    assert 0 == backend.alloc(8, dtype="fp32", pool="window", owner="a").allocation
    assert backend.register("window", owner="a") > 0.0


def test_plain_memory_lives_as_long_as_its_views(backend: LoggedBackend, log: list[str]) -> None:
    """A slice that somebody holds keeps it."""
    backend.open()
    held = backend.slice(backend.alloc(8, dtype="fp32", pool="plain"), 2, 3)
    backend.release("plain")
    assert (2, 3) == (held.offset, held.handle.numel())
    assert "tensor gone" not in log


# Accounting and evidence


def test_memory_is_accounted_for(backend: LoggedBackend) -> None:
    """40 B plain, 16 + 8 B in windows of which NCCL made one, 4 B registered. Registrations are counted for good."""
    backend.open()
    backend.num_null = 1
    backend.alloc(10, dtype="fp32", pool="plain")
    for count in (4, 2):
        backend.alloc(count, dtype="fp32", pool="window", owner="a")
    backend.register("window", owner="a")
    backend.num_null = 0
    backend.alloc(4, dtype="uint8", pool="registered", owner="b")
    backend.register("registered", owner="b")
    memory = backend.memory()
    assert (40 + 24 + 4, 24 + 4, 700) == (memory.buffers_bytes, memory.registered_bytes, memory.free_bytes)
    assert (1, 3, 1) == (memory.num_windows, memory.num_pools, memory.num_communicators)
    assert (3, 2) == (memory.num_registrations, memory.num_window_registrations)
    assert {"windows": 1, "null_windows": 1, "registered": 1} == backend.witness().counters
    backend.release("window", owner="a")
    memory = backend.memory()
    assert (0, 2, 3, 2) == (
        memory.num_windows,
        memory.num_pools,
        memory.num_registrations,
        memory.num_window_registrations,
    )
    assert {"windows": 0, "null_windows": 0, "registered": 1} == backend.witness().counters


def test_the_device_is_asked(backend: LoggedBackend) -> None:
    """By the UUID that CUDA gives, for its state and the size of its L2."""
    backend.open()
    state = backend.device_state()
    assert state is not None
    assert (1980, 650.5, ("sw_power_cap",)) == (state.sm_clock_mhz, state.power_w, state.throttle_reasons)
    assert 50 * 2**20 == backend.cache_bytes
    assert "1a2b" == backend._gpu.uuid  # type: ignore[attr-defined]


def test_no_room_names_rank_and_size(backend: LoggedBackend) -> None:
    """In one line of ours; the pool is as it was."""
    backend.open()
    with pytest.raises(RunError, match="rank 1: no room for 4194304 B on the GPU"):
        backend.alloc(2**20, dtype="fp32", pool="plain")
    assert 0 == backend.memory().buffers_bytes


def test_an_unknown_type_is_refused(backend: LoggedBackend) -> None:
    """By its code, before anything is allocated."""
    backend.open()
    with pytest.raises(UnsupportedError, match="logged has no fp4") as caught:
        backend.alloc(8, dtype="fp4", pool="plain")
    assert ("dtype", 0) == (caught.value.code, backend.memory().num_pools)


# Queues and work


def test_queues_are_streams_by_name(backend: LoggedBackend) -> None:
    """Made once each; high priority is torch's -1."""
    backend.open()
    compute, comm = backend.queue("compute"), backend.queue("comm", high_priority=True)
    assert backend.queue("compute") is compute is not comm
    assert (0, -1) == (compute.priority, comm.priority)


def test_a_stream_is_made_current_when_it_changes(backend: LoggedBackend, log: list[str]) -> None:
    """Which costs nothing while work stays on one."""
    backend.open()
    compute, comm = backend.queue("compute"), backend.queue("comm")
    seen: list[int] = []
    backend.context = replace(backend.context, mark=seen.append)
    _taken(log)
    for queue in (compute, compute, comm, comm, compute):
        backend.all_gather(None, None, queue=queue)
    assert ["all-gather"] * 2 + ["use stream 2"] + ["all-gather"] * 2 + ["use stream 1", "all-gather"] == log
    assert [1, 2, 3, 4, 5] == seen


def test_times_are_the_devices(backend: LoggedBackend, log: list[str]) -> None:
    """Events on the stream; 0.25 ms between two are 250 us."""
    backend.open()
    queue = backend.queue("compute")
    _taken(log)
    start, end = backend.record(queue), backend.record(queue)
    backend.wait(backend.queue("comm"), end)
    backend.host_sync(queue)
    assert 250.0 == backend.elapsed_us(start, end)
    assert ["record on stream 1"] * 2 + ["stream 2 waits", "synchronize stream 1"] == log
    assert "device_all_reduce" == backend.alignment


def test_data_goes_there_and_is_checked(backend: LoggedBackend) -> None:
    """Filled elements are the reference's, one flipped or poisoned is not; several buffers make one result."""
    backend.context = replace(backend.context, rank=0, num_ranks=1)
    backend.open()
    buffers = [backend.alloc(64, dtype="fp32", pool="plain") for _ in range(2)]
    expected = reference(
        COLLECTIVES["all_gather"], rank=0, num_ranks=1, total_count=64, seed=5, kind="uniform", op="sum"
    )
    for buffer in buffers:
        backend.fill(buffer, seed=5, kind="uniform")
        assert (0, 64) == _counts(backend, buffer, expected)
    backend.flip(buffers[0], 3)
    backend.poison(backend.slice(buffers[1], 7, 2))
    assert (1, 64) == _counts(backend, buffers[0], expected)
    assert (2, 64) == _counts(backend, buffers[1], expected)
    result = backend.check_all([(buffer, expected) for buffer in buffers], tolerance=0.0)
    assert (3, 128) == (result.num_wrong, result.num_checked)


def _counts(backend: Backend, buffer: Any, expected: Any) -> tuple[int, int]:
    result = backend.check(buffer, expected, tolerance=0.0)
    return result.num_wrong, result.num_checked


def test_scratch_work_runs_on_its_queue(backend: LoggedBackend, log: list[str]) -> None:
    """Products, attention and passes, on operands made once."""
    backend.open()
    queue = backend.queue("side")
    _taken(log)
    for _ in range(2):
        backend.gemm(4, 3, 2, dtype="fp32", queue=queue)
        backend.attention(tokens=4, heads=2, head_dim=8, dtype="fp32", queue=queue)
        backend.touch(64, queue=queue)
    assert ["use stream 2"] == log
    assert 3 == len(backend._scratch)


@pytest.mark.parametrize(
    ("collective", "num_bytes"), [("all_gather", 600), ("reduce_scatter", 600), ("all_reduce", 1200)]
)
def test_wire_bytes_are_all_parts_but_one(backend: LoggedBackend, collective: str, num_bytes: int) -> None:
    """Of 1200 B on two ranks, twice that for an all-reduce."""
    assert num_bytes == backend.wire_bytes(collective, 1200)
