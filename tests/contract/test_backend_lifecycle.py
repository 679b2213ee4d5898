"""How every backend opens, waits, registers and leaves."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ranks import DirectoryExchange, run_ranks

from gtpbench.backends.base import Backend, open_backend
from gtpbench.errors import RunError, StageTimeout, UnsupportedError

pytestmark = pytest.mark.ranks

every_backend = pytest.mark.parametrize("backend", ["gloo", "cpu_window", "standin"])
with_windows = pytest.mark.parametrize("backend", ["cpu_window", "standin"])


def gather(backend: Backend) -> bool:
    """Whether a gather of one element a rank works."""
    pool: Any = "window" if "window" in backend.capabilities().pools else "plain"
    send, recv = (backend.alloc(count, dtype="int32", pool=pool) for count in (1, backend.context.num_ranks))
    backend.register(pool)
    send.handle[0] = 10 + backend.context.rank
    backend.all_gather(send, recv, queue=backend.queue("main"))
    return bool(recv.handle.tolist() == [10 + rank for rank in range(backend.context.num_ranks)])


def open_and_close(backend: Backend) -> list[bool]:
    backend.close()
    worked = []
    for _ in range(2):
        backend.open()
        backend.open()
        worked.append(gather(backend))
        backend.close()
        backend.close()
    # A second backend of the same exchange does not meet the keys of the first.
    with open_backend(backend.name, backend.context) as second:
        worked.append(gather(second))
    return worked


@every_backend
def test_open_and_close_may_be_repeated(backend: str) -> None:
    """Closing what is closed and opening what is open do nothing; a closed backend opens again, and so does another
    one after it."""
    assert run_ranks(2, open_and_close, backend=backend, enter=False) == [[True] * 3] * 2


def marks(backend: Backend) -> list[int]:
    seen: list[int] = []
    with open_backend(backend.name, replace(backend.context, mark=seen.append)) as watched:
        gather(watched)
        with watched.coalesce(watched.queue("main")):
            gathered = watched.alloc(4, dtype="int32", pool="plain")
            if watched.name != "cpu_window":
                watched.all_reduce(gathered, op="sum", queue=watched.queue("main"))
    return seen


@every_backend
def test_operations_are_counted_for_the_watchdog(backend: str) -> None:
    """Each collective tells its running number as it is entered, also inside `coalesce`."""
    assert run_ranks(2, marks, backend=backend, enter=False) == [[1] if backend == "cpu_window" else [1, 2]] * 2


def absent_at_open(backend: Backend) -> str:
    if backend.context.rank == 1:
        return ""
    with pytest.raises(StageTimeout) as caught:
        backend.open()
    backend.close()
    return str(caught.value)


@every_backend
def test_a_rank_that_never_opens_is_named(backend: str) -> None:
    """The others get StageTimeout with the number of the rank that did not come."""
    first, _, last = run_ranks(3, absent_at_open, backend=backend, enter=False, timeout_s=1.0)
    assert first.endswith("for rank 1")
    assert last.endswith("for rank 1")


def absent_at_barrier(backend: Backend) -> tuple[str, float]:
    if backend.context.rank == 1:
        time.sleep(2.5)
        return "", 0.0
    start = time.monotonic()
    with pytest.raises(StageTimeout) as caught:
        backend.barrier(backend.queue("main"))
    lasted = time.monotonic() - start
    time.sleep(1.5)
    return str(caught.value), lasted


@every_backend
def test_a_rank_missing_at_the_barrier_is_named(backend: str) -> None:
    """The shared-memory barrier gives up after the context's timeout and names the rank that did not come."""
    (message, lasted), _ = run_ranks(2, absent_at_barrier, backend=backend, timeout_s=1.0)
    assert message.endswith("for rank 1")
    assert 0.9 < lasted < 2.5


def absent_at_collective(backend: Backend) -> str:
    pool: Any = "window" if "window" in backend.capabilities().pools else "plain"
    send, recv = (backend.alloc(count, dtype="int32", pool=pool) for count in (4, 8))
    backend.register(pool)
    if backend.context.rank == 1:
        time.sleep(2.5)
        return ""
    with pytest.raises(StageTimeout) as caught:
        backend.all_gather(send, recv, queue=backend.queue("main"))
    time.sleep(1.5)
    return str(caught.value)


