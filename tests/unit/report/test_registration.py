"""Reports of runs that time registration, worked by hand."""

import csv
import io
import json
from typing import Any

import pytest

from gtpbench.errors import UsageError
from gtpbench.record import Record
from gtpbench.report.as_csv import render_csv
from gtpbench.report.as_json import render_json
from gtpbench.report.closing import closing_line
from gtpbench.report.figures import QUANTITIES
from gtpbench.report.frame import to_frame
from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.nccl_tests import render_nccl_tests
from gtpbench.report.plots import render_svg
from gtpbench.report.registration import RegistrationRow
from gtpbench.report.terminal import render_text
from gtpbench.report.trust import trust_lines
from gtpbench.report.verdict import proof_text, verdict_text
from gtpbench.report.view import build_view
from gtpbench.report.words import sets_text
from tests.unit.report.factory import KIB, MIB
from tests.unit.report.registration import GIB, make_cases, make_registration_record, make_registration_scenario
from tests.unit.report.runs import view_of


def _view(*records: Record, functional: bool = False) -> RunView:
    scenario = make_registration_scenario(("registered", "symm")).model_copy(update={"functional": functional})
    return build_view(list(records), {}, scenario=scenario)


def _row(*records: Record) -> RegistrationRow:
    (row,) = _view(*records).registration_rows
    return row


def test_times_are_of_the_whole_set_on_the_slowest_rank() -> None:
    """Ten blocks of 1000 to 1090 us, the last rank 1 % longer: the median is 1055.45 us, and a quarter of it a buffer's
    where there are four."""
    row = _row(make_registration_record(register_us=1000.0))
    assert row.register is not None and row.allocate is not None and row.deregister is not None
    assert (1055.45, 1010.0, 10) == (row.register.median_us, row.register.min_us, row.register.num_samples)
    assert (527.725, 263.8625) == pytest.approx((row.allocate.median_us, row.deregister.median_us))
    assert 1055.45 / 4 == row.per_buffer_us


def test_launches_are_merged_and_the_worst_is_told() -> None:
    """Times come from those that were ok."""
    row = _row(
        make_registration_record(launch=0, register_us=1000.0),
        make_registration_record(launch=1, status="error", reason=("died", "rank 1 died")),
        make_registration_record(launch=2, register_us=1000.0),
    )
    assert ("error", 3, 2) == (row.status, row.num_launches, row.num_ok_launches)
    assert row.register is not None
    assert (20, 2) == (row.register.num_samples, row.register.num_launches)


@pytest.mark.parametrize(
    ("free", "used", "kept"),
    [
        ((4 * GIB, 3 * GIB, 4 * GIB), GIB, 0),
        ((4 * GIB, 3 * GIB, 4 * GIB - MIB), GIB, MIB),
        ((4 * GIB, 5 * GIB, 6 * GIB), 0, 0),
        (None, None, None),
    ],
)
def test_memory_is_what_the_set_takes(free: Any, used: int | None, kept: int | None) -> None:
    """Of each rank by itself; more free than before is nothing taken."""
    row = _row(make_registration_record(free_bytes=free))
    assert (used, kept) == (row.used_bytes, row.kept_bytes)


def test_the_rank_that_loses_most_counts() -> None:
    """Not the difference between the ranks with least before and after."""
    record = make_registration_record(free_bytes=(4 * GIB, 3 * GIB, 4 * GIB))
    first, last = record.memory
    more = last.model_copy(update={"free_before_bytes": 8 * GIB, "free_after_bytes": 5 * GIB})
    assert 3 * GIB == _row(record.model_copy(update={"memory": (first, more)})).used_bytes


def test_rows_are_ordered_by_size_number_and_arm() -> None:
    """Listed sets stand last; tables are apart by ranks and origin."""
    cases = make_cases(sizes=[MIB, 64 * KIB], numbers=[16, 1], listed=[5, 6])
    records = [make_registration_record(arm, case=case) for case in cases for arm in ("symm", "registered")]
    records += [make_registration_record(case=make_cases(sizes=[MIB], numbers=[1], num_ranks=4)[0])]
    first, second = _view(*records).registrations
    labels = [(row.case.label, row.arm.name) for row in first.rows]
    sets = ["1 × 64KiB", "16 × 64KiB", "1 × 1MiB", "16 × 1MiB", "llama-8b (2 buffers)"]
    assert [(label, arm) for label in sets for arm in ("registered", "symm")] == labels
    assert ("registration cost · 2 ranks", 4) == (first.title, second.num_ranks)


def test_the_closing_line_says_what_a_buffer_costs() -> None:
    """By arm, least to most; failures and doubts as everywhere."""
    view = view_of("registration")
    assert (
        "FAILED: 1 of 15 rows; skipped: 5 of 15 rows; registration, a buffer: registered 12.9 us; symm 330 us to 334 us"
        == verdict_text(view)
    )
    assert "without proof: symm (fell back at 64 × 64KiB)" == proof_text(view)
    assert closing_line(view, exit_code=5, directory="out").endswith("exit 5 (failed) · out")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("origin", "prefix"),
    [
        ("measured", ""),
        ("shared_gpu", "ranks share a GPU: "),
        ("cpu", "CPU demonstration: "),
        ("modelled", "modelled: "),
    ],
)
def test_where_the_numbers_come_from_is_said(origin: str, prefix: str) -> None:
    """Times of calls are shown for ranks that share a GPU too."""
    view = _view(make_registration_record(origin=origin))
    assert f"{prefix}registration, a buffer: symm 264 us" == verdict_text(view)


