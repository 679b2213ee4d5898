"""report.md."""

from itertools import pairwise

import pytest

from gtpbench.report.markdown import render_markdown
from gtpbench.report.markup import escape, fenced
from gtpbench.report.view import build_view
from tests.unit.report.factory import make_environment, make_record
from tests.unit.report.runs import RUNS, make_scenario, view_of

NASTY = "a|b `c` <script>x</script> [t](http://e) *bold*\n| new row |"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("`code`", "\\`code\\`"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("two\nlines", "two lines"),
        ("[text](http://x)", "[text\\](http://x)"),
        ("[1.79, 1.87]", "[1.79, 1.87]"),
        ("symm_lsa _x_ *y*", "symm_lsa \\_x\\_ \\*y\\*"),
        ("back\\slash", "back\\\\slash"),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    """Markup of foreign strings is shown, not obeyed."""
    assert escape(text) == escaped


def test_fence_is_longer_than_backticks_inside() -> None:
    """A command with three backticks gets a fence of four."""
    assert fenced("a ``` b").startswith("````sh\n")
    assert fenced("a").startswith("```sh\n")


def test_foreign_strings_do_not_break_out() -> None:
    """Reasons, commands and environment values with markup leave the number of columns and the structure alone."""
    record = make_record("none", status="error", reason=("died", NASTY))
    environment = make_environment(cpu_model=NASTY, command=("gtpbench", NASTY), variables={"A|B": NASTY})
    text = render_markdown(build_view([record], {"e0": environment}))
    assert "<script>" not in text.replace("```", "").split("## How to reproduce")[0]
    table = text.split("## Environment")[1].split("## How to reproduce")[0]
    for line in filter(None, table.splitlines()):
        assert line.replace("\\|", "").count("|") == 3


def test_every_row_has_as_many_cells_as_the_header() -> None:
    """Tables hold their shape in every run."""
    for name in RUNS:
        lines = render_markdown(view_of(name)).splitlines()
        counts = [line.replace("\\|", "").count("|") for line in lines]
        for before, after in pairwise(counts):
            assert not (before and after) or before == after


def test_the_same_records_give_the_same_bytes() -> None:
    """Nothing of the time or the order of rendering gets in."""
    assert render_markdown(RUNS["cpu"]().view()) == render_markdown(RUNS["cpu"]().view())


def test_links_and_reproduction() -> None:
    """The raw data, the plot, the command, the commit and the version are there."""
    text = render_markdown(view_of("cpu"))
    for part in ("(results.jsonl)", "(busbw.svg)", "gtpbench allgather --symm", "commit f9db5b2", "gtpbench 0.1.0"):
        assert part in text


@pytest.mark.parametrize(
    ("arms", "origin", "title"),
    [
        (("none", "symm"), "measured", "# test: all-gather, symm against none"),
        (("none",), "measured", "# test: all-gather, none"),
        (("none", "symm"), "shared_gpu", "# test: all-gather, none, symm"),
        (("nccltests:0", "none", "symm"), "measured", "# test: all-gather, symm against none; nccltests:0"),
    ],
)
def test_the_title_names_only_what_is_compared(arms: tuple[str, ...], origin: str, title: str) -> None:
    """Arms of another family and arms of a shared GPU are against nothing."""
    records = [make_record(arm, origin=origin, arms=arms) for arm in arms]
    assert render_markdown(build_view(records, {}, scenario=make_scenario("test", arms))).splitlines()[0] == title


def test_no_plot_without_rates() -> None:
    """A run on a shared GPU has no bandwidth to plot, only times."""
    text = render_markdown(view_of("shared_gpu"))
    assert "busbw" not in text and "(time.svg)" in text


def test_only_allow_listed_environment() -> None:
    """Hashed hosts, process ids, paths and per-set variables stay out of a report."""
    environment = make_environment(set_variables={"0": {"SECRET_VARIABLE": "1"}})
    text = render_markdown(build_view([make_record("none")], {"e0": environment}))
    assert "SECRET" not in text
    assert "pid" not in text.split("## Environment")[1]
