"""The timing loop, on a backend that writes a log."""

import time
from typing import Any

import pytest

from gtpbench.measure.loop import run_block
from tests.unit.measure.scripted import ScriptedBackend


def _run(samples: int, k: int, first: int, *, align_once: bool = False) -> tuple[list[str], Any]:
    """A block whose intervals last 10 us, lined up by something that lasts a second."""
    backend = ScriptedBackend()

    def interval(iteration: int) -> None:
        backend.log.append(f"interval {iteration}")
        backend.now_us += 10.0

    def align() -> None:
        backend.log.append("align")
        backend.now_us += 1e6

    times = run_block(
        backend,  # type: ignore[arg-type]  # a log with the methods the loop calls
        interval,
        align=align,
        align_once=align_once,
        queue=None,
        samples=samples,
        k=k,
        first_iteration=first,
        epoch_ns=time.perf_counter_ns(),
    )
    return backend.log, times


def test_the_order_of_one_block() -> None:
    """Ranks line up before every interval, outside it; intervals get their first iteration; one wait at the end."""
    log, _ = _run(samples=2, k=2, first=7)
    assert ["mark 7", "align", "record", "interval 7", "record"] == log[:5]
    assert ["mark 9", "align", "record", "interval 9", "record", "sync"] == log[5:]


def test_ranks_may_line_up_once() -> None:
    """Before the first interval only, outside it; the others follow one another."""
    log, _ = _run(samples=3, k=4, first=0, align_once=True)
    assert ["mark 0", "align", "record", "interval 0", "record"] == log[:5]
    assert ["mark 4", "record", "interval 4", "record", "mark 8", "record", "interval 8", "record", "sync"] == log[5:]


@pytest.mark.parametrize("align_once", [False, True])
@pytest.mark.parametrize(("k", "time_us"), [(1, 10.0), (4, 2.5), (3, 3.3333)])
def test_times_are_for_one_operation(k: int, time_us: float, align_once: bool) -> None:
    """An interval of 10 us with k operations; lining up is in none."""
    _, times = _run(samples=5, k=k, first=0, align_once=align_once)
    assert (time_us,) * 5 == times.time_us
    assert 5 == len(times.issue_us)


def test_start_and_wall_time_are_the_hosts() -> None:
    """Microseconds since the epoch given, and of the whole block."""
    _, times = _run(samples=1, k=1, first=0)
    assert 0.0 <= times.start_us < 1e6
    assert 0.0 <= times.wall_us < 1e6


def test_issue_time_is_the_hosts_for_one_operation() -> None:
    """An interval of four operations that took the host 40 ms to enqueue is 10 ms for each."""
    backend = ScriptedBackend()
    times = run_block(
        backend,  # type: ignore[arg-type]
        lambda _: time.sleep(0.04),
        align=lambda: None,
        align_once=False,
        queue=None,
        samples=1,
        k=4,
        first_iteration=0,
        epoch_ns=time.perf_counter_ns(),
    )
    assert 10_000.0 <= times.issue_us[0] < 10_000.0 + times.wall_us / 4
    assert (0.0,) == times.time_us
