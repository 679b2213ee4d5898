"""Scenario files: every error named by its key, and files that replay the same plan."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import ScenarioError, UsageError
from gtpbench.scenario.load import build_scenario, dump_scenario, load_scenario
from tests.examples import scenario_table

FILE = """
name = "a-file"
arms = ["none", "symm"]
num_ranks = 4

[workload]
collectives = ["all_gather", "reduce_scatter"]
sizes = ["64K", "1.5MiB", 12345]
dtypes = ["float", "bf16"]
placements = ["in_place"]

[measure]
time_budget_s = 3
launches = 5
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    """Sizes are bytes, types have their canonical names, a whole number of seconds is a number of seconds."""
    path = tmp_path / "s.toml"
    path.write_text(FILE, encoding="utf-8")
    scenario = load_scenario(path)
    assert (65536, 1572864, 12345) == scenario.workload.sizes
    assert ("fp32", "bf16") == scenario.workload.dtypes
    assert ("in_place",) == scenario.workload.placements
    assert (3.0, 5, 10) == (scenario.measure.time_budget_s, scenario.measure.launches, scenario.measure.blocks)
    assert ("none", "symm") == scenario.arms


def test_defaults_are_the_documented_ones() -> None:
    """bf16, out of place, sums, auto sizes, ten seconds, ten blocks, one launch."""
    table = {"name": "x", "workload": {"collectives": ["all_gather"]}, "arms": ["none"]}
    scenario = build_scenario(table, origin="test")
    assert ("auto", ("bf16",), ("out_of_place",), "sum") == (
        scenario.workload.sizes,
        scenario.workload.dtypes,
        scenario.workload.placements,
        scenario.workload.op,
    )
    assert ("auto", "auto", 10.0, 10, 1, None) == (
        scenario.backend,
        scenario.num_ranks,
        scenario.measure.time_budget_s,
        scenario.measure.blocks,
        scenario.measure.launches,
        scenario.measure.iters,
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"nmae": "x"}, "nmae: unknown key"),
        ({"measure": {"blokcs": 3}}, "measure.blokcs: unknown key"),
        ({"workload": {"collectives": ["all_gather"], "size": ["1K"]}}, "workload.size: unknown key"),
        ({"workload": {"sizes": ["1K"]}}, "workload.collectives: missing"),
        ({"workload": {"collectives": []}}, "workload.collectives: "),
        ({"workload": {"collectives": ["broadcast"]}}, "workload.collectives.0: "),
        ({"workload": {"collectives": ["all_gather"], "sizes": ["1X"]}}, "workload.sizes.0: '1X' is not a size"),
        ({"workload": {"collectives": ["all_gather"], "sizes": [64, 0]}}, "workload.sizes.1: "),
        ({"workload": {"collectives": ["all_gather"], "sizes": [1.5]}}, "workload.sizes.0: "),
        ({"workload": {"collectives": ["all_gather"], "sizes": "large"}}, "workload.sizes: "),
        ({"workload": {"collectives": ["all_gather"], "dtypes": ["bf15"]}}, "workload.dtypes.0: unknown dtype 'bf15'"),
        ({"workload": {"collectives": ["all_gather"], "op": "max"}}, "workload.op: "),
        ({"workload": {"collectives": ["all_gather"], "kind": "gtp"}}, "workload.kind: "),
        ({"workload": "all_gather"}, "workload: "),
        ({"arms": ["none", "simm"]}, "arms.1: unknown arm 'simm'"),
        ({"arms": ["none", "none"]}, "arms: none, none names an arm twice"),
        ({"arms": []}, "arms: "),
        ({"arms": "none"}, "arms: "),
        ({"num_ranks": 0}, "num_ranks: "),
        ({"num_ranks": 5000}, "num_ranks: "),
        ({"num_ranks": "two"}, "num_ranks: "),
        ({"num_ranks": True}, "num_ranks: "),
        ({"num_ranks": 2.0}, "num_ranks: "),
        ({"measure": {"blocks": 1}}, "measure.blocks: "),
        ({"measure": {"blocks": "10"}}, "measure.blocks: "),
        ({"measure": {"iters": 0}}, "measure.iters: "),
        ({"measure": {"time_budget_s": 0.0}}, "measure.time_budget_s: "),
        ({"measure": {"time_budget_s": float("nan")}}, "measure.time_budget_s: "),
        ({"measure": {"time_budget_s": float("inf")}}, "measure.time_budget_s: "),
        ({"measure": {"seed": -1}}, "measure.seed: "),
        ({"measure": {"hot": 1}}, "measure.hot: "),
        ({"measure": {"clock": "wall"}}, "measure.clock: "),
        ({"timeouts": {"blocks_s": -1.0}}, "timeouts.blocks_s: "),
        ({"timeouts": {"start_s": float("inf")}}, "timeouts.start_s: "),
        ({"schema_version": 2}, "schema_version: "),
        ({"backend": "mpi"}, "backend: "),
        ({"name": "../x"}, "name: "),
        ({"name": ""}, "name: "),
        ({"name": "x\n"}, "name: "),
        ({"name": "x" * 81}, "name: "),
        ({"functional": "yes"}, "functional: "),
    ],
)
def test_a_bad_value_is_named_with_its_path(changed: dict[str, Any], told: str) -> None:
    """One line: where the scenario came from, the key's path and no name of pydantic's own, what was given."""
    with pytest.raises(ScenarioError) as caught:
        build_scenario(scenario_table(**changed), origin="s.toml")
    text = str(caught.value)
    assert text.startswith(f"s.toml: {told}")
    assert "\n" not in text
    assert not [name for name in ("constrained", "tuple[", "literal[", "function-", "Value error") if name in text]


def test_all_errors_are_told_at_once() -> None:
    """Who has three mistakes fixes three mistakes."""
    with pytest.raises(ScenarioError) as caught:
        build_scenario(scenario_table(nmae="x", arms=["simm"], measure={"blokcs": 3}), origin="s.toml")
    text = str(caught.value)
    for part in ("nmae: unknown key", "arms.0: unknown arm 'simm'", "measure.blokcs: unknown key"):
        assert part in text
    assert 1 == text.count("s.toml")


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(UsageError, match=r"scenario .*s\.toml: No such file or directory"):
        load_scenario(tmp_path / "s.toml")


@pytest.mark.parametrize("content", [b"name = ", b"[measure", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_what_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    """Also where it is no text at all."""
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match="not TOML"):
        load_scenario(path)


def test_a_dumped_scenario_is_readable_toml() -> None:
    """Sizes are written for people, top-level keys stand before the first table, what is None is left out."""
    scenario = build_scenario(tomllib.loads(FILE), origin="test")
    text = dump_scenario(scenario)
    table = tomllib.loads(text)
    assert ["64KiB", "1.5MiB", "12345B"] == table["workload"]["sizes"]
    assert "iters" not in table["measure"]
    assert scenario == build_scenario(table, origin="test")
    assert text.index("functional") < text.index("[workload]")


def test_scenarios_are_frozen() -> None:
    """Nobody changes what was asked for."""
    scenario = build_scenario(scenario_table(), origin="test")
    with pytest.raises(ValueError, match="frozen"):
        scenario.name = "other"  # type: ignore[misc]  # what is refused
