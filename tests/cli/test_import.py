"""`gtpbench import`: nccl-tests' outputs to a folder that every other command reads."""

import json
import shutil
from pathlib import Path

import pytest

from gtpbench.record.model import Record
from tests.cli.command import ROOT, gtpbench, records

DATA = ROOT / "tests" / "data" / "nccl-tests"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the outputs in it."""
    for path in DATA.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


def _numbers(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(" ")]


def test_several_files_then_report(folder: Path) -> None:
    """Arms come from the command lines in the files; all rows are records; `report` prints what `import` printed."""
    words = ("all_gather_R0.json", "all_gather_R2.json", "reduce_scatter_R0.json")
    outcome = gtpbench("import", *words, "--out", "out", cwd=folder).run()
    assert outcome.code == 0, outcome.stderr
    found = [Record.model_validate(record, strict=False) for record in records(folder / "out")]
    assert len(found) == 3 * 7 * 2
    assert {(record.status, record.origin) for record in found} == {("ok", "imported")}
    assert {record.proof.verdict for record in found if record.proof} == {"unproven"}
    for name in ("environments.jsonl", "report.md", "report.json", "results.csv", "busbw.svg", "busbw.png"):
        assert (folder / "out" / name).stat().st_size > 0
    again = gtpbench("report", "out", cwd=folder).run()
    assert (again.code, again.stdout, again.stderr) == (0, outcome.stdout, "")
    assert "without proof: nccltests:0 (unproven at every size)" in again.stdout
    assert "none: no launch has blocks of both arms side by side" in again.stdout
    assert outcome.stderr.count("ranks share a GPU") == 3


def test_the_layout_of_nccl_tests_comes_back(folder: Path) -> None:
    """The file's own lines, number for number."""
    outcome = gtpbench("import", "all_gather_R0.json", "--out", "out", "--format", "nccl-tests", cwd=folder).run()
    assert outcome.code == 0
    assert _numbers(outcome.stdout) == _numbers((DATA / "all_gather_R0.txt").read_text(encoding="utf-8"))
    report = gtpbench("report", "out", "--format", "nccl-tests", cwd=folder).run()
    assert report.stdout == outcome.stdout


def test_text_with_its_arm(folder: Path) -> None:
    """`--arm` says what text does not; JSON on stdout is the same contract as a run's."""
    words = ("import", "reduce_scatter_R0.txt", "--arm", "nccltests:0", "--out", "out", "--format", "json")
    outcome = gtpbench(*words, cwd=folder).run()
    assert outcome.code == 0, outcome.stderr
    document = json.loads(outcome.stdout)
    assert (document["name"], document["arms"]) == ("imported", ["nccltests:0"])
    timing = document["groups"][0]["rows"][0]["timings"][0]
    assert (timing["clock"], timing["k"], timing["median_us"]) == ("graph", [200], 5.92)
    assert "host-timed loop" in timing["aggregation"]


def test_rows_left_out_make_code_12(folder: Path) -> None:
    """What could be read is imported; what was left out is named on stderr."""
    text = (folder / "all_gather_R0.txt").read_text(encoding="utf-8")
    (folder / "mixed.txt").write_text(text.replace("16384  bfloat16", "16384     int16"), encoding="utf-8")
    outcome = gtpbench("import", "mixed.txt", "--arm", "nccltests:0", "--out", "out", cwd=folder).run()
    assert outcome.code == 12
    assert "mixed.txt:13: left out: unknown dtype 'int16'" in outcome.stderr
    assert outcome.stderr.splitlines()[-1] == "gtpbench: rows left out: 1"
    assert len(records(folder / "out")) == 12
    assert "64KiB" not in outcome.stdout


@pytest.mark.parametrize(
    ("words", "code", "needle"),
    [
        (["all_gather_R0.txt"], 2, "does not say how buffers were registered"),
        (["all_gather_R0.json", "--arm", "nccltests:2"], 2, "its command line says nccltests:0"),
        (["all_gather_R0.json", "--arm", "none"], 2, "nccltests:0 or nccltests:2"),
        (["plain.json"], 2, "plain.json: -R 1, plain registration, has no arm"),
        (["all_gather_R0.json", "all_gather_R0.json"], 2, "holds the same run as"),
        (["cut.json"], 5, "cut.json:20: JSON is cut"),
        (["cut.txt", "--arm", "nccltests:0"], 5, "cut.txt:15: 7 of 13 columns"),
        (["missing.json"], 5, "cannot read missing.json: No such file or directory"),
        (["empty"], 5, "empty: empty"),
        (["picture"], 5, "picture:1: not UTF-8 text"),
        ([], 2, "FILE..."),
    ],
)
def test_what_cannot_be_imported_leaves_nothing(folder: Path, words: list[str], code: int, needle: str) -> None:
    """One line that names the file, and no folder."""
    lines = (DATA / "all_gather_R0.json").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "cut.json").write_text("".join(lines[:20]).rstrip("\n"), encoding="utf-8")
    (folder / "plain.json").write_text("".join(lines).replace('"-R",\n  "0"', '"-R",\n  "1"'), encoding="utf-8")
    rows = (DATA / "all_gather_R0.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "cut.txt").write_text("".join(rows[:14]) + rows[14][:70], encoding="utf-8")
    (folder / "empty").touch()
    (folder / "picture").write_bytes(b"\x89PNG\r\n\x1a\n")
    outcome = gtpbench("import", *words, "--out", "out", cwd=folder).run()
    assert outcome.code == code
    assert needle in outcome.stderr
    assert outcome.stdout == ""
    assert not (folder / "out").exists()


def test_an_existing_folder_is_refused(folder: Path) -> None:
    """An import never adds to one."""
    assert gtpbench("import", "all_gather_R0.json", "--out", "out", cwd=folder).run().code == 0
    before = (folder / "out" / "results.jsonl").read_bytes()
    outcome = gtpbench("import", "all_gather_R2.json", "--out", "out", cwd=folder).run()
    assert outcome.code == 2
    assert "output out exists" in outcome.stderr
    assert (folder / "out" / "results.jsonl").read_bytes() == before
