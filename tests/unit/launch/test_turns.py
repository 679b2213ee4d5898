"""What a rank decides between its turns: counts from all arms' estimates, and whose turn it is."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gtpbench.launch import turns
from gtpbench.launch.meeting import await_all_sets
from gtpbench.launch.rank import Rank
from gtpbench.measure.calibrate import Counts
from gtpbench.plan import Plan
from tests.examples import make_plan


class Values:
    """An exchange with values set beforehand; keeps what was waited for."""

    def __init__(self, **values: Any) -> None:
        self.values = {key: json.dumps(value).encode() for key, value in values.items()}
        self.waited: list[str] = []

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        self.waited.append(key)
        return self.values[key]


class Events:
    """Keeps what is sent to the supervisor."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def make_rank(plan: Plan, values: Values, *, number: int = 0, **spec: Any) -> Rank:
    """A rank of set 0 at the plan's first case."""
    made = Rank(
        spec=SimpleNamespace(rank=number, set_id=0, set_ids=(0,), scenario=plan.scenario, **spec),  # type: ignore[arg-type]
        plan=plan,
        board=None,  # type: ignore[arg-type]
        events=Events(),  # type: ignore[arg-type]
        control=None,  # type: ignore[arg-type]
        fault=None,
        epoch_ns=0,
    )
    made.exchange = values
    made.case = 0
    return made


ARMS = ["none", "symm", "nccltests:0"]
GPU: dict[str, Any] = {"backend": "nccl_torch", "arms": ARMS}
MEASURE: dict[str, Any] = {"clock": "both", "time_budget_s": 2.0, "blocks": 10}
LIVE = [(0, ARMS)]


def estimates() -> Values:
    """By arm and clock: microseconds of one operation, and operations of a graph."""
    return Values(
        **{
            "estimate/0/none": {"graph": [20.0, 64], "stream": [80.0, None]},
            "estimate/0/symm": {"graph": [10.0, 128], "stream": [120.0, None]},
            "estimate/0/nccltests:0": {"graph": [25.0, 20], "stream": [100.0, 20]},
        }
    )


@pytest.mark.parametrize("arm", ["none", "symm"])
def test_compared_arms_run_the_same_on_each_clock(arm: str) -> None:
    """2 s over two clocks and ten blocks are 100 ms: of 30 us 3333 operations, 26 graphs of 128; of 200 us 500
    operations, 50 intervals of ten. nccl-tests' arm has no say."""
    rank = make_rank(make_plan(**GPU, measure=MEASURE), estimates())
    expected = {"graph": Counts(samples=26, k=128), "stream": Counts(samples=50, k=10)}
    assert expected == turns._counts(rank, LIVE, arm)
    assert ["estimate/0/none", "estimate/0/symm"] == rank.exchange.waited  # type: ignore[attr-defined]


def test_nccltests_counts_are_its_own() -> None:
    """20 operations on both clocks: 100 ms are 4000 of 25 us, which 50 graphs at most may use, and 1000 of 100 us."""
    rank = make_rank(make_plan(**GPU, measure=MEASURE), estimates())
    expected = {"graph": Counts(samples=50, k=20), "stream": Counts(samples=50, k=20)}
    assert expected == turns._counts(rank, LIVE, "nccltests:0")


def test_rank_0_tells_the_counts_of_each_clock() -> None:
    """With the length of a block on all clocks: 26 x 128 x 20 us + 500 x 80 us."""
    rank = make_rank(make_plan(**GPU, measure=MEASURE), estimates())
    turns._counts(rank, LIVE, "none")
    (told,) = rank.events.sent  # type: ignore[attr-defined]
    assert 0.10656 == pytest.approx(told.pop("block_seconds"))
    assert told == {"event": "counts", "case": 0, "arm": "none", "counts": {"graph": [26, 128], "stream": [50, 10]}}
    other = make_rank(make_plan(**GPU, measure=MEASURE), estimates(), number=1)
    turns._counts(other, LIVE, "none")
    assert [] == other.events.sent  # type: ignore[attr-defined]


def test_counts_are_chosen_once() -> None:
    """Those of an earlier launch win, whatever this one would estimate, and are told to nobody."""
    rank = make_rank(make_plan(**GPU, measure=MEASURE), Values())
    rank.counts[0, "symm"] = {"graph": Counts(samples=3, k=16)}
    assert {"graph": Counts(samples=3, k=16)} == turns._counts(rank, LIVE, "symm")
    assert [] == rank.events.sent  # type: ignore[attr-defined]


def test_functional_runs_take_two_samples_of_one_operation() -> None:
    """On every clock, for every arm."""
    rank = make_rank(make_plan(**GPU, measure=MEASURE, functional=True), estimates())
    for arm in ARMS:
        assert dict.fromkeys(("graph", "stream"), Counts(samples=2, k=1)) == turns._counts(rank, LIVE, arm)


def test_nothing_begins_before_all_sets_have_met() -> None:
    """Also this one: a process that still starts would disturb what is timed."""
    values = Values(**{"met/0": None, "met/2": None, "met/5": None})
    rank = make_rank(make_plan(), values)
    rank.spec.set_ids = (0, 2, 5)  # type: ignore[misc]
    await_all_sets(rank)
    assert ["met/0", "met/2", "met/5"] == values.waited
