"""Slots, pools and sides of a stand-alone collective. Sizes in bf16: two bytes an element."""

from typing import Any, Literal

import pytest

from gtpbench.record.model import Side
from gtpbench.workloads.collective import CollectiveWorkload
from tests.unit.measure.kernels import make_arm, make_case
from tests.unit.workloads.fakes import LoggingBackend

KIB, MIB = 2**10, 2**20
L2 = 50 * MIB

Collective = Literal["all_gather", "reduce_scatter"]


def _workload(
    backend: LoggingBackend,
    arm: str = "symm",
    *,
    collective: Collective = "all_gather",
    size_bytes: int = MIB,
    cache_bytes: int | None = L2,
    sweep_max_bytes: int = 64 * MIB,
    **case: Any,
) -> CollectiveWorkload:
    """Prepared on two ranks."""
    made = CollectiveWorkload(
        backend,
        make_case(collective, size_bytes, **case),
        make_arm(arm),
        seed=0,
        cache_bytes=cache_bytes,
        sweep_max_bytes=sweep_max_bytes,
    )
    made.prepare()
    return made


def _offsets(workload: CollectiveWorkload, backend: LoggingBackend, count: int) -> list[tuple[int, int]]:
    """Bytes into the send and the receive buffer where each of the next operations begins."""
    backend.used.clear()
    for iteration in range(count):
        workload.step(iteration)
    return [(2 * send, 2 * recv) for send, recv in backend.used]


# Arms that are compared


