"""What a clock finds out before the first timed block, worked by hand."""

import time
from collections.abc import Mapping

import pytest

from gtpbench.measure.calibrate import Estimate
from gtpbench.measure.clocks import CallClock, GraphClock
from gtpbench.measure.estimate import estimate
from tests.unit.measure.scripted import ScriptedBackend


class OtherRank:
    """A set of two ranks of which the other one has measured `others_us` every time."""

    def __init__(self, others_us: float = 0.0) -> None:
        self.told_us: list[float] = []
        self._others_us = others_us

    def agree_max(self, value: float) -> float:
        self.told_us.append(value)
        return max(value, self._others_us)


def _graph(backend: ScriptedBackend, *, fixed_k: int | None = None, others_us: float = 0.0) -> Estimate:
    clock = GraphClock(
        backend,  # type: ignore[arg-type]  # a log with the methods the clock calls
        backend.step,
        queue=None,
        epoch_ns=time.perf_counter_ns(),
    )
    return estimate(clock, OtherRank(others_us), fixed_k=fixed_k)  # type: ignore[arg-type]


def _calls(backend: ScriptedBackend, *, fixed_k: int | None = None, others_us: float = 0.0) -> Estimate:
    clock = CallClock(
        backend,  # type: ignore[arg-type]
        backend.step,
        queue=None,
        epoch_ns=time.perf_counter_ns(),
        name="stream",
    )
    return estimate(clock, OtherRank(others_us), fixed_k=fixed_k)  # type: ignore[arg-type]


def _by_length(each_us: Mapping[int, float]) -> ScriptedBackend:
    """Microseconds of one operation in a graph of so many."""
    return ScriptedBackend(graph_us=lambda k: k * each_us[k])


def _captured(backend: ScriptedBackend) -> list[int]:
    """Length of each graph, in order."""
    lengths: list[int] = []
    for line in backend.log:
        if line == "capture":
            lengths.append(0)
        elif line.startswith("step"):
            lengths[-1] += 1
    return lengths


@pytest.mark.parametrize(
    ("each_us", "k"),
    [
        # From 16 to 32 operations the time of one changes by 5 %, then by 2.1 %, then by 0.5 %.
        ({16: 10.0, 32: 9.5, 64: 9.3, 128: 9.25}, 128),
        # Settled at once: 1 %, in either direction.
        ({16: 100.0, 32: 99.0}, 32),
        ({16: 100.0, 32: 101.0}, 32),
        # 2 % is not less than 2 %.
        ({16: 100.0, 32: 98.0, 64: 98.0}, 64),
        # Growing counts as much as falling.
        ({16: 100.0, 32: 110.0, 64: 111.0}, 64),
    ],
)
def test_a_graph_is_doubled_until_its_time_settles(each_us: dict[int, float], k: int) -> None:
    """By less than 2 %; the last one captured is the one that is kept, with its own time."""
    backend = _by_length(each_us)
    assert Estimate(us=each_us[k], k=k) == _graph(backend)
    assert list(each_us) == _captured(backend)


def test_a_graph_has_512_operations_at_most() -> None:
    """However much the time still changes: here it halves every time."""
    each_us = {16: 64.0, 32: 32.0, 64: 16.0, 128: 8.0, 256: 4.0, 512: 2.0}
    backend = _by_length(each_us)
    assert Estimate(us=2.0, k=512) == _graph(backend)
    assert list(each_us) == _captured(backend)


def test_the_time_is_the_median_of_ten_replays() -> None:
    """After a block that counts for nothing. Of the ten, four took a hundred times as long."""
    replays = iter([1e6, 1e6, 1e6, *[160.0, 16_000.0, 160.0, 16_000.0, 160.0] * 2, *[320.0] * 13])
    backend = ScriptedBackend(graph_us=lambda _: next(replays))
    assert Estimate(us=10.0, k=32) == _graph(backend)
    assert 2 * 13 == backend.log.count("replay")
    assert [] == list(replays)


def test_the_slowest_rank_decides_on_the_graph() -> None:
    """All ranks capture the same: this one's time halves, the other one's has settled."""
    backend = _by_length({16: 64.0, 32: 32.0})
    assert Estimate(us=100.0, k=32) == _graph(backend, others_us=100.0)


def test_a_prescribed_graph_is_captured_once() -> None:
    """Settled or not."""
    backend = _by_length({20: 7.0})
    assert Estimate(us=7.0, k=20) == _graph(backend, fixed_k=20)
    assert [20] == _captured(backend)


def test_prescribed_calls_are_run_once() -> None:
    """As many as prescribed; they warm up and estimate in one."""
    backend = ScriptedBackend(call_us=lambda _: 7.0)
    assert Estimate(us=7.0, k=20) == _calls(backend, fixed_k=20)
    assert 20 == sum(line.startswith("step") for line in backend.log)


def test_long_calls_are_estimated_from_three() -> None:
    """The second three: what is cold is cold in the first three, and 3 x 700 us is long enough."""
    backend = ScriptedBackend(call_us=lambda number: 50_000.0 if number < 3 else 700.0)
    assert Estimate(us=700.0, k=None) == _calls(backend)
    assert 6 == sum(line.startswith("step") for line in backend.log)


def test_short_calls_are_estimated_from_2_ms_of_them() -> None:
    """40 us at first, so 2000 / 40 = 50 operations, which take 25 us each once they are warm."""
    backend = ScriptedBackend(call_us=lambda number: 40.0 if number < 6 else 25.0)
    assert Estimate(us=25.0, k=None) == _calls(backend)
    assert 3 + 3 + 50 == sum(line.startswith("step") for line in backend.log)


def test_calls_without_time_are_estimated_from_2000() -> None:
    """A modelled operation may take none."""
    backend = ScriptedBackend(call_us=lambda _: 0.0)
    assert Estimate(us=0.0, k=None) == _calls(backend)
    assert 3 + 3 + 2000 == sum(line.startswith("step") for line in backend.log)


def test_the_slowest_rank_decides_on_the_calls() -> None:
    """All ranks issue the same: 3 x 900 us on the other one are long enough for both."""
    backend = ScriptedBackend(call_us=lambda _: 10.0)
    assert Estimate(us=900.0, k=None) == _calls(backend, others_us=900.0)
    assert 6 == sum(line.startswith("step") for line in backend.log)
