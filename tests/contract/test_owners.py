"""Two owners of one backend: each has its own pool of a kind, registered, used and released apart."""

from typing import Any

import pytest
from ranks import run_ranks

from gtpbench.backends.base import Backend, Buffer
from gtpbench.errors import RunError

pytestmark = pytest.mark.ranks

POOLS = [
    ("gloo", "plain"),
    ("cpu_window", "plain"),
    ("cpu_window", "window"),
    ("standin", "plain"),
    ("standin", "registered"),
    ("standin", "window"),
]
every_pool = pytest.mark.parametrize(("backend", "pool"), POOLS)
registered_pools = pytest.mark.parametrize(("backend", "pool"), [item for item in POOLS if item[1] != "plain"])
FIRST, SECOND = 10, 20
COLLECTIVE_POOL = {"cpu_window": "window"}
"""Where a collective's send buffer must lie; anywhere with the others."""


def pair(backend: Backend, pool: Any, owner: str) -> tuple[Buffer, Buffer]:
    """A send buffer of one element and a receive buffer of one a rank."""
    counts = (1, backend.context.num_ranks)
    send, recv = (backend.alloc(count, dtype="int32", pool=pool, owner=owner) for count in counts)
    return send, recv


def gathers(backend: Backend, buffers: tuple[Buffer, Buffer], base: int) -> bool:
    """Whether every rank's `base + rank` arrives."""
    send, recv = buffers
    send.handle[0] = base + backend.context.rank
    backend.barrier(backend.queue("main"))
    backend.all_gather(send, recv, queue=backend.queue("main"))
    return bool(recv.handle.tolist() == [base + rank for rank in range(backend.context.num_ranks)])


def holds(backend: Backend, buffers: tuple[Buffer, Buffer], base: int) -> bool:
    """Whether the pair holds what was put in it: by a gather where the backend can send from its pool."""
    send, recv = buffers
    if COLLECTIVE_POOL.get(backend.name, send.pool) == send.pool:
        return gathers(backend, buffers, base)
    for offset in range(recv.count):
        recv.handle[offset] = base + offset
    return bool(recv.handle.tolist() == [base + offset for offset in range(recv.count)])


def side_by_side(backend: Backend, pool: Any) -> list[Any]:
    first, second = pair(backend, pool, "first"), pair(backend, pool, "second")
    for owner in ("first", "second"):
        backend.register(pool, owner=owner)
    told: list[Any] = [[(buffer.owner, buffer.allocation, buffer.pool) for buffer in (*first, *second)]]
    told += [holds(backend, first, FIRST), holds(backend, second, SECOND), holds(backend, first, FIRST)]
    return [*told, second[1].handle.tolist()]


@every_pool
def test_owners_have_memory_of_their_own(backend: str, pool: str) -> None:
    """Allocations are numbered by owner, and what one receives leaves the other's as it is."""
    numbered = [(owner, number, pool) for owner in ("first", "second") for number in (0, 1)]
    expected = [numbered, True, True, True, [SECOND, SECOND + 1]]
    assert run_ranks(2, side_by_side, pool, backend=backend) == [expected] * 2


def registered_apart(backend: Backend, pool: Any) -> list[Any]:
    first = pair(backend, pool, "first")
    assert backend.register(pool, owner="first") > 0
    told: list[Any] = [gathers(backend, first, FIRST)]
    # The other owner's pool is not registered: it still grows, and the ranks compare it by itself.
    second = pair(backend, pool, "second")
    told.append(backend.memory().num_windows)
    with pytest.raises(RunError) as caught:
        backend.alloc(1, dtype="int32", pool=pool, owner="first")
    told.append("release it" in str(caught.value))
    assert backend.register(pool, owner="second") > 0
    assert backend.register(pool, owner="first") == 0.0
    told += [gathers(backend, second, SECOND), backend.memory().num_windows, backend.memory().num_pools]
    return told


@registered_pools
def test_registering_one_leaves_the_other_open(backend: str, pool: str) -> None:
    """Two windows of the first owner, then two of the second; only the first refuses further allocations meanwhile."""
    windows = (2, 4) if pool == "window" else (0, 0)
    expected = [True, windows[0], True, True, windows[1], 2]
    assert run_ranks(2, registered_apart, pool, backend=backend) == [expected] * 2


def released_apart(backend: Backend, pool: Any) -> list[Any]:
    first, second = pair(backend, pool, "first"), pair(backend, pool, "second")
    backend.alloc(5, dtype="int32", pool=pool, owner="second")
    for owner in ("first", "second"):
        backend.register(pool, owner=owner)
    told: list[Any] = [gathers(backend, first, FIRST), _bytes(backend)]
    del first
    backend.release(pool, owner="first")
    told += [_bytes(backend), gathers(backend, second, SECOND), _mapped(backend)]
    # Filled anew, from allocation 0 on.
    again = pair(backend, pool, "first")
    backend.register(pool, owner="first")
    told += [again[0].allocation, gathers(backend, again, FIRST), gathers(backend, second, SECOND), _bytes(backend)]
    del second, again
    for owner in ("second", "first", "nobody"):
        backend.release(pool, owner=owner)
    return [*told, _bytes(backend), _mapped(backend)]


def _bytes(backend: Backend) -> tuple[int, int, int]:
    memory = backend.memory()
    return memory.buffers_bytes, memory.registered_bytes, memory.num_pools


def _mapped(backend: Backend) -> int:
    """Peers whose windows are mapped; backends without windows of peers do not count them."""
    return backend.witness().counters.get("peer_mappings", 0)


@registered_pools
def test_releasing_one_leaves_the_other_alive(backend: str, pool: str) -> None:
    """12 B of the first (1 + 2 elements), 32 B of the second (1 + 2 + 5): the second's stay registered and in use
    when the first's are gone, which can be filled anew. Releasing what nobody has does nothing."""
    peers = 1 if backend == "cpu_window" else 0
    alive, second, nothing = (44, 44, 2), (32, 32, 1), (0, 0, 0)
    expected = [True, alive, second, True, peers, 0, True, True, alive, nothing, 0]
    assert run_ranks(2, released_apart, pool, backend=backend) == [expected] * 2


def unequal_second(backend: Backend, pool: Any) -> tuple[bool, str, bool]:
    first, _ = pair(backend, pool, "first"), pair(backend, pool, "second")
    if backend.context.rank == 1:
        backend.alloc(7, dtype="int32", pool=pool, owner="second")
    backend.register(pool, owner="first")
    with pytest.raises(RunError) as caught:
        backend.register(pool, owner="second")
    return gathers(backend, first, FIRST), str(caught.value), gathers(backend, first, SECOND)


@registered_pools
def test_ranks_are_compared_owner_by_owner(backend: str, pool: str) -> None:
    """What rank 1 allocated too much for one owner spoils nothing of the other's."""
    for before, message, after in run_ranks(2, unequal_second, pool, backend=backend):
        assert before
        assert after
        assert "rank 1 and rank 0 differ at allocation 2" in message
        assert "rank 1 made 7 x int32, rank 0 made nothing" in message


def of_the_host(backend: Backend) -> tuple[Any, Any]:
    return backend.device_state(), backend.cache_bytes


@pytest.mark.parametrize("backend", ["gloo", "cpu_window", "standin"])
def test_cpu_ranks_have_no_device(backend: str) -> None:
    """Neither a GPU's clocks nor its cache: the host's counts."""
    assert run_ranks(2, of_the_host, backend=backend) == [(None, None)] * 2
