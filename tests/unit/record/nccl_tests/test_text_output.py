"""Reading nccl-tests' text."""

from pathlib import Path

import pytest

from gtpbench.errors import ResultsError, UsageError
from gtpbench.record.nccl_tests.read import read_output
from tests.unit.record.nccl_tests.files import DATA, changed_text, made_of, number_line, silent

LAST_ROW = (
    "   268435456      67108864  bfloat16    none      -1   318.91  841.73  420.86       0   219.07  1225.3  612.66"
)
SETTINGS = "step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 10 unalign: 0"


def test_a_whole_file() -> None:
    """Every row, both placements, and what the header says; numbers as they stand in the file."""
    output = read_output(DATA / "reduce_scatter_R0.txt", warn=silent)
    assert (output.program, output.version, output.nccl_version) == ("reduce_scatter_perf", "2.19.6", 23007)
    assert (output.num_ranks, output.args, dict(output.variables)) == (2, None, {})
    assert (output.settings.iterations, output.settings.aggregated, output.settings.graph_launches) == (20, 1, 10)
    assert output.settings.blocking == 0
    assert [process.pid for process in output.processes] == [1916, 1917]
    assert [process.gpu for process in output.processes] == ["NVIDIA H200", "NVIDIA H200"]
    assert [row.size_bytes for row in output.rows] == [65536 * 4**power for power in range(7)]
    row = output.rows[1]
    assert row.where == f"{DATA / 'reduce_scatter_R0.txt'}:14"
    assert (row.count, row.dtype, row.op, row.iterations) == (65536, "bfloat16", "sum", 20)
    assert [(m.time_us, m.num_wrong) for m in row.placements.values()] == [(5.94, 0), (5.93, 0)]
    assert list(row.placements) == ["out_of_place", "in_place"]


def test_columns_of_single_iterations_are_passed_over_and_told() -> None:
    """With `-I` there are four more columns a placement; text has only their summary."""
    told: list[str] = []
    output = read_output(DATA / "all_gather_periter.txt", warn=told.append)
    assert [m.time_us for m in output.rows[3].placements.values()] == [570.51, 354.11]
    assert [m.num_wrong for m in output.rows[3].placements.values()] == [0, 0]
    assert all(m.events is None for row in output.rows for m in row.placements.values())
    assert len(told) == 1
    assert "the JSON output (-J) has them" in told[0]


def test_unchecked_rows_and_time_stamps(tmp_path: Path) -> None:
    """`N/A` is no count (`-c 0`); a time stamp (`-S`) ends the line."""
    row = f"{number_line(64, count=8, wrong='N/A')}  2026-11-30 17:17:40"
    text = made_of([row]).replace("#wrong \n", "#wrong           timestamp\n")
    path = tmp_path / "unchecked"
    path.write_text(text, encoding="utf-8")
    (found,) = read_output(path, warn=silent).rows
    assert [(m.time_us, m.num_wrong) for m in found.placements.values()] == [(2.0, None), (2.0, None)]


def test_wrong_elements_are_counted(tmp_path: Path) -> None:
    """The column is printed with %g, so that large counts have an exponent."""
    path = changed_text(
        tmp_path / "wrong",
        ("5.14       0     6.09", "5.14  1.5e+06     6.09"),
        ("values : 0 OK", "values : 1 FAILED"),
    )
    row = read_output(path, warn=silent).rows[0]
    assert [m.num_wrong for m in row.placements.values()] == [1500000, 0]


def test_a_summary_that_disagrees_is_told(tmp_path: Path) -> None:
    """Out of bounds values without a wrong element in any row."""
    told: list[str] = []
    read_output(changed_text(tmp_path / "odd", ("values : 0 OK", "values : 3 FAILED")), warn=told.append)
    assert told == [f"{tmp_path / 'odd'}: says 3 out of bounds values, but no row has a wrong element"]


@pytest.mark.parametrize(
    ("line", "blocking"),
    [
        ("# Blocking Enabled: wait and barrier after each inner iteration (-m) ", 1),
        ("# Blocking Enabled: wait after each inner iteration (-m), no barrier ", 2),
        ("# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier ", 3),
        ("# Blocking Enabled: wait for completion and barrier after each collective ", 1),
    ],
)
def test_blocking_kinds(tmp_path: Path, line: str, blocking: int) -> None:
    """As nccl-tests words them, today and before 2.18."""
    path = changed_text(tmp_path / "blocking", ("#\n# Using devices", f"{line}\n#\n# Using devices"))
    assert read_output(path, warn=silent).settings.blocking == blocking


