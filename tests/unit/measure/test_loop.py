"""The timing loop, on a backend that writes a log."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from gtpbench.measure.loop import run_block


class LoggingBackend:
    """Logs every call; events are numbers, and an event is 10 us after the one before."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.context = SimpleNamespace(mark=lambda number: self.log.append(f"mark {number}"))
        self._events = 0

    def barrier(self, queue: Any) -> None:
        self.log.append("barrier")

    def record(self, queue: Any) -> int:
        self.log.append("record")
        self._events += 1
        return self._events

    def host_sync(self, queue: Any) -> None:
        self.log.append("sync")

    def elapsed_us(self, start: int, end: int) -> float:
        return 10.0 * (end - start)


def _run(samples: int, k: int, first: int) -> tuple[list[str], Any]:
    backend = LoggingBackend()
    times = run_block(
        backend,  # type: ignore[arg-type]  # a log with the methods the loop calls
        lambda iteration: backend.log.append(f"step {iteration}"),
        queue=None,
        samples=samples,
        k=k,
        first_iteration=first,
        epoch_ns=time.perf_counter_ns(),
    )
    return backend.log, times


def test_the_order_of_one_block() -> None:
    """Ranks line up before every interval, outside it; steps are numbered through; one wait at the end."""
    log, _ = _run(samples=2, k=2, first=7)
    assert ["mark 7", "barrier", "record", "step 7", "step 8", "record"] == log[:6]
    assert ["mark 9", "barrier", "record", "step 9", "step 10", "record", "sync"] == log[6:]


@pytest.mark.parametrize(("k", "time_us"), [(1, 10.0), (4, 2.5), (3, 3.3333)])
def test_times_are_for_one_operation(k: int, time_us: float) -> None:
    """An interval of 10 us with k operations."""
    _, times = _run(samples=5, k=k, first=0)
    assert (time_us,) * 5 == times.time_us


def test_start_and_wall_time_are_the_hosts() -> None:
    """Microseconds since the epoch given, and of the whole block."""
    _, times = _run(samples=1, k=1, first=0)
    assert 0.0 <= times.start_us < 1e6
    assert 0.0 <= times.wall_us < 1e6
