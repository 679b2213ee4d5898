"""Reading nccl-tests' JSON."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import ResultsError, UsageError
from gtpbench.record.nccl_tests.read import read_output
from tests.unit.record.nccl_tests.files import DATA, changed_json, silent

Change = Callable[[Any], None]


def test_a_whole_file() -> None:
    """Every row, both placements, the command line, and what the configuration says."""
    output = read_output(DATA / "all_gather_R2.json", warn=silent)
    assert (output.program, output.version, output.nccl_version) == ("all_gather_perf", None, 23007)
    assert output.args is not None
    assert output.args[9:11] == ("-R", "2")
    assert (output.num_ranks, dict(output.variables)) == (2, {})
    assert (output.settings.iterations, output.settings.aggregated, output.settings.graph_launches) == (20, 1, 10)
    assert output.settings.blocking == 0
    assert [(p.rank, p.pid, p.pci, p.gpu) for p in output.processes] == [
        (0, 1875, "0000:00:06", "NVIDIA H200"),
        (1, 1876, "0000:00:06", "NVIDIA H200"),
    ]
    assert [row.size_bytes for row in output.rows] == [65536 * 4**power for power in range(7)]
    row = output.rows[6]
    assert (row.count, row.dtype, row.op, row.iterations) == (67108864, "bfloat16", "none", 20)
    assert [(m.time_us, m.num_wrong) for m in row.placements.values()] == [(562.457433, 0), (347.147545, 0)]
    assert [m.events for m in row.placements.values()] == [None, None]


def test_text_and_json_of_one_run_agree() -> None:
    """Both readers give the same rows, up to the digits that text prints."""
    for name in ("all_gather_R0", "all_gather_R2", "reduce_scatter_R0"):
        text = read_output(DATA / f"{name}.txt", warn=silent)
        values = read_output(DATA / f"{name}.json", warn=silent)
        assert text.processes == values.processes
        for ours, theirs in zip(text.rows, values.rows, strict=True):
            assert (ours.size_bytes, ours.count, ours.dtype, ours.op) == (
                theirs.size_bytes,
                theirs.count,
                theirs.dtype,
                theirs.op,
            )
            for placement, measured in ours.placements.items():
                assert measured.time_us == pytest.approx(theirs.placements[placement].time_us, abs=0.005)


def test_times_of_single_iterations() -> None:
    """Of each process, in order; the file's own maximum over processes agrees."""
    output = read_output(DATA / "all_gather_periter.json", warn=silent)
    events = output.rows[0].placements["out_of_place"].events
    assert events is not None
    assert (events.of_processes, events.num_skipped, len(events.time_us)) == (True, 0, 2)
    assert events.time_us[0][:3] == (19.872, 24.800001, 14.624)
    assert events.time_us[1][-1] == 12.512
    assert [len(times) for times in events.time_us] == [20, 20]


def test_one_process_has_only_the_maximum(tmp_path: Path) -> None:
    """`-g 8` without MPI: one listed rank, eight ranks, one row of times."""

    def change(values: Any) -> None:
        values["config"]["devices"] = values["config"]["devices"][:1]
        values["config"]["ngpus"] = 8
        for row in values["results"]:
            for name in ("out_of_place_per_iter", "in_place_per_iter"):
                del row[name]["per_process_max_times_us"]

    output = read_output(changed_json(tmp_path / "f", change, name="all_gather_periter"), warn=silent)
    assert output.num_ranks == 8
    events = output.rows[0].placements["in_place"].events
    assert events is not None
    assert (events.of_processes, len(events.time_us)) == (False, 1)
    assert events.time_us[0][:2] == (43.264002, 13.76)


def test_a_maximum_that_is_none_is_told(tmp_path: Path) -> None:
    """The self-check: `times_us` must be the maximum over the processes' rows."""
    told: list[str] = []

    def change(values: Any) -> None:
        values["results"][0]["out_of_place_per_iter"]["times_us"][2] = 15.0

    output = read_output(changed_json(tmp_path / "f", change, name="all_gather_periter"), warn=told.append)
    where = f"{tmp_path / 'f'}: results.0.out_of_place_per_iter"
    assert told == [f"{where}: iteration 2 says 15.0 us, but its slowest process took 14.624 us"]
    assert output.rows[0].placements["out_of_place"].events is not None


def test_a_time_that_is_no_number_drops_the_iterations(tmp_path: Path) -> None:
    """NaN is the string "nan"; the loop's time stays."""
    told: list[str] = []

    def change(values: Any) -> None:
        values["results"][0]["out_of_place_per_iter"]["times_us"][0] = "nan"

    row = read_output(changed_json(tmp_path / "f", change, name="all_gather_periter"), warn=told.append).rows[0]
    assert row.placements["out_of_place"].events is None
    assert row.placements["out_of_place"].time_us == 13.4987
    assert "left out" in told[0]


