"""What each clock enqueues in an interval, and what lines the ranks up before it."""

import time

import pytest

from gtpbench.measure.clocks import CallClock, GraphClock
from tests.unit.measure.scripted import GRAPH_ROWS, TRACE_ROWS, ScriptedBackend


def _graph(backend: ScriptedBackend) -> GraphClock:
    return GraphClock(
        backend,  # type: ignore[arg-type]  # a log with the methods the clock calls
        backend.step,
        queue=None,
        epoch_ns=time.perf_counter_ns(),
    )


def _calls(backend: ScriptedBackend) -> CallClock:
    return CallClock(
        backend,  # type: ignore[arg-type]
        backend.step,
        queue=None,
        epoch_ns=time.perf_counter_ns(),
        name="stream",
    )


def test_a_graph_is_captured_once_for_each_length() -> None:
    """k operations from iteration 0; the same k again captures nothing, another one drops the old graph first."""
    backend = ScriptedBackend()
    clock = _graph(backend)
    clock.prepare(3)
    assert ["capture", "step 0", "step 1", "step 2"] == backend.taken()
    clock.prepare(3)
    clock.run(2)
    clock.prepare(3)
    assert "capture" not in backend.taken()
    clock.prepare(2)
    assert ["graph gone", "capture", "step 0", "step 1"] == backend.taken()
    assert 2 == clock.k


def test_a_replay_lines_the_ranks_up_before_the_first_interval_only() -> None:
    """Each replay lines up the next one: no barrier, and one replay more than intervals."""
    backend = ScriptedBackend()
    clock = _graph(backend)
    clock.prepare(4)
    backend.taken()
    times = clock.run(3)
    assert ["mark 0", "replay", "record", "replay", "record"] == (log := backend.taken())[:5]
    assert ["mark 4", "record", "replay", "record", "mark 8", "record", "replay", "record", "sync"] == log[5:]
    assert (10.0, 10.0, 10.0) == times.time_us
    assert ("graph", "previous_replay") == (clock.name, clock.alignment)


def test_each_block_of_a_graph_lines_up_again() -> None:
    """Another arm ran in between."""
    backend = ScriptedBackend()
    clock = _graph(backend)
    clock.prepare(1)
    backend.taken()
    for _ in range(2):
        clock.run(2)
        assert 3 == backend.taken().count("replay")


def test_release_drops_the_graph() -> None:
    """Nothing holds on to the buffers any more; twice is fine; another block needs another capture."""
    backend = ScriptedBackend()
    clock = _graph(backend)
    clock.prepare(2)
    clock.run(1)
    backend.taken()
    clock.release()
    assert ["graph gone"] == backend.taken()
    clock.release()
    assert [] == backend.taken()
    clock.prepare(2)
    assert "capture" == backend.taken()[0]


def test_capture_time_is_the_last_captures() -> None:
    """The host's, of as much work as the graph holds: each operation takes the host 20 ms to record."""
    backend = ScriptedBackend()
    clock = GraphClock(
        backend,  # type: ignore[arg-type]
        lambda _: time.sleep(0.02),
        queue=None,
        epoch_ns=time.perf_counter_ns(),
    )
    clock.prepare(4)
    assert clock.capture_us >= 80_000.0
    clock.prepare(1)
    assert 20_000.0 <= clock.capture_us < 80_000.0


def test_what_is_observed_is_the_timed_graph() -> None:
    """With the number of its operations."""
    backend = ScriptedBackend()
    clock = _graph(backend)
    clock.prepare(4)
    clock.run(1)
    backend.taken()
    assert (4, GRAPH_ROWS) == clock.observe()
    assert ["observe 4"] == backend.taken()


def test_called_operations_are_numbered_through() -> None:
    """Over intervals and blocks, so that buffers keep rotating; the ranks line up before every interval."""
    backend = ScriptedBackend()
    clock = _calls(backend)
    clock.prepare(2)
    times = clock.run(2)
    assert ["mark 0", "barrier", "record", "step 0", "step 1", "record"] == (log := backend.taken())[:6]
    assert ["mark 2", "barrier", "record", "step 2", "step 3", "record", "sync"] == log[6:]
    assert (10.0, 10.0) == times.time_us
    clock.prepare(3)
    clock.run(1)
    assert ["step 4", "step 5", "step 6"] == [line for line in backend.taken() if line.startswith("step")]
    assert ("stream", 3, "all-reduce") == (clock.name, clock.k, clock.alignment)


@pytest.mark.parametrize(("k", "calls"), [(1, 8), (2, 2), (7, 7), (8, 8), (9, 8), (400, 8)])
def test_few_operations_are_traced(k: int, calls: int) -> None:
    """Those of an interval, at most eight; where intervals are single operations, eight."""
    backend = ScriptedBackend()
    clock = _calls(backend)
    clock.prepare(k)
    backend.taken()
    assert (calls, TRACE_ROWS) == clock.trace()
    assert ["barrier", "sync", "trace", *(f"step {number}" for number in range(calls))] == backend.taken()


def test_tracing_leaves_the_numbering_alone() -> None:
    """The next block goes on where the last one ended."""
    backend = ScriptedBackend()
    clock = _calls(backend)
    clock.prepare(5)
    clock.run(1)
    clock.trace()
    backend.taken()
    clock.run(1)
    assert "step 5" == next(line for line in backend.taken() if line.startswith("step"))
