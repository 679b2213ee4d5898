"""Reports written into a run folder."""

from pathlib import Path

import pytest

from gtpbench.errors import ResultsError
from gtpbench.record import append_line
from gtpbench.report.render import write_reports
from gtpbench.scenario.load import dump_scenario
from tests.unit.report.runs import RUNS, Run

FILES = {"report.md", "report.json", "results.csv", "busbw.svg", "busbw.png", "time.svg", "time.png"}
INPUTS = {"results.jsonl", "environments.jsonl", "scenario.toml"}


def _fill(directory: Path, run: Run) -> None:
    for record in run.records:
        append_line(directory / "results.jsonl", record)
    for environment in run.environments.values():
        append_line(directory / "environments.jsonl", environment)
    (directory / "scenario.toml").write_text(dump_scenario(run.scenario))


def _names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def _no_warning(text: str) -> None:
    raise AssertionError(text)


def test_all_reports_are_written(tmp_path: Path) -> None:
    """Every format lies beside the results, no temporary file stays, and the view equals that of the records."""
    _fill(tmp_path, RUNS["cpu"]())
    view = write_reports(tmp_path, warn=_no_warning)
    assert _names(tmp_path) == FILES | INPUTS
    assert view == RUNS["cpu"]().view()


def test_rendering_again_changes_nothing(tmp_path: Path) -> None:
    """Text reports are the same bytes the second time."""
    _fill(tmp_path, RUNS["cpu"]())
    write_reports(tmp_path, warn=_no_warning)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    write_reports(tmp_path, warn=_no_warning)
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before


def test_old_figures_do_not_stay(tmp_path: Path) -> None:
    """A run without rates has no figure of them, not one of an earlier rendering either."""
    _fill(tmp_path, RUNS["shared_gpu"]())
    (tmp_path / "busbw.svg").write_text("old")
    write_reports(tmp_path, warn=_no_warning)
    assert _names(tmp_path) == (FILES | INPUTS) - {"busbw.svg", "busbw.png"}


def test_results_alone_are_enough(tmp_path: Path) -> None:
    """Without environments and scenario the numbers are the same; the command is not known."""
    _fill(tmp_path, RUNS["cpu"]())
    (tmp_path / "environments.jsonl").unlink()
    (tmp_path / "scenario.toml").unlink()
    view = write_reports(tmp_path, warn=_no_warning)
    assert view.groups == RUNS["cpu"]().view().groups
    assert "The command was not recorded." in (tmp_path / "report.md").read_text()


def test_a_broken_scenario_is_a_warning(tmp_path: Path) -> None:
    """Results stay readable when the scenario beside them is not."""
    _fill(tmp_path, RUNS["cpu"]())
    (tmp_path / "scenario.toml").write_text("name = ")
    warnings: list[str] = []
    write_reports(tmp_path, warn=warnings.append)
    assert len(warnings) == 1 and "scenario.toml" in warnings[0]


@pytest.mark.parametrize("content", [None, ""])
def test_a_folder_without_results(tmp_path: Path, content: str | None) -> None:
    """A missing or an empty results file is an error that names it."""
    if content is not None:
        (tmp_path / "results.jsonl").write_text(content)
    with pytest.raises(ResultsError, match=r"results\.jsonl"):
        write_reports(tmp_path, warn=_no_warning)


def test_an_unwritable_file(tmp_path: Path) -> None:
    """A report that cannot be replaced is an error that names it, and leaves no temporary file."""
    _fill(tmp_path, RUNS["cpu"]())
    (tmp_path / "report.json").mkdir()
    (tmp_path / "report.json" / "x").touch()
    with pytest.raises(ResultsError, match=r"report\.json"):
        write_reports(tmp_path, warn=_no_warning)
    assert not [name for name in _names(tmp_path) if name.startswith(".")]
