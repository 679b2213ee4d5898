"""report.md: the view as GitHub Markdown. The same records give the same bytes."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from gtpbench.collectives import COLLECTIVES
from gtpbench.record.model import Clock
from gtpbench.report.absent import absent_rows
from gtpbench.report.clocks import k_cell, k_header, k_varies
from gtpbench.report.figures import BUSBW, figures_of
from gtpbench.report.markup import Column, Table, escape, fenced, make_table
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.registration_tables import registration_tables
from gtpbench.report.registration_words import CAPTION
from gtpbench.report.sections import cost_tables, error_tables, proof_tables
from gtpbench.report.trust import trust_lines
from gtpbench.report.verdict import verdict_text
from gtpbench.report.words import (
    MISSING,
    PROOF_TEXT,
    aggregation_text,
    group_title,
    path_cell,
    percent,
    ratio_text,
    size_text,
)
from gtpbench.units import format_rate


def render_markdown(view: RunView) -> str:
    """The text of report.md."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Every string below is escaped for Markdown, which HTML escaping would spoil.
    templates = Environment(
        loader=PackageLoader("gtpbench.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    text = templates.get_template("report.md.j2").render(_context(view))
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def _context(view: RunView) -> dict[str, Any]:
    subjects = [COLLECTIVES[group.collective].title for group in view.groups]
    subjects += ["registration cost"] if view.registrations else []
    return {
        "title": escape(f"{view.name}: {', '.join(dict.fromkeys(subjects))}, {_arms(view)}"),
        "verdict": escape(verdict_text(view)),
        "trust": [(label, escape(sentence)) for label, sentence in trust_lines(view)],
        "figures": [(f"{one.name}.svg", f"{one.title} over size, one line an arm") for one in figures_of(view)],
        "rates": BUSBW in figures_of(view),
        "times": _times(view),
        "compared": any(row.comparison for row in view.rows),
        "tables": [_table(view, group) for group in view.groups],
        "registrations": registration_tables(view),
        "registration_times": escape(f"{CAPTION} (p10–p90)"),
        "proofs": proof_tables(view),
        "errors": error_tables(view),
        "costs": cost_tables(view),
        "legacy": any(proof.legacy for row in view.rows for proof in row.proofs),
        "footnotes": [f"<sup>{footnote.mark}</sup> {escape(footnote.text)}" for footnote in view.footnotes],
        "environment": [(escape(name), escape(value)) for name, value in view.environment],
        "command": fenced(view.command) if view.command else "The command was not recorded.",
        "versions": _versions(view),
    }


def _arms(view: RunView) -> str:
    """`symm against none`; arms that are never compared are named after it, and all are where nothing is."""
    if view.registrations:
        return ", ".join(view.arms)
    families = {row.arm.name: row.arm.family for row in view.rows}
    others = [arm for arm in view.arms[1:] if families[arm] == families[view.baseline]]
    if not others or view.only_functional:
        return ", ".join(view.arms)
    apart = [arm for arm in view.arms[1:] if arm not in others]
    return "; ".join([f"{', '.join(others)} against {view.baseline}", *([", ".join(apart)] if apart else [])])


def _times(view: RunView) -> str:
    """What a time is, in a sentence without its beginning."""
    other = aggregation_text([timing for row in view.rows for timing in row.timings])
    if other:
        return escape(other)
    return "the slowest rank of each iteration, then the median over iterations, with 10 % and 90 % points"


def _versions(view: RunView) -> list[str]:
    return [
        f"gtpbench {escape(', '.join(view.tool_versions))}",
        f"commit {escape(', '.join(view.commits) or 'unknown')}",
        f"plan {escape(', '.join(view.plan_digests))}",
    ]


def _table(view: RunView, group: Group) -> Table:
    notes = [f"{a.status}: {a.arm} at {a.sizes}: {a.reason}" for a in absent_rows(group.rows)]
    shown = [row for row in group.rows if row.timings]
    return make_table(group_title(group), shown, _columns(view, group), notes=notes)


def _columns(view: RunView, group: Group) -> list[Column[Row]]:
    columns: list[Column[Row]] = [
        Column(header="size", cell=lambda row: escape(size_text(row))),
        Column(header="arm", cell=lambda row: escape(row.arm.name) + _marks(view.row_marks(row)), right=False),
    ]
    if k_varies([row for row in group.rows if row.timings]):
        columns.append(Column(header=k_header(group), cell=partial(k_cell, group)))
    for clock in group.clocks:
        columns.append(Column(header=f"{clock}, us", cell=partial(_median, view, clock)))
        columns.append(Column(header="p10–p90", cell=partial(_range, clock)))
    columns += [
        Column(header="busbw, GB/s", cell=_busbw),
        Column(header="path", cell=lambda row: escape(path_cell(row)), right=False),
        Column(header="CTAs", cell=lambda row: MISSING if row.ctas is None else str(row.ctas)),
    ]
    if group.shows_ratios:
        demonstration = ", a demonstration" if group.origin == "cpu" else ""
        header = f"against {view.baseline}{demonstration}"
        columns.append(Column(header=header, cell=lambda row: escape(ratio_text(row)), right=False))
        columns.append(Column(header="detects", cell=_detects))
    columns.append(
        Column(header="proof", cell=lambda row: MISSING if row.proof is None else PROOF_TEXT[row.proof], right=False)
    )
    return columns


def _marks(marks: Sequence[int]) -> str:
    return f" <sup>{','.join(map(str, marks))}</sup>" if marks else ""


def _median(view: RunView, clock: Clock, row: Row) -> str:
    timing = row.timing(clock)
    if timing is None:
        return MISSING
    return format_rate(timing.summary.median_us) + _marks(view.clock_marks(row, clock))


def _range(clock: Clock, row: Row) -> str:
    timing = row.timing(clock)
    if timing is None or timing.summary.num_samples == 1:
        return MISSING
    return f"{format_rate(timing.summary.p10_us)}–{format_rate(timing.summary.p90_us)}"


def _detects(row: Row) -> str:
    """The smallest slowdown the row would have found 9 times in 10."""
    ratio = row.comparison.minimum_detectable_ratio if row.comparison else None
    return MISSING if ratio is None else f"+{percent(ratio - 1)}"


def _busbw(row: Row) -> str:
    rate = row.headline.busbw_gb_per_s if row.headline else None
    return MISSING if rate is None else format_rate(rate)
