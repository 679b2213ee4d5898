"""Whole imports: folder, digests, and what reports make of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gtpbench.errors import IncomparableError, ResultsError, UsageError
from gtpbench.launch.merge import merge_folders
from gtpbench.launch.probe import allowed_variables
from gtpbench.record import Record, read_environments, read_records
from gtpbench.record.nccl_tests.folder import import_files
from gtpbench.report.closing import closing_line
from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.nccl_tests import render_nccl_tests
from gtpbench.report.render import read_view
from gtpbench.report.terminal import render_text
from gtpbench.report.trust import trust_lines
from tests.unit.record.nccl_tests.files import DATA, changed_json, changed_text, made_of, number_line, silent


def _import(target: Path, *files: str | Path, arm: str | None = None, warn: Any = lambda _: None) -> int:
    return import_files([DATA / file for file in files], target, arm=arm, allowed=allowed_variables, warn=warn)


def _records(target: Path) -> list[Record]:
    return read_records(target / "results.jsonl", warn=silent)


def _table(text: str) -> list[str]:
    """The lines of numbers."""
    return [line for line in text.splitlines() if line[:1] == " "]


def test_each_file_is_a_launch(tmp_path: Path) -> None:
    """With an environment of its own; the plan is one."""
    assert 0 == _import(tmp_path / "out", "all_gather_R0.json", "all_gather_R2.json", "reduce_scatter_R0.json")
    records = _records(tmp_path / "out")
    environments = read_environments(tmp_path / "out" / "environments.jsonl", warn=silent)
    assert [(record.launch, record.arm) for record in records[::14]] == [
        (0, "nccltests:0"),
        (1, "nccltests:2"),
        (2, "nccltests:0"),
    ]
    assert [environment.launch for environment in environments.values()] == [0, 1, 2]
    assert {record.environment_id: record.launch for record in records} == {
        environment_id: environment.launch for environment_id, environment in environments.items()
    }
    assert len({record.plan_digest for record in records}) == 1


@pytest.mark.parametrize("name", ["all_gather_R0", "all_gather_R2", "reduce_scatter_R0"])
@pytest.mark.parametrize("kind", ["txt", "json"])
def test_the_table_comes_back_as_nccl_tests_printed_it(tmp_path: Path, name: str, kind: str) -> None:
    """Every number of the file's own text, from its text and from its JSON."""
    arm = f"nccltests:{name[-1]}" if kind == "txt" else None
    _import(tmp_path / "out", f"{name}.{kind}", arm=arm)
    printed = _table((DATA / f"{name}.txt").read_text(encoding="utf-8"))
    shown = _table(render_nccl_tests(read_view(tmp_path / "out", warn=silent)))
    assert len(printed) == len(shown) == 7
    if kind == "json":
        assert printed == shown
        return
    for before, after in zip(printed, shown, strict=True):
        assert [*before.split()[:6], before.split()[8]] == [*after.split()[:6], after.split()[8]]


def _view(target: Path, *files: str, **options: Any) -> RunView:
    _import(target, *files, **options)
    return read_view(target, warn=silent)


def test_reports_say_what_the_times_are(tmp_path: Path) -> None:
    """A mean of a loop is never called a median of the slowest rank, nor given a range."""
    view = _view(tmp_path / "out", "all_gather_R0.json")
    text = render_text(view, width=120)
    assert "time of one operation, mean over ranks of the host-timed loop · every row ? unproven" in text
    assert "slowest" not in text
    assert " 6.38 " in text
    assert "(6.38" not in text
    assert "# time: graph clock, mean over ranks of the host-timed loop\n" in render_nccl_tests(view)
    assert "one operation: mean over ranks of the host-timed loop." in render_markdown(view)
    assert "p10" not in render_markdown(view)