def test_older_settings_without_graph(tmp_path: Path) -> None:
    """What a version did not know was off."""
    path = changed_text(tmp_path / "old", (SETTINGS, SETTINGS.replace(" graph: 10 unalign: 0", "")))
    assert read_output(path, warn=silent).settings.graph_launches == 0


@pytest.mark.parametrize(
    ("replaced", "needle"),
    [
        ((f"{LAST_ROW}       0\n", f"{LAST_ROW[:70]}\n"), ":19: 7 of 13 columns: the line is cut"),
        (("# Out of bounds values : 0 OK\n", ""), "ends without `Out of bounds values`"),
        (("# Collective test starting: all_gather_perf\n", ""), "which collective"),
        (("#  Rank", "#  Runk"), "how many ranks"),
        (("     6.38   10.27", "     6.38   10,27x"), None),
        (("     6.38   10.27", "     6,38   10.27"), ":13: no row of nccl-tests' table: could not convert"),
        (("#       size         count", "#       bytes        count"), ":13: numbers without nccl-tests' header"),
        (("busbw  #wrong     time", "busbw  error     time"), ":11: the table needs #wrong for each placement"),
        (("iters: 20", "iters: many"), "gives no number of `iters`"),
        (("iters: 20", "iters: 0"), "gives no number of `iters`"),
        (("5.14       0     6.09", "5.14     inf     6.09"), ":13: no row of nccl-tests' table"),
        (("# Collective test concluded", "# Collective test starting"), ":23: a second test starts here"),
        (("# Using devices", "# nThread 1 nGpus 1 iters: 20"), ":6: a second test starts here"),
        (("# nThread 1", "# mThread 1"), ":13: numbers without nccl-tests' header"),
    ],
)
def test_what_is_cut_or_foreign_is_named(tmp_path: Path, replaced: tuple[str, str], needle: str | None) -> None:
    """One sentence with the file and, where there is one, the line; columns that are not used are not read."""
    path = changed_text(tmp_path / "bad", replaced)
    if needle is None:
        assert read_output(path, warn=silent).rows
        return
    with pytest.raises(ResultsError) as raised:
        read_output(path, warn=silent)
    assert str(path) in str(raised.value)
    assert needle in str(raised.value)


@pytest.mark.parametrize(
    ("replaced", "needle"),
    [
        (("     time   algbw", "  cputime   algbw"), ":11: times of issuing only (-C 1)"),
        (("unalign: 0", "unalign: 4"), ":4: unaligned buffers"),
        (("Rank  1 Group  0", "Rank  1 Group  1"), "several groups ran at once"),
    ],
)
def test_other_conditions_are_refused(tmp_path: Path, replaced: tuple[str, str], needle: str) -> None:
    """Results that are whole, but of nothing that gtpbench has a case for."""
    with pytest.raises(UsageError) as raised:
        read_output(changed_text(tmp_path / "other", replaced), warn=silent)
    assert needle in str(raised.value)


@pytest.mark.parametrize(
    ("content", "needle"),
    [
        (b"", ": empty"),
        (b" \n\n", ": empty"),
        (b"size,time\n1,2\n", ":1: no output of nccl-tests"),
        (b"size time\n1 2 3\n", ":2: numbers without nccl-tests' header"),
        (b"hello\n", ":1: no output of nccl-tests"),
        (b"# a\n# \xff\xfe\n", ":2: not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00", ":1: not UTF-8 text"),
    ],
)
def test_files_of_other_kinds(tmp_path: Path, content: bytes, needle: str) -> None:
    """Named with the line, never a traceback."""
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ResultsError) as raised:
        read_output(path, warn=silent)
    assert f"{path}{needle}" in str(raised.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    """What the system says, in one line."""
    with pytest.raises(ResultsError, match=r"cannot read .*none: No such file"):
        read_output(tmp_path / "none", warn=silent)
    with pytest.raises(ResultsError, match="Is a directory"):
        read_output(tmp_path, warn=silent)


def test_lines_of_others_are_passed_over(tmp_path: Path) -> None:
    """NCCL's log and what started the ranks write between the rows, also from hosts with a number for a name."""
    noise = "10-0-0-1:1830:1830 [0] NCCL INFO Connected all rings\n2026-11-30 17:17:40 srun: step created\n"
    path = changed_text(tmp_path / "noisy", ("# Out of bounds", f"{noise}# Out of bounds"))
    assert len(read_output(path, warn=silent).rows) == 7
