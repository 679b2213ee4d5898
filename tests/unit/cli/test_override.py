"""Flags over the keys of a scenario file."""

from pathlib import Path
from typing import Any

import pytest

from gtpbench.cli.override import Overrides
from gtpbench.errors import ScenarioError, UsageError
from gtpbench.scenario.load import load_scenario
from gtpbench.scenario.schema import Scenario

FILE = """
name = "a-file"
arms = ["none", "symm"]
num_ranks = 4
allow_skip = true
[workload]
collectives = ["all_gather"]
sizes = ["64K"]
[measure]
blocks = 6
launches = 5
iters = 60
seed = 3
[timeouts]
blocks_s = 7.5
"""
NOTHING: dict[str, Any] = {
    "num_ranks": None,
    "ranks_per_gpu": None,
    "launches": None,
    "time_budget": None,
    "seed": None,
    "functional": False,
    "allow_skip": False,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file."""
    written = tmp_path / "s.toml"
    written.write_text(FILE, encoding="utf-8")
    return written


def _apply(path: Path, **given: Any) -> Scenario:
    return Overrides(**{**NOTHING, **given}).apply(path)


def test_without_flags_the_file_is_the_scenario(path: Path) -> None:
    """Key for key."""
    assert load_scenario(path) == _apply(path)


def test_flags_win_over_keys(path: Path) -> None:
    """And leave all other keys alone."""
    scenario = _apply(path, num_ranks=2, ranks_per_gpu=2, launches=1, time_budget=0.5, seed=0, functional=True)
    assert (2, 2, 1, 0.5, 0, True) == (
        scenario.num_ranks,
        scenario.ranks_per_gpu,
        scenario.measure.launches,
        scenario.measure.time_budget_s,
        scenario.measure.seed,
        scenario.functional,
    )
    assert (6, 60, 7.5, True) == (
        scenario.measure.blocks,
        scenario.measure.iters,
        scenario.timeouts.blocks_s,
        scenario.allow_skip,
    )


def test_a_flag_left_out_does_not_switch_a_key_off(path: Path) -> None:
    """`allow_skip = true` in the file stays."""
    assert _apply(path).allow_skip
    assert not _apply(path).functional


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"num_ranks": 5000}, "num_ranks"),
        ({"ranks_per_gpu": 500}, "ranks_per_gpu"),
        ({"launches": 5000}, "measure.launches"),
        ({"time_budget": float("nan")}, "measure.time_budget_s"),
        ({"time_budget": float("inf")}, "measure.time_budget_s"),
        ({"seed": -1}, "measure.seed"),
    ],
)
def test_flags_obey_the_bounds_of_the_keys(path: Path, given: dict[str, Any], key: str) -> None:
    """What a file may not say a flag may not either; the key is named."""
    with pytest.raises(ScenarioError, match=f"flags: {key}: "):
        _apply(path, **given)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """As without flags."""
    with pytest.raises(UsageError, match="No such file"):
        _apply(tmp_path / "missing.toml", seed=1)
