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