def test_functional_runs_say_no_times_at_the_end() -> None:
    """As in other runs."""
    assert "functional only" == verdict_text(_view(make_registration_record(), functional=True))


def test_a_run_in_which_nothing_ran() -> None:
    """Every format stands it."""
    reason = ("no_gpu", "needs an NVIDIA GPU and NCCL; this host shows 0 GPUs")
    view = _view(make_registration_record(status="skipped", reason=reason))
    assert "skipped: 1 of 1 rows; nothing was registered" == verdict_text(view)
    assert "no arm ran, nothing to prove" == proof_text(view)
    for text in (render_text(view), render_markdown(view), render_json(view), render_csv(view)):
        assert "no_gpu" in text
    assert ("sampled", "nothing was timed") in trust_lines(view)


def test_nothing_is_compared_and_nothing_drawn() -> None:
    """No ratio anywhere, and no figure of bandwidth or time over size."""
    view = view_of("registration")
    assert dict(trust_lines(view))["ratios"] == "none: what registration costs is shown, not compared"
    assert all(render_svg(view, quantity) is None for quantity in QUANTITIES)
    for text in (render_text(view), render_markdown(view), render_csv(view)):
        assert "faster" not in text and "ratio_" not in text and "busbw" not in text


def test_nccl_tests_has_no_place_for_it() -> None:
    """It says so and names the formats that have."""
    with pytest.raises(UsageError, match="table, json or csv"):
        render_nccl_tests(view_of("registration"))


def test_csv_is_documented_by_its_columns() -> None:
    """Whole numbers stay whole; the first registration is apart from the single ones that follow."""
    lines = list(csv.DictReader(io.StringIO(render_csv(view_of("registration")))))
    assert 15 == len(lines)
    by_cell = {(line["case_id"], line["arm"]): line for line in lines}
    first = by_cell["registration/1x65536/n8", "symm"]
    assert ("1", "65536", "65536", "30", "30") == tuple(
        first[name] for name in ("num_buffers", "buffer_bytes", "total_bytes", "num_samples", "num_blocks")
    )
    assert ("20000", "319.3") == (first["first_registration_us"], first["single_registration_us"])
    assert float(first["register_median_us"]) == float(first["per_buffer_us"]) == pytest.approx(333.58, rel=1e-4)
    assert str(64 * KIB + 2 * MIB) == first["used_bytes"]
    listed = by_cell["registration/llama-8b/4808777728/n8", "registered"]
    assert ("llama-8b", "34", "", "") == tuple(
        listed[name] for name in ("set", "num_buffers", "buffer_bytes", "window_bytes")
    )
    skipped = by_cell["registration/1x65536/n8", "none"]
    assert ("skipped", "nothing_to_register", "") == tuple(
        skipped[name] for name in ("status", "reason", "register_median_us")
    )
    assert "Int64" == str(to_frame(view_of("registration"))["used_bytes"].dtype)


def test_json_has_a_key_of_its_own() -> None:
    """Beside empty groups; runs of collectives do not have it."""
    document = json.loads(render_json(view_of("registration")))
    assert [] == document["groups"]
    (table,) = document["registrations"]
    assert ("registration cost · 8 ranks", 8, "measured", 15) == (
        table["title"],
        table["num_ranks"],
        table["origin"],
        len(table["rows"]),
    )
    listed = table["rows"][-1]
    assert [1002 * MIB, *[112 * MIB] * 32, 8 * KIB] == listed["sizes_bytes"]
    assert "symm_lsa ST" == listed["proofs"][0]["path_text"]
    assert "registrations" not in json.loads(render_json(view_of("cpu")))


def test_a_fault_is_told() -> None:
    """Such a run is no measurement."""
    view = _view(make_registration_record(test_fault="corrupt rank=1"))
    for text in (render_text(view, width=140), render_markdown(view)):
        assert "corrupt rank=1: injected for a test; this is no measurement" in text


def test_ascii_terminals_get_ascii() -> None:
    """Sets too."""
    text = render_text(view_of("registration"), encoding="ascii")
    assert text.isascii()
    assert "64 x 64KiB" in text


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160])
def test_tables_fit(width: int) -> None:
    """Nothing is cut from 80 columns on."""
    text = render_text(view_of("registration"), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert width < 80 or "…" not in text


def test_sets_in_words() -> None:
    """All, some, or how many."""
    cases = make_cases(sizes=[64 * KIB, MIB], numbers=[1, 2, 4])
    rows = _view(*(make_registration_record(case=case) for case in cases)).registration_rows
    assert "every set" == sets_text(rows, of=rows)
    assert "1 × 64KiB, 2 × 64KiB" == sets_text(rows[:2], of=rows)
    assert "5 of 6 sets" == sets_text(rows[:5], of=rows)
    assert "1 × 64KiB" == sets_text(rows[:1], of=rows[:1])