@every_backend
def test_a_rank_missing_at_a_collective_ends_it(backend: str) -> None:
    """A collective that not all ranks enter ends by StageTimeout and says which rank noticed."""
    message, _ = run_ranks(2, absent_at_collective, backend=backend, timeout_s=1.0)
    assert "rank 0" in message


def unequal_allocations(backend: Backend) -> tuple[str, int]:
    backend.alloc(8, dtype="fp32", pool="window")
    backend.alloc(24 if backend.context.rank == 1 else 16, dtype="fp32", pool="window")
    if backend.context.rank == 2:
        backend.alloc(8, dtype="fp32", pool="window")
    with pytest.raises(RunError) as caught:
        backend.register("window")
    return str(caught.value), backend.witness().counters.get("peer_mappings", 0)


@with_windows
def test_unequal_allocations_are_found_before_anything_is_mapped(backend: str) -> None:
    """All ranks raise the same RunError, with the first allocation that differs, the rank and both sizes; no peer's
    memory is mapped by then."""
    told = run_ranks(3, unequal_allocations, backend=backend)
    assert len(set(told)) == 1
    message, num_mapped = told[0]
    assert "rank 1" in message
    assert "allocation 1 " in message
    assert "24 x fp32" in message
    assert "16 x fp32" in message
    assert num_mapped == 0


def early_and_late(backend: Backend) -> list[str]:
    told = []
    send, recv = (backend.alloc(count, dtype="fp32", pool="window") for count in (4, 8))
    if backend.name == "cpu_window":
        with pytest.raises(RunError) as caught:
            backend.all_gather(send, recv, queue=backend.queue("main"))
        told.append(str(caught.value))
        plain = backend.alloc(4, dtype="fp32", pool="plain")
        with pytest.raises(UnsupportedError) as refused:
            backend.all_gather(plain, recv, queue=backend.queue("main"))
        told.append(str(refused.value))
    backend.register("window")
    assert backend.register("window") == 0.0
    with pytest.raises(RunError) as caught:
        backend.alloc(4, dtype="fp32", pool="window")
    told.append(str(caught.value))
    return told


@with_windows
def test_windows_are_registered_once_and_before_use(backend: str) -> None:
    """Windows used before registration, plain send buffers, and allocations after registration are refused."""
    for told in run_ranks(2, early_and_late, backend=backend):
        assert "is registered: release it" in told[-1]
        if backend == "cpu_window":
            assert "not registered" in told[0]
            assert "window pool" in told[1]


def accounting(backend: Backend) -> list[tuple[int, ...]]:
    def now() -> tuple[int, ...]:
        state = backend.memory()
        assert state.free_bytes is None
        return state.buffers_bytes, state.registered_bytes, state.num_windows, state.num_pools

    told = [now()]
    backend.alloc(10, dtype="fp32", pool="plain")
    told.append(now())
    if "window" in backend.capabilities().pools:
        backend.alloc(100, dtype="fp32", pool="window")
        backend.alloc(50, dtype="uint8", pool="window")
        told.append(now())
        assert backend.register("window") > 0
        told.append(now())
        backend.release("window")
        told.append(now())
    assert backend.register("plain") == 0.0
    assert backend.release("plain") == 0.0
    return [*told, now()]


@every_backend
def test_memory_is_accounted_for(backend: str) -> None:
    """Bytes, windows and pools are those of the buffers alive: 40 B plain, 400 + 50 B in two windows."""
    windows = [(490, 0, 0, 2), (490, 450, 2, 2), (40, 0, 0, 1)] if backend != "gloo" else []
    expected = [(0, 0, 0, 0), (40, 0, 0, 1), *windows, (0, 0, 0, 0)]
    assert run_ranks(2, accounting, backend=backend) == [expected] * 2


