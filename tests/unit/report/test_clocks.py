"""k and the clocks in words, and the mark of host-bound times."""

import dataclasses

import pytest

from gtpbench.report.clocks import clocks_text, k_cell, k_header, k_span, k_varies
from gtpbench.report.frame import to_frame
from gtpbench.report.markdown import render_markdown
from gtpbench.report.terminal import render_text
from gtpbench.report.trust import trust_lines
from gtpbench.report.view import build_view
from tests.unit.report.factory import make_record, make_samples
from tests.unit.report.runs import view_of


def test_both_clocks_are_explained() -> None:
    """The headline is named, k stated, as a range where it varies by size."""
    assert clocks_text(view_of("h200")) == (
        "graph (headline): k=16 to 256 operations captured in one CUDA graph; "
        "stream: k=8 operations issued from the host, as without graphs"
    )
    assert dict(trust_lines(view_of("h200")))["clocks"] == clocks_text(view_of("h200"))


def test_one_clock_is_no_headline_among_others() -> None:
    """A run on the stream clock alone."""
    view = build_view([make_record("none", samples={"step.stream": make_samples(9.0, clock="stream", k=4)})], {})
    assert clocks_text(view) == "stream: k=4 operations issued from the host, as without graphs"


def test_host_clock_needs_no_explanation() -> None:
    """CPU ranks have one clock and say so in the table."""
    assert clocks_text(view_of("cpu")) is None
    assert "clocks" not in dict(trust_lines(view_of("cpu")))


def test_k_by_row() -> None:
    """On both device clocks, in their order; a clock that the row lacks is a dash."""
    group = view_of("h200").groups[0]
    assert (k_header(group), k_cell(group, group.rows[0])) == ("k, graph/stream", "256/8")
    alone = dataclasses.replace(group.rows[0], timings=group.rows[0].timings[:1])
    assert k_cell(group, alone) == "256/–"


def test_k_has_a_column_only_where_it_varies() -> None:
    """One k for all rows is said once, above the tables."""
    assert k_varies(view_of("h200").groups[0].rows)
    assert not k_varies(view_of("gpu").groups[0].rows)
    assert "k, graph/stream" in render_markdown(view_of("h200"))
    assert "k, graph/stream" not in render_markdown(view_of("gpu"))
    assert "graph/stream" in render_text(view_of("h200"), width=80)
    assert "graph/stream" not in render_text(view_of("h200"), width=60)


@pytest.mark.parametrize(("numbers", "text"), [([8, 8], "8"), ([64, 16, 256], "16 to 256")])
def test_k_span(numbers: list[int], text: str) -> None:
    """One number or the range."""
    assert k_span(numbers) == text


def test_host_bound_is_marked_at_the_time() -> None:
    """The mark stands beside the stream's time, not at the arm: the graph's time is not affected."""
    samples = {
        "step.graph": make_samples(10.0, clock="graph", k=8),
        "step.stream": make_samples(100.0, clock="stream", issue_us=95.0),
    }
    view = build_view([make_record("none", samples=samples)], {})
    row = view.rows[0]
    assert (view.row_marks(row), view.clock_marks(row, "graph"), view.clock_marks(row, "stream")) == ((), (), (1,))
    assert view.marks(row) == (1,)
    assert "16MiB  none  10.0 (10.0–10.0)  100 (100–100) ¹" in render_text(view, width=140)
    assert "| 10.0 | 10.0–10.0 | 100 <sup>1</sup> | 100–100 |" in render_markdown(view)
    assert "stream clock, 95 %" in view.footnotes[0].text


def test_both_clocks_may_be_host_bound() -> None:
    """One footnote of one row, marked at both times."""
    samples = {f"step.{clock}": make_samples(100.0, clock=clock, issue_us=99.0) for clock in ("graph", "stream")}
    view = build_view([make_record("none", samples=samples)], {})
    row = view.rows[0]
    assert view.clock_marks(row, "graph") == view.clock_marks(row, "stream") == view.marks(row) == (1,)
    assert "(1 row; none 16MiB: graph clock, 99 %)" in view.footnotes[0].text
    assert to_frame(view)["notes"].tolist() == ["host_bound"]


def test_marks_in_ascii() -> None:
    """In brackets where the terminal has no superscripts."""
    text = render_text(view_of("h200"), width=80, encoding="ascii")
    assert "|75.0 [2] |legacy" in text and "symm:ce [1]" in text


def test_marks_leave_the_numbers_aligned() -> None:
    """A time without a mark ends in the column in which marked ones end their numbers."""
    lines = render_text(view_of("h200"), width=80).splitlines()
    marked = next(line for line in lines if line.startswith(" 4MiB  none"))
    plain = next(line for line in lines if line.startswith("64MiB  none"))
    assert marked.index("75.0 ²") + 4 == plain.index("161") + 3
