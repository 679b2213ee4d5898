"""results.csv, report.json and the nccl-tests layout."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gtpbench.report.as_csv import render_csv
from gtpbench.report.as_json import render_json
from gtpbench.report.frame import to_frame
from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.nccl_tests import _HEADER, _number, render_nccl_tests
from gtpbench.report.terminal import render_text
from gtpbench.report.view import build_view
from tests.unit.report.factory import MIB, make_case, make_record, make_samples
from tests.unit.report.h200 import cross_check_run
from tests.unit.report.runs import RUNS, make_scenario, view_of

TABLE = Path(__file__).parents[2] / "data" / "report" / "nccl-tests-2.19.6.txt"


def test_csv_has_one_line_a_row() -> None:
    """Raw numbers in columns named with their unit, skipped rows included."""
    lines = list(csv.DictReader(io.StringIO(render_csv(view_of("cpu")))))
    assert len(lines) == 9
    last = lines[-2]
    assert (last["arm"], last["size_bytes"], last["median_us"]) == ("symm", "16777216", "1000")
    assert float(last["algbw_gb_per_s"]) == pytest.approx(16.777216)
    assert float(last["time_ratio"]) == 0.5
    assert (lines[-1]["status"], lines[-1]["reason"], lines[-1]["median_us"]) == ("skipped", "no_cpu_counterpart", "")


def test_csv_has_the_same_columns_for_every_run() -> None:
    """A script that reads one run reads them all."""
    headers = {render_csv(view_of(name)).splitlines()[0] for name in RUNS}
    assert len(headers) == 1


def test_frame_keeps_whole_numbers_whole() -> None:
    """Counts that may be missing stay integers."""
    frame = to_frame(view_of("gpu"))
    assert str(frame["ctas"].dtype) == str(frame["num_samples"].dtype) == "Int64"


def test_merged_launches_show_every_k() -> None:
    """Runs that chose their own operations an interval merge; the row names all of them, in every format."""
    records = [
        make_record("none", launch=launch, samples={"step.host": make_samples(time_us, k=k)})
        for launch, (time_us, k) in enumerate([(10.0, 1), (20.0, 4)])
    ]
    view = build_view(records, {}, scenario=None)
    (line,) = csv.DictReader(io.StringIO(render_csv(view)))
    assert (line["k"], line["median_us"], line["num_launches"]) == ("1 4", "15", "2")
    assert '"k": [' in render_json(view)


def test_csv_has_a_clock_s_own_columns_errors_and_costs() -> None:
    """Both clocks' proofs, the stream's spread, what the kernels were, errors, and costs of the slowest rank."""
    lines = list(csv.DictReader(io.StringIO(render_csv(view_of("h200")))))
    first, scatter = lines[3], lines[-1]
    assert (first["arm"], first["proof"], first["graph_proof"], first["stream_proof"]) == (
        "symm:ce", "unproven", "proved", "unproven",
    )  # fmt: skip
    assert (first["k"], first["stream_k"], first["kernel"]) == ("256", "8", "memcpy + batch_mem_op")
    assert float(first["stream_issue_share"]) == pytest.approx(0.97, rel=0.01)
    assert (lines[0]["path"], lines[0]["path_text"], lines[0]["graph_ctas"]) == ("unknown", "legacy", "64")
    assert (scatter["arm"], scatter["dtype"]) == ("symm", "fp16")
    assert (scatter["rms_error"], scatter["tolerance"]) == ("0.0001225", "0.000975")
    assert (scatter["communicator_us"], scatter["first_registration_us"]) == ("224900", "")
    assert (scatter["registration_us"], scatter["num_registrations"], scatter["capture_us"]) == ("1280", "2", "3850")
    assert (scatter["send_window_bytes"], scatter["recv_window_bytes"]) == (str(32 * MIB), str(16 * MIB))
    assert (scatter["symmetric_va_bytes"], scatter["l2_resident"]) == (str(144 * 2**30), "True")


def test_json_has_evidence_errors_and_costs() -> None:
    """Every clock's proof with what ranks saw, and costs by row and by arm."""
    document = json.loads(render_json(view_of("h200")))
    row = document["groups"][0]["rows"][1]
    graph, stream = row["proofs"]
    assert (graph["clock"], stream["clock"], graph["path_text"]) == ("graph", "stream", "symm_lsa LL")
    assert graph["seen"] == [
        {
            "source": "graph_nodes",
            "ranks": [0, 1],
            "calls": 256,
            "kernels": [{"name": "ncclSymkDevKernel_AllGather_LL", "kind": "kernel", "ctas": 9, "count": 256}],
            "error": None,
        }
    ]
    assert row["costs"]["window_bytes"] == {"send": 2 * MIB, "recv": 2 * MIB}
    assert row["costs"]["first_registration"] == {
        "median_us": 20500.0, "low_us": 20500.0, "high_us": 20500.0, "num_values": 1,
    }  # fmt: skip
    assert [costs["arm"] for costs in document["costs"]] == ["none", "symm", "symm:recv", "symm:ce"]
    reduced = document["groups"][1]["rows"][0]
    assert (reduced["max_error"], reduced["rms_error"], reduced["tolerance"]) == (0.00389, 0.00098, 0.0078)
    assert {note["clock"] for note in row["notes"]} == {"stream"}