def test_strings_for_booleans_and_numbers(tmp_path: Path) -> None:
    """`"false"` is false, `"nan"` is no number, null is unchecked, and a placement may be missing."""

    def change(values: Any) -> None:
        values["results"][0]["out_of_place"]["time"] = "nan"
        values["results"][1]["out_of_place"]["nwrong"] = None
        values["results"][2]["out_of_place"] = None

    output = read_output(changed_json(tmp_path / "f", change), warn=silent)
    assert math.isnan(output.rows[0].placements["out_of_place"].time_us)
    assert output.rows[1].placements["out_of_place"].num_wrong is None
    assert list(output.rows[2].placements) == ["in_place"]


@pytest.mark.parametrize(
    ("args", "blocking"), [([], None), (["-z", "3"], 3), (["--blocking=2"], 2), (["-z", "7"], None)]
)
def test_blocking_is_read_off_the_command_line(tmp_path: Path, args: list[str], blocking: int | None) -> None:
    """The configuration says only that it was on."""

    def change(values: Any) -> None:
        values["config"]["blocking_collectives"] = "true"
        values["args"] += args

    assert read_output(changed_json(tmp_path / "f", change), warn=silent).settings.blocking == blocking


def test_a_newer_version_is_told(tmp_path: Path) -> None:
    """It is read as far as its fields are there."""
    told: list[str] = []
    read_output(changed_json(tmp_path / "f", lambda values: values.update(version=4)), warn=told.append)
    assert told == [f"{tmp_path / 'f'}: JSON version 4 is newer than 3, the newest known here"]


def test_an_older_version_has_fewer_fields(tmp_path: Path) -> None:
    """Version 1 has nothing of single iterations and may lack the numbers of iterations."""

    def change(values: Any) -> None:
        values["version"] = 1
        for name in ("per_iter_timing", "per_iter_skip"):
            del values["config"][name]
        for row in values["results"]:
            del row["actual_iterations"]

    assert read_output(changed_json(tmp_path / "f", change), warn=silent).rows[0].iterations == 20


def _set(*path: str | int, to: Any) -> Change:
    def change(values: Any) -> None:
        for part in path[:-1]:
            values = values[part]
        values[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        (lambda values: values.pop("out_of_bounds"), "out_of_bounds: Field required"),
        (lambda values: values.pop("config"), "config: Field required"),
        (_set("config", "devices", to=[]), "config.devices"),
        (_set("config", "iterations", to=0), "config.iterations"),
        (_set("results", 3, "size", to=-1), "results.3.size"),
        (_set("results", 3, "out_of_place", "time", to="fast"), "results.3.out_of_place.time"),
        (_set("results", 3, "out_of_place", to={"nwrong": 0.0}), "results.3.out_of_place: no time"),
        (_set("results", to={}), "results"),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named(tmp_path: Path, change: Change, needle: str) -> None:
    """By its path in the file."""
    with pytest.raises(ResultsError) as raised:
        read_output(changed_json(tmp_path / "f", change), warn=silent)
    assert str(tmp_path / "f") in str(raised.value)
    assert needle in str(raised.value)


@pytest.mark.parametrize("times", [[[1.0], [1.0]], [[1.0] * 20, [1.0] * 19]])
def test_processes_need_as_many_iterations(tmp_path: Path, times: list[list[float]]) -> None:
    """Ragged rows are no times of one loop."""
    change = _set("results", 0, "in_place_per_iter", "per_process_max_times_us", to=times)
    with pytest.raises(ResultsError, match=r"results\.0\.in_place_per_iter: needs 20 times of every process"):
        read_output(changed_json(tmp_path / "f", change, name="all_gather_periter"), warn=silent)


def test_times_of_issuing_are_refused(tmp_path: Path) -> None:
    """`-C 1` writes `cpu_time` in place of `time`."""
    change = _set("results", 0, "out_of_place", to={"cpu_time": 1.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0.0})
    with pytest.raises(UsageError, match="issuing only"):
        read_output(changed_json(tmp_path / "f", change), warn=silent)


def test_a_file_that_is_cut_names_the_line(tmp_path: Path) -> None:
    """The first 100 lines of a file are no JSON; line 100 is where it ends."""
    lines = (DATA / "all_gather_R0.json").read_text(encoding="utf-8").splitlines()[:100]
    (tmp_path / "f").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"f:100: JSON is cut or broken"):
        read_output(tmp_path / "f", warn=silent)


def test_json_of_another_tool(tmp_path: Path) -> None:
    """Named with the first field that is missing."""
    (tmp_path / "f").write_text('{"results": []}', encoding="utf-8")
    with pytest.raises(ResultsError, match="no whole JSON output of nccl-tests: version: Field required"):
        read_output(tmp_path / "f", warn=silent)