def footprint() -> tuple[int, int, int]:
    """Open descriptors, all mappings, and those of windows, of this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return len(list(Path("/proc/self/fd").iterdir())), len(maps), sum("gtpbench.window" in line for line in maps)


def registrations(backend: Backend) -> list[tuple[int, int, int]]:
    told = []
    for _ in range(50):
        assert gather(backend)
        backend.release("window")
        told.append(footprint())
    return [told[4], told[-1]]


@with_windows
def test_fifty_registrations_leave_nothing_behind(backend: str) -> None:
    """Descriptors and window mappings are the same after 5 and after 50 rounds, and other mappings do not grow by one
    a round."""
    for (fds, maps, _), (fds_later, maps_later, windows_later) in run_ranks(2, registrations, backend=backend):
        assert fds_later == fds
        assert maps_later - maps < 10
        assert windows_later == 0


def open_fails(backend: Backend) -> tuple[str, str]:
    with pytest.raises(UnsupportedError) as caught:
        backend.open()
    backend.close()
    return caught.value.code, str(caught.value)


def test_cpu_window_stays_on_one_host() -> None:
    """Ranks of two nodes cannot map one another's memory: refused, with what to use instead."""
    for code, message in run_ranks(2, open_fails, backend="cpu_window", num_nodes=2, enter=False):
        assert code == "one_host"
        assert "2 nodes" in message
        assert "gloo" in message


def foreign_exchange(backend: Backend, folder: str) -> tuple[str, str]:
    context = replace(backend.context, exchange=DirectoryExchange(Path(folder)))
    return open_fails(open_backend("gloo", context))


def test_gloo_needs_a_store(tmp_path: Path) -> None:
    """An exchange without a c10d store is refused before anything is opened."""
    for code, message in run_ranks(1, foreign_exchange, str(tmp_path), backend="gloo", enter=False):
        assert code == "exchange"
        assert "TcpExchange" in message


def aligned_by(backend: Backend) -> tuple[str, bool]:
    backend.barrier(backend.queue("main"))
    return backend.alignment, gather(backend)


@pytest.mark.parametrize(
    ("backend", "num_nodes", "alignment"),
    [
        ("gloo", 1, "shared_memory_barrier"),
        ("gloo", 2, "collective_barrier"),
        ("cpu_window", 1, "shared_memory_barrier"),
        ("standin", 1, "virtual"),
    ],
)
def test_alignment_is_what_the_barrier_uses(backend: str, num_nodes: int, alignment: str) -> None:
    """Shared memory lines up the ranks of one node, a collective those of several."""
    assert run_ranks(2, aligned_by, backend=backend, num_nodes=num_nodes) == [(alignment, True)] * 2


def missing_by_gloo(backend: Backend) -> str:
    if backend.context.rank == 1:
        time.sleep(2.5)
        return ""
    with pytest.raises(StageTimeout) as caught:
        backend.barrier(backend.queue("main"))
    time.sleep(1.5)
    return str(caught.value)


def test_gloo_barrier_of_several_nodes_times_out() -> None:
    """Without shared memory the barrier is gloo's, and its timeout is a StageTimeout too."""
    message, _ = run_ranks(2, missing_by_gloo, backend="gloo", num_nodes=2, timeout_s=1.0)
    assert "gloo barrier" in message


def killed_peer(backend: Backend) -> str:
    if backend.context.rank == 1:
        raise SystemExit("gone")
    with pytest.raises(RunError) as caught:
        buffer = backend.alloc(1 << 20, dtype="fp32", pool="plain")
        for _ in range(2):
            backend.all_reduce(buffer, op="sum", queue=backend.queue("main"))
    return str(caught.value)


def test_gloo_peer_that_is_gone_is_a_run_error() -> None:
    """A connection that a peer closed ends the collective with one line of ours, before the timeout."""
    start = time.monotonic()
    with pytest.raises(AssertionError, match="gone") as caught:
        run_ranks(2, killed_peer, backend="gloo", timeout_s=20.0)
    assert "rank 0" not in str(caught.value)
    assert time.monotonic() - start < 15


def stuck(backend: Backend) -> None:
    time.sleep(600)


def test_a_rank_that_hangs_is_killed() -> None:
    """The helper of this suite ends ranks that hang, so that a broken backend fails instead of blocking."""
    with pytest.raises(AssertionError, match=r"ranks \[0, 1\] did not finish"):
        run_ranks(2, stuck, backend="standin", kill_after_s=0.5)