def test_json_is_a_contract() -> None:
    """A version, every row, every reason, and no value that strict JSON lacks."""
    document = json.loads(render_json(view_of("cpu")))
    assert document["schema_version"] == 1
    rows = [row for group in document["groups"] for row in group["rows"]]
    assert len(rows) == 9
    assert rows[2]["reason"]["code"] == "no_cpu_counterpart"
    assert rows[1]["timings"][0]["comparison"]["within_one_launch"] is True
    assert document["origins"]["cpu"] == "CPU ranks: a demonstration, not NVLink"


def test_modelled_is_labelled_everywhere() -> None:
    """Each text format says that the numbers come from a model."""
    records = [make_record(arm, origin="modelled", time_us=time) for arm, time in (("none", 100.0), ("symm", 50.0))]
    view = build_view(records, {}, scenario=make_scenario("test", ("none", "symm")))
    for text in (render_csv(view), render_json(view), render_nccl_tests(view)):
        assert "modelled" in text


@pytest.mark.parametrize("render", [render_csv, render_json, render_nccl_tests, render_text, render_markdown])
def test_shared_gpu_has_no_ratio_and_no_rate(render: Callable[[RunView], str]) -> None:
    """15 us against 30 us: no 2.0, no 0.5 and no busbw in any format."""
    text = render(view_of("shared_gpu"))
    assert not re.search(r"\b(0\.5|2\.00?|faster|slower)\b", text)
    # 64 KiB / 30 us = 2.18 GB/s and half of it, 64 KiB / 15 us = 4.37 GB/s and half of it.
    assert not re.search(r"\b(2\.18|1\.09|4\.37)", text)


@pytest.mark.parametrize("name", ["h200", "cross_check"])
def test_shared_gpu_is_never_judged(name: str) -> None:
    """Both clocks, all sections: no rate, no ratio, no word of which is better."""
    view = view_of(name)
    for row in view.rows:
        assert row.comparison is None
        assert all(timing.algbw_gb_per_s is timing.busbw_gb_per_s is None for timing in row.timings)
    for text in (render_text(view), render_markdown(view)):
        assert not re.search(r"busbw|algbw|GB/s|faster|slower|better|against|baseline|▲|▼", text)
    lines = list(csv.DictReader(io.StringIO(render_csv(view))))
    withheld = ("algbw_gb_per_s", "busbw_gb_per_s", "time_ratio", "outcome", "baseline")
    assert all(not line[column] for line in lines for column in withheld)
    rows = [line for line in render_nccl_tests(view).splitlines() if re.match(r"\s+\d", line)]
    assert rows and all(line.split()[6:8] == ["N/A", "N/A"] for line in rows)
    document = json.loads(render_json(view))
    timings = [timing for group in document["groups"] for row in group["rows"] for timing in row["timings"]]
    assert all(timing["busbw_gb_per_s"] is timing["comparison"] is None for timing in timings)


def test_shared_gpu_with_a_failed_launch_has_no_ratio_column() -> None:
    """The reason of a failed row is said above the table; a column of ratios has nothing to say."""
    failed = make_record("symm", origin="shared_gpu", launch=1, status="error", reason=("died", "rank 1 died"))
    view = build_view([make_record(arm, origin="shared_gpu") for arm in ("none", "symm")] + [failed], {})
    assert "against" not in render_text(view) + render_markdown(view)


@pytest.mark.parametrize("render", [render_json, render_text, render_markdown])
def test_one_launch_is_labelled(render: Callable[[RunView], str]) -> None:
    """Intervals of a single launch say so; those of six launches do not."""
    assert "within one launch" in " ".join(render(view_of("cpu")).split())
    assert "within one launch" not in " ".join(render(view_of("gpu")).split())