def test_two_kinds_of_times_stand_side_by_side(tmp_path: Path) -> None:
    """By clock, each with what it is; rates are taken from the loop, as nccl-tests does."""
    view = _view(tmp_path / "out", "all_gather_periter.json")
    group = view.groups[0]
    assert group.clocks == ("host", "stream")
    row = group.rows[0]
    assert [(t.clock, t.aggregation, t.summary.num_samples) for t in row.timings] == [
        ("host", "mean over ranks of the host-timed loop", 1),
        ("stream", None, 20),
    ]
    assert row.headline is not None
    assert row.headline.summary.median_us == 13.4987
    assert row.headline.busbw_gb_per_s == pytest.approx(2.427493, abs=5e-7)
    # The file's own times_us, sorted, has 13.024 and 13.312 in the middle.
    assert row.timings[1].summary.median_us == pytest.approx((13.024 + 13.312) / 2)
    assert row.timings[1].summary.overhead_fraction == 0.0
    assert "host: mean over ranks of the host-timed loop; stream: median of the slowest rank's" in render_text(
        view, width=200
    )


def test_the_trust_box_and_the_last_line(tmp_path: Path) -> None:
    """Imported, unproven, no ratios: launches of other files never ran side by side."""
    view = _view(tmp_path / "out", "all_gather_R0.json", "all_gather_R2.json")
    trust = dict(trust_lines(view))
    assert trust["where"] == "2 ranks · imported from another tool"
    assert trust["sampled"] == "2 launches × 1 block · 1 sample a row"
    unproven = "without proof: nccltests:0 (unproven at every size), nccltests:2 (unproven at every size)"
    assert trust["proof"] == unproven
    assert trust["ratios"] == "none: no launch has blocks of both arms side by side"
    assert all(row.comparison is None for row in view.rows)
    assert {row.no_ratio.code for row in view.rows if row.no_ratio} == {"baseline", "unpaired"}
    closing = closing_line(view, exit_code=0, directory=tmp_path / "out")
    assert closing == f"nothing to compare · {unproven} · exit 0 · {tmp_path / 'out'}"
    assert view.name == "imported"


def test_notes_of_imported_rows(tmp_path: Path) -> None:
    """A GPU that was shared is a footnote; one mean is no rough percentile."""
    told: list[str] = []
    _import(tmp_path / "out", "all_gather_R0.json", warn=told.append)
    assert told == [f"{DATA / 'all_gather_R0.json'}: ranks share a GPU: its times say nothing about separate GPUs"]
    view = read_view(tmp_path / "out", warn=silent)
    assert {note.code for row in view.rows for note in row.notes} == {"shared_gpu"}
    path = tmp_path / "apart"
    path.write_text(made_of([_ROW]), encoding="utf-8")
    _import(tmp_path / "apart-out", path, arm="nccltests:0", warn=silent)
    assert read_view(tmp_path / "apart-out", warn=silent).footnotes == ()


_ROW = number_line(64, count=8).replace("       0", "     N/A", 1)


def test_unknown_is_not_shown_as_zero(tmp_path: Path) -> None:
    """What was not checked is N/A, an error's size is empty, and no machine of zero CPUs is reported."""
    path = tmp_path / "f"
    path.write_text(made_of([_ROW]), encoding="utf-8")
    _import(tmp_path / "out", path, arm="nccltests:0")
    view = read_view(tmp_path / "out", warn=silent)
    assert [row.num_wrong for group in view.groups for row in group.rows] == [None, 0]
    assert [row.errors for row in view.rows] == [None, None]
    assert dict(view.environment) == {
        "gpus": "2 x A GPU",
        "nodes": "1",
        "launcher": "nccl-tests",
        "nccl": "2.30.7",
        "nccl-tests": "2.19.6",
    }
    assert dict(trust_lines(view))["asked"] == "not recorded"


def test_wrong_and_missing_rows_are_told_in_the_reports(tmp_path: Path) -> None:
    """Wrong data and a time that is no number fail their rows; the others stay."""

    def change(values: Any) -> None:
        values["results"][0]["out_of_place"]["nwrong"] = 5.0
        values["results"][1]["out_of_place"]["time"] = "nan"
        values["out_of_bounds"] = {"count": 1, "okay": "false"}

    view = _view(tmp_path / "out", str(changed_json(tmp_path / "f", change)))
    text = render_text(view, width=120)
    assert "✗ wrong result  nccltests:0 at 64KiB: 5 wrong elements, counted by nccl-tests [wrong_data]" in text
    assert "✗ error         nccltests:0 at 256KiB: the file gives nan us as its time [no_time]" in text
    assert "FAILED: 2 of 14 rows (1 with wrong data)" in closing_line(view, exit_code=0, directory=tmp_path)
    assert "# Out of bounds values : 5 FAILED" in render_nccl_tests(view)