def test_slots_are_more_than_twice_the_cache() -> None:
    """100 MiB of 1 MiB gathers; half as much is sent; slot i lies at i times its side's bytes."""
    backend = LoggingBackend()
    workload = _workload(backend)
    assert [(i * MIB // 2, i * MIB) for i in range(100)] == _offsets(workload, backend, 100)
    assert [(0, 0)] == _offsets(workload, backend, 101)[100:]


@pytest.mark.parametrize(
    ("size_bytes", "cache_bytes", "hot", "num_slots"),
    [
        (MIB, L2, False, 100),
        (MIB, L2 + 1, False, 101),
        (256 * MIB, L2, False, 1),
        (64 * KIB, L2, False, 256),  # 1600 would do, 256 are enough
        (MIB, None, False, 64),  # an unknown cache is taken for 32 MiB
        (MIB, L2, True, 1),
    ],
)
def test_number_of_slots(size_bytes: int, cache_bytes: int | None, hot: bool, num_slots: int) -> None:
    """At least twice the cache in bytes of the larger side, 256 at most, one where the user wants it hot."""
    backend = LoggingBackend()
    workload = _workload(backend, size_bytes=size_bytes, cache_bytes=cache_bytes, hot=hot)
    for side in workload.sides(captured=None).values():
        assert num_slots == side.num_slots


def test_intervals_are_free() -> None:
    """Only nccl-tests prescribes the operations of one."""
    assert _operations("symm") is _operations("none") is _operations("registered") is None


def _operations(arm: str) -> int | None:
    """What the arm prescribes."""
    return _workload(LoggingBackend(), arm).interval_operations


# nccl-tests' own conditions


@pytest.mark.parametrize("arm", ["nccltests:0", "nccltests:2"])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_nccltests_shifts_both_sides_by_the_larger(arm: str, collective: Collective) -> None:
    """1 MiB each, also the side that holds half; 16 steps in a sweep to 16 MiB, then from the start."""
    backend = LoggingBackend()
    workload = _workload(backend, arm, collective=collective, sweep_max_bytes=16 * MIB)
    expected = [(i * MIB, i * MIB) for i in range(16)]
    assert [*expected, (0, 0), (MIB, MIB)] == _offsets(workload, backend, 18)
    sides = workload.sides(captured=20)
    assert {(16, MIB)} == {(side.num_slots, side.slot_stride_bytes) for side in sides.values()}
    assert {f"alloc {sides['send'].registration} {arm} {16 * MIB // 2}"} == {
        line for line in backend.log if line.startswith("alloc")
    }


@pytest.mark.parametrize(
    ("size_bytes", "sweep_max_bytes", "num_slots"),
    [
        (64 * MIB, 64 * MIB, 1),  # the largest size is not rotated at all
        (32 * MIB, 64 * MIB, 2),
        (24 * MIB, 64 * MIB, 2),  # whole steps only
        (4 * MIB, 64 * MIB, 16),
        (2 * MIB, 64 * MIB, 20),  # 32 fit, 20 are used
        (64 * KIB, 64 * MIB, 20),
    ],
)
def test_nccltests_rotates_in_the_largest_buffer(size_bytes: int, sweep_max_bytes: int, num_slots: int) -> None:
    """Of the sweep's largest size; the cache has no say, and an interval never gets further than 20."""
    workload = _workload(
        LoggingBackend(), "nccltests:2", size_bytes=size_bytes, sweep_max_bytes=sweep_max_bytes, cache_bytes=None
    )
    assert {num_slots} == {side.num_slots for side in workload.sides(captured=20).values()}


@pytest.mark.parametrize("arm", ["nccltests:0", "nccltests:2"])
def test_nccltests_has_20_operations_an_interval(arm: str) -> None:
    """Its `-n`."""
    assert 20 == _operations(arm)


def test_nccltests_memory_is_ncclmemalloc() -> None:
    """Also unregistered; the arms that are compared have ordinary memory there."""
    kinds = {}
    for arm in ("nccltests:0", "nccltests:2", "none", "registered", "symm"):
        sides = _workload(LoggingBackend(), arm).sides(captured=20)
        kinds[arm] = {side.registration for side in sides.values()}
    assert kinds == {
        "nccltests:0": {"mem_alloc"},
        "nccltests:2": {"window"},
        "none": {"plain"},
        "registered": {"registered"},
        "symm": {"window"},
    }


# Pools


def test_each_arm_has_pools_of_its_own() -> None:
    """Named after it, so that another arm of the same processes can be prepared and released beside it."""
    backend = LoggingBackend()
    _workload(backend, "symm:recv", size_bytes=64 * MIB)
    assert [
        f"alloc plain symm:recv {2 * 32 * MIB // 2}",
        f"alloc window symm:recv {2 * 64 * MIB // 2}",
        "register plain symm:recv",
        "register window symm:recv",
    ] == [line for line in backend.log if "view" not in line]


@pytest.mark.parametrize(
    ("collective", "arm", "pool"),
    [
        ("all_gather", "symm", "window"),
        ("all_gather", "symm:recv", "window"),
        ("all_gather", "symm:send", "plain"),
        ("reduce_scatter", "symm:recv", "plain"),
        ("reduce_scatter", "symm:send", "window"),
    ],
)
def test_in_place_there_is_one_buffer(collective: Collective, arm: str, pool: str) -> None:
    """In the pool of the larger side; no other pool is registered, which would have nothing in it."""
    backend = LoggingBackend(rank=1)
    workload = _workload(backend, arm, collective=collective, size_bytes=64 * MIB, placement="in_place")
    assert [f"alloc {pool} {arm} {64 * MIB}", f"register {pool} {arm}"] == [
        line for line in backend.log if "view" not in line
    ]
    own, whole = (32 * MIB, 0), (96 * MIB, 64 * MIB)  # rank 1's half of the first and of the second slot
    expected = [own, whole] if collective == "all_gather" else [own[::-1], whole[::-1]]
    assert expected == _offsets(workload, backend, 2)
    backend.taken()
    workload.release()
    assert f"free {pool} {arm}" == backend.taken()[-1]


def test_registration_and_deregistration_are_sums_over_the_pools() -> None:
    """40 us for the window, nothing for plain memory; 3 us for each pool afterwards."""
    workload = CollectiveWorkload(
        LoggingBackend(),
        make_case("all_gather", MIB),
        make_arm("symm:send"),
        seed=0,
        cache_bytes=L2,
        sweep_max_bytes=MIB,
    )
    assert 40.0 == workload.prepare()
    assert 6.0 == workload.release()


def test_slots_go_before_their_pools() -> None:
    """What still held a view would keep the memory of a pool that is gone."""
    backend = LoggingBackend()
    workload = _workload(backend, size_bytes=64 * MIB)
    workload.verify()
    backend.taken()
    workload.release()
    assert ["view gone"] * 4 + ["deregister window symm", "free window symm"] == backend.taken()


# Sides


def _resident(workload: CollectiveWorkload, captured: int | None) -> tuple[bool | None, bool | None]:
    sides = workload.sides(captured=captured)
    assert {100} == {side.num_slots for side in sides.values()}
    return sides["send"].l2_resident, sides["recv"].l2_resident


@pytest.mark.parametrize(
    ("captured", "send", "recv"),
    [
        (16, True, True),  # 8 and 16 MiB
        (50, True, True),  # 25 and 50 MiB
        (51, True, False),
        (64, True, False),  # 32 and 64 MiB
        (512, True, False),  # no more than the 100 slots: 50 and 100 MiB
        (None, True, False),
    ],
)
def test_only_captured_slots_count_for_the_cache(captured: int | None, send: bool, recv: bool) -> None:
    """Of 100 slots of 1 MiB a graph of k operations uses k; without a graph all are used, however short intervals
    are. 50 MiB fit in 50 MiB."""
    assert (send, recv) == _resident(_workload(LoggingBackend()), captured)


def test_an_unknown_cache_says_nothing() -> None:
    """Neither yes nor no."""
    workload = _workload(LoggingBackend(), cache_bytes=None)
    assert {None} == {side.l2_resident for side in workload.sides(captured=4).values()}


def test_a_side_is_described_as_it_was_timed() -> None:
    """`symm:recv` on a sweep's 64 MiB: the receive side's window holds two slots, the send side is plain memory."""
    sides = _workload(LoggingBackend(), "symm:recv", size_bytes=64 * MIB).sides(captured=None)
    shared = {"alignment_bytes": 4096, "num_slots": 2, "in_place": False}
    assert sides == {
        "send": Side(
            allocator="logging:plain",
            registration="plain",
            window_offset_bytes=None,
            window_bytes=None,
            slot_stride_bytes=32 * MIB,
            l2_resident=False,
            **shared,
        ),
        "recv": Side(
            allocator="logging:window",
            registration="window",
            window_offset_bytes=0,
            window_bytes=128 * MIB,
            slot_stride_bytes=64 * MIB,
            l2_resident=False,
            **shared,
        ),
    }
