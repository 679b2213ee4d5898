"""report.md: the view as GitHub Markdown. The same records give the same bytes."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gtpbench.collectives import COLLECTIVES
from gtpbench.record.model import Clock
from gtpbench.report.absent import absent_rows
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.trust import trust_lines
from gtpbench.report.verdict import verdict_text
from gtpbench.report.words import MISSING, PROOF_TEXT, group_title, percent, ratio_text, size_text
from gtpbench.units import format_rate

_SPECIAL = re.compile(r"([\\`*|~]|\](?=[(\[])|(?<!\w)_|_(?!\w))")


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


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in a table cell too: no markup, no HTML, no new line."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str) -> str:
    """A code block, its fence longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"


def _context(view: RunView) -> dict[str, Any]:
    collectives = ", ".join(dict.fromkeys(COLLECTIVES[group.collective].title for group in view.groups))
    others = ", ".join(view.arms[1:])
    compared = f"{others} against {view.baseline}" if others else view.baseline
    return {
        "title": escape(f"{view.name}: {collectives}, {compared}"),
        "verdict": escape(verdict_text(view)),
        "trust": [(label, escape(sentence)) for label, sentence in trust_lines(view)],
        "plot": has_rates(view),
        "compared": any(row.comparison for row in view.rows),
        "groups": [_group(view, group) for group in view.groups],
        "footnotes": [f"<sup>{footnote.mark}</sup> {escape(footnote.text)}" for footnote in view.footnotes],
        "environment": [(escape(name), escape(value)) for name, value in view.environment],
        "command": fenced(view.command) if view.command else "The command was not recorded.",
        "versions": _versions(view),
    }


def has_rates(view: RunView) -> bool:
    """Whether any row has a bandwidth to plot."""
    return any(row.headline and row.headline.busbw_gb_per_s is not None for row in view.rows)


def _versions(view: RunView) -> list[str]:
    return [
        f"gtpbench {escape(', '.join(view.tool_versions))}",
        f"commit {escape(', '.join(view.commits) or 'unknown')}",
        f"plan {escape(', '.join(view.plan_digests))}",
    ]


def _group(view: RunView, group: Group) -> dict[str, Any]:
    columns = _columns(view, group)
    return {
        "title": escape(group_title(group)),
        "absent": [escape(f"{a.status}: {a.arm} at {a.sizes}: {a.reason}") for a in absent_rows(group.rows)],
        "header": [escape(header) for header, _, _ in columns],
        "align": ["---:" if right else "---" for _, right, _ in columns],
        "rows": [[cell(row) for _, _, cell in columns] for row in group.rows if row.timings],
    }


_Columns = list[tuple[str, bool, Callable[[Row], str]]]
"""(header, right-aligned, cell)"""


def _columns(view: RunView, group: Group) -> _Columns:
    def arm(row: Row) -> str:
        marks = ",".join(map(str, view.marks(row)))
        return escape(row.arm.name) + (f" <sup>{marks}</sup>" if marks else "")

    columns: _Columns = [("size", True, lambda row: escape(size_text(row))), ("arm", False, arm)]
    for clock in group.clocks:
        columns.append((f"{clock}, us", True, partial(_median, clock)))
        columns.append(("p10–p90", True, partial(_range, clock)))
    columns += [
        ("busbw, GB/s", True, _busbw),
        ("path", False, lambda row: escape(row.path or MISSING)),
        ("CTAs", True, lambda row: MISSING if row.ctas is None else str(row.ctas)),
    ]
    if group.shows_ratios:
        demonstration = ", a demonstration" if group.origin == "cpu" else ""
        columns.append((f"against {view.baseline}{demonstration}", False, lambda row: escape(ratio_text(row))))
        columns.append(("detects", True, _detects))
    columns.append(("proof", False, lambda row: MISSING if row.proof is None else PROOF_TEXT[row.proof]))
    return _without_empty(columns, [row for row in group.rows if row.timings])


def _without_empty(columns: _Columns, rows: Sequence[Row]) -> _Columns:
    """Columns in which some row says something."""
    return [column for column in columns if any(column[2](row) != MISSING for row in rows)]


def _median(clock: Clock, row: Row) -> str:
    timing = row.timing(clock)
    return MISSING if timing is None else format_rate(timing.summary.median_us)


def _range(clock: Clock, row: Row) -> str:
    timing = row.timing(clock)
    if timing is None:
        return MISSING
    return f"{format_rate(timing.summary.p10_us)}–{format_rate(timing.summary.p90_us)}"


def _detects(row: Row) -> str:
    """The smallest slowdown the row would have found 9 times in 10."""
    ratio = row.comparison.minimum_detectable_ratio if row.comparison else None
    return MISSING if ratio is None else f"+{percent(ratio - 1)}"


def _busbw(row: Row) -> str:
    rate = row.headline.busbw_gb_per_s if row.headline else None
    return MISSING if rate is None else format_rate(rate)