def test_an_existing_folder_is_never_written_to(tmp_path: Path) -> None:
    """Not even by the same import."""
    _import(tmp_path / "out", "all_gather_R0.json")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UsageError, match="exists: choose another --out"):
        _import(tmp_path / "out", "all_gather_R0.json")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    "files",
    [
        ("all_gather_R0.json", "all_gather_R0.json"),
        ("all_gather_R2.json", "all_gather_R0.txt", "all_gather_R0.json"),
    ],
)
def test_a_run_is_imported_once(tmp_path: Path, files: Sequence[str]) -> None:
    """The same file, or text and JSON of one run, are no two launches."""
    arm = "nccltests:0" if any(file.endswith("txt") for file in files) else None
    with pytest.raises(UsageError, match="the same run"):
        _import(tmp_path / "out", *files, arm=arm)
    assert not (tmp_path / "out").exists()


def test_runs_of_equal_process_numbers_are_told_apart_by_their_times(tmp_path: Path) -> None:
    """Containers begin to count anew: one more run of the same plan is one more launch of each cell."""
    again = changed_text(tmp_path / "again", ("     6.38   10.27", "     6.48   10.11"))
    _import(tmp_path / "out", "all_gather_R0.txt", again, arm="nccltests:0")
    row = read_view(tmp_path / "out", warn=silent).groups[0].rows[0]
    assert row.num_launches == 2
    assert row.headline is not None
    assert row.headline.summary.median_us == pytest.approx((6.38 + 6.48) / 2)


def test_unlike_machines_are_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    other = changed_text(tmp_path / "other", ("NVIDIA H200", "NVIDIA B200"), ("     6.38", "     5.38"))
    with pytest.raises(IncomparableError, match="gpus: NVIDIA B200 / NVIDIA H200"):
        _import(tmp_path / "out", "all_gather_R0.txt", other, arm="nccltests:0")
    assert not (tmp_path / "out").exists()


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    """A collective that gtpbench does not have; a file beside it that it has is imported."""
    told: list[str] = []
    path = changed_text(tmp_path / "f", ("all_gather_perf", "all_reduce_perf"))
    with pytest.raises(ResultsError, match=r"nothing to import: no row of .*f has a case here"):
        _import(tmp_path / "out", path, arm="nccltests:0")
    assert not (tmp_path / "out").exists()
    assert 7 == _import(tmp_path / "out", path, "reduce_scatter_R0.txt", arm="nccltests:0", warn=told.append)
    assert {record.launch for record in _records(tmp_path / "out")} == {1}
    assert len(read_environments(tmp_path / "out" / "environments.jsonl", warn=silent)) == 1
    assert any("unknown collective of program 'all_reduce_perf'" in text for text in told)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A path under a file."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ResultsError, match="cannot create"):
        _import(tmp_path / "file" / "out", "all_gather_R0.json")


def test_imports_of_one_plan_can_be_merged(tmp_path: Path) -> None:
    """Another run with the same settings is further launches; the same run is refused."""

    def change(values: Any) -> None:
        values["results"][0]["out_of_place"]["time"] = 7.0

    _import(tmp_path / "a", "all_gather_R0.json")
    _import(tmp_path / "b", changed_json(tmp_path / "f", change))
    merge_folders([tmp_path / "a", tmp_path / "b"], tmp_path / "ab", warn=silent)
    assert [0, 1] == sorted({record.launch for record in _records(tmp_path / "ab")})
    _import(tmp_path / "c", "all_gather_R0.json")
    with pytest.raises(UsageError, match="different launches"):
        merge_folders([tmp_path / "a", tmp_path / "c"], tmp_path / "ac", warn=silent)