def test_nccl_tests_header_is_verbatim() -> None:
    """The three header lines are those of a real log, to the last blank."""
    real = TABLE.read_text().splitlines()
    start = next(number for number, line in enumerate(real) if "out-of-place" in line)
    assert list(_HEADER[1:]) == real[start : start + 3]


def test_nccl_tests_rows_are_verbatim() -> None:
    """Records with the times of a real log give its lines back; all-gather counts one rank's share."""
    real = [line for line in TABLE.read_text().splitlines() if re.match(r"\s+\d", line)]
    records = [
        make_record(
            "none",
            case=make_case(size_bytes=int(fields[0]), placement=placement),
            time_us=float(fields[column]),
            origin="measured",
        )
        for fields in (line.split() for line in real)
        for placement, column in (("out_of_place", 5), ("in_place", 9))
    ]
    ours = [line for line in render_nccl_tests(build_view(records, {})).splitlines() if re.match(r"\s+\d", line)]
    assert len(ours) == len(real)
    for line, expected in zip(ours, real, strict=True):
        assert len(line) == len(expected)
        # The log's rates come from unrounded times: the last digit may differ.
        assert [float(x) for x in line.split()[5:]] == pytest.approx([float(x) for x in expected.split()[5:]], rel=2e-3)
        assert line[:56] == expected[:56]


def test_nccl_tests_arms_are_read_as_nccl_tests_reads_them() -> None:
    """Ranks 0.2 us below and above the mean: nccl-tests' arms give the mean, ours the slowest rank; the header says so.

    64 KiB in 6.26 us is 10.47 GB/s, half of it busbw.
    """
    blocks = render_nccl_tests(cross_check_run("measured").view()).split("\n\n")
    ours, plain = blocks[0].splitlines(), blocks[1].splitlines()
    assert ours[3] == "# time: graph clock, k=200, median over iterations of the slowest rank"
    assert plain[3] == "# time: graph clock, k=200, mean over ranks and iterations, as nccl-tests' -a 1"
    assert ours[8].split()[5] == "6.14"
    assert plain[8].split()[5:] == ["6.26", "10.47", "5.23", "0", "5.98", "10.96", "5.48", "0"]


def test_nccl_tests_shows_both_placements_of_a_shared_gpu() -> None:
    """Times side by side, as a comparison with nccl-tests' own file needs; rates are N/A."""
    block = render_nccl_tests(view_of("cross_check")).split("\n\n")[2]
    assert "ranks share a GPU" in block
    line = next(line for line in block.splitlines() if line.lstrip().startswith("4194304"))
    assert line.split()[5:] == ["17.37", "N/A", "N/A", "0", "13.80", "N/A", "N/A", "0"]
    assert block.rstrip().endswith("# Avg bus bandwidth    : N/A")


def test_nccl_tests_not_run() -> None:
    """A placement that was not run is N/A, and so is a skipped arm; its reason is a comment."""
    text = render_nccl_tests(view_of("cpu"))
    assert text.count("# Avg bus bandwidth") == 3
    line = next(line for line in text.splitlines() if line.lstrip().startswith("16777216"))
    assert line.split()[5:] == ["2000.00", "8.39", "4.19", "0", "N/A", "N/A", "N/A", "N/A"]
    assert "# skipped at every size: symm:nvls is an NCCL feature" in text


def test_nccl_tests_average_is_last() -> None:
    """Mean over all busbw of the arm: (0.4096 + 2.62144 + 4.194304) / 3."""
    block = render_nccl_tests(view_of("cpu")).split("\n\n")[0]
    assert block.splitlines()[-1] == "# Avg bus bandwidth    : 2.40845 "


def test_nccl_tests_counts_wrong_elements() -> None:
    """Wrong elements stand in their column and in the summary."""
    case = make_case(size_bytes=MIB, collective="reduce_scatter")
    record = make_record("none", case=case, status="wrong_result", reason=("wrong_data", "7 wrong"), num_wrong=7)
    text = render_nccl_tests(build_view([record], {}))
    line = next(line for line in text.splitlines() if line.lstrip().startswith("1048576"))
    assert line.split()[3:9] == ["sum", "-1", "N/A", "N/A", "N/A", "7"]
    assert "# Out of bounds values : 7 FAILED" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(6.38, "  6.38"), (841.73, "841.73"), (1225.3, "1225.3"), (12345.6, " 12346"), (0.004, "  0.00")],
)
def test_nccl_tests_numbers(value: float, text: str) -> None:
    """Decimals give way to digits as in nccl-tests."""
    assert _number(value, 6) == text
