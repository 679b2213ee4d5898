"""Tables on terminals and in pipes."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.terminal import print_view, render_text
from gtpbench.report.view import build_view
from tests.unit.report.factory import make_record, make_samples
from tests.unit.report.runs import RUNS, view_of


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_row_is_wrapped(name: str, width: int) -> None:
    """At usual widths every row is one line, and no line is wider than the console or padded at its end."""
    lines = render_text(view_of(name), width=width).splitlines()
    assert all(len(line) <= width and line == line.rstrip() for line in lines)
    rows = [line for line in lines if line.lstrip().split("  ")[0].endswith("iB")]
    assert len(rows) == sum(bool(row.timings) for row in view_of(name).rows)


def test_skipped_rows_come_first_with_their_reason() -> None:
    """Before the numbers, with text and code."""
    text = " ".join(render_text(view_of("cpu")).split())
    told = "skipped symm:nvls at every size: symm:nvls is an NCCL feature without a counterpart on CPU ranks"
    assert told + " [no_cpu_counterpart]" in text
    assert text.index(told) < text.index("busbw")


def test_a_failed_launch_is_told_and_its_row_kept() -> None:
    """The row shows the launches that were ok, the line above it why one was not."""
    failed = make_record("none", launch=1, status="timeout", reason=("stage_timeout", "rank 1 hung"))
    text = render_text(build_view([make_record("none"), failed], {}))
    assert "✗ timeout  none at 16MiB: rank 1 hung [stage_timeout]; 1 of 2 launches ok" in text
    assert "16MiB  none ¹  100 (100–100)" in text


def test_plain_without_terminal() -> None:
    """No escape sequence in a pipe, whatever the environment says about colours."""
    stream = io.StringIO()
    print_view(view_of("gpu"), Console(file=stream, width=100))
    assert "\x1b" not in stream.getvalue()


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR turns colours off on a terminal; the words stay."""

    def printed() -> str:
        stream = io.StringIO()
        print_view(view_of("gpu"), Console(file=stream, width=140, force_terminal=True, legacy_windows=False))
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in printed()
    assert "▲ 1.67x faster" in printed()


def test_ascii_console() -> None:
    """A console without Unicode gets ASCII only."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_view(view_of("gpu"), Console(file=stream, width=140))
    stream.flush()
    text = raw.getvalue().decode("ascii")
    assert "^ 1.67x faster" in text
    assert "x fell back" in text


def test_markup_in_foreign_strings_is_text() -> None:
    """Square brackets of a reason are no rich markup."""
    record = make_record("none", status="error", reason=("died", "[bold]rank[/nope] died"))
    assert "[bold]rank[/nope] died [died]" in render_text(build_view([record], {}))


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_a_clock_that_one_arm_lacks(render: Callable[[RunView], str]) -> None:
    """Its cell is a dash; the other arm's time stands beside it."""
    both = {"step.graph": make_samples(30.0, clock="graph"), "step.stream": make_samples(40.0, clock="stream")}
    records = [
        make_record("none", samples=both),
        make_record("symm", samples={"step.graph": make_samples(30.0, clock="graph")}),
    ]
    lines = render(build_view(records, {})).splitlines()
    symm = next(line for line in lines if "symm" in line and "16MiB" in line and "30.0" in line)
    assert " – " in symm


def test_few_launches_are_no_unit() -> None:
    """With two launches the intervals are over block pairs, and the trust box says so."""
    records = [make_record(arm, launch=launch) for launch in range(2) for arm in ("none", "symm")]
    assert "95 % intervals over block pairs of few launches" in render_text(build_view(records, {}), width=200)
