"""The view as tables for a terminal or a pipe, with rich."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gtpbench.record.model import Clock, ProofVerdict
from gtpbench.report.absent import absent_rows
from gtpbench.report.clocks import k_cell, k_header, k_varies
from gtpbench.report.markup import Column
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.proof_lines import doubts
from gtpbench.report.registration import RegistrationGroup, RegistrationRow
from gtpbench.report.registration_tables import registration_columns
from gtpbench.report.registration_words import CAPTION, doubt_lines, group_lines
from gtpbench.report.trust import trust_lines
from gtpbench.report.words import (
    MISSING,
    PROOF_TEXT,
    PROOF_TONE,
    Tone,
    aggregation_text,
    group_title,
    path_cell,
    plain_ascii,
    ratio_text,
    ratio_tone,
    size_text,
)
from gtpbench.units import format_rate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES: dict[Tone, str] = {"good": "green", "bad": "bold red", "open": "yellow", "plain": ""}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How much fits: p10 to p90 on the first `ranges` clocks, the columns that may go."""

    ranges: int
    k: bool = True
    algorithm: bool = True
    path: bool = True


_LAYOUTS = (
    _Layout(ranges=9),
    _Layout(ranges=1),
    _Layout(ranges=0),
    _Layout(ranges=0, k=False),
    _Layout(ranges=0, k=False, algorithm=False),
    _Layout(ranges=0, k=False, path=False),
)
"""From wide to narrow; the first that fits the console is used."""


def print_view(view: RunView, console: "Console") -> None:
    """Print everything but the closing line; without the padding at line ends where no terminal reads it."""
    if console.is_terminal:
        _print(view, console)
        return
    with console.capture() as captured:
        _print(view, console)
    console.file.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def render_text(view: RunView, *, width: int = 100, terminal: bool = False, encoding: str = "utf-8") -> str:
    """The same as text: plain, or with a terminal's colours; in ASCII where `encoding` has no more."""
    import io

    from rich.console import Console

    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", newline="")
    print_view(
        view,
        Console(
            file=stream,
            highlight=False,
            width=width,
            force_terminal=terminal,
            color_system="auto" if terminal else None,
        ),
    )
    stream.seek(0)
    return stream.read()


def _print(view: RunView, console: "Console") -> None:
    from rich.text import Text

    ascii_only = console.options.ascii_only

    def text(words: str, style: str = "") -> Text:
        return Text(plain_ascii(words) if ascii_only else words, style=style)

    console.print(_grid(trust_lines(view), text))
    for group in view.groups:
        console.print()
        console.print(text(group_title(group), "bold"))
        absent = absent_rows(group.rows)
        if absent:
            console.print(_grid([(item.status, f"{item.arm} at {item.sizes}: {item.reason}") for item in absent], text))
        shown = [row for row in group.rows if row.timings]
        if shown:
            layout, table = _fitting(view, group, shown, console, text)
            console.print(text(_caption(shown, ranges=layout.ranges > 0), "dim"))
            console.print(table)
        lacking = doubts(group)
        if lacking:
            console.print(_grid([(PROOF_TEXT[doubt.verdict], doubt.text) for doubt in lacking], text))
    for registrations in view.registrations:
        console.print()
        _print_registrations(view, registrations, console, text)
    if view.footnotes:
        console.print()
    for footnote in view.footnotes:
        console.print(text(f"{_marks((footnote.mark,), ascii_only)} {footnote.text}", "dim"))


_MakeText = Callable[..., "Text"]


def _grid(lines: Sequence[tuple[str, str]], text: _MakeText) -> "Table":
    """Labels and sentences, the sentences wrapped beside their label."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, sentence in lines:
        grid.add_row(text(label, "dim"), text(sentence))
    return grid


def _caption(rows: Sequence[Row], *, ranges: bool) -> str:
    """What every row of a table shares."""
    other = aggregation_text([timing for row in rows for timing in row.timings])
    parts = [
        f"time of one operation, {other}"
        if other
        else "time of one operation on the slowest rank: median" + (" (p10–p90)" if ranges else "")
    ]
    if any(proof.legacy for row in rows for proof in row.proofs):
        parts.append("legacy: ring, NVLS or PAT")
    proofs = {row.proof for row in rows}
    return " · ".join(parts) + (_every(rows[0].proof) if len(proofs) == 1 else "")


def _every(proof: ProofVerdict | None) -> str:
    """The end of a caption where all rows have one proof."""
    return "" if proof is None else f" · every row {PROOF_TEXT[proof]}"


def _print_registrations(view: RunView, group: RegistrationGroup, console: "Console", text: _MakeText) -> None:
    """Title, what stands above the table, the widest table that fits, doubts."""
    console.print(text(group_title(group), "bold"))
    if above := group_lines(view, group):
        console.print(_grid(above, text))
    if shown := [row for row in group.rows if row.register]:
        ranges, table = _fitting_registrations(shown, console, text)
        same = _every(shown[0].proof) if len({row.proof for row in shown}) == 1 else ""
        console.print(text(f"{CAPTION}{' (p10–p90)' if ranges else ''}{same}", "dim"))
        console.print(table)
    if below := doubt_lines(group):
        console.print(_grid(below, text))


def _fitting_registrations(
    rows: Sequence[RegistrationRow], console: "Console", text: _MakeText
) -> "tuple[bool, Table]":
    """Whether there is room for p10 and p90, and the widest table that fits."""
    for ranges, full in ((True, True), (True, False), (False, True), (False, False)):
        table = _registrations(rows, text, registration_columns(ranges=ranges, full=full))
        if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
            return ranges, table
    return False, _registrations(rows, text, registration_columns(ranges=False, full=False, memory=False))


def _registrations(
    rows: Sequence[RegistrationRow], text: _MakeText, columns: Sequence[Column[RegistrationRow]]
) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    used = [column for column in columns if any(column.cell(row) != MISSING for row in rows)]
    if len({row.proof for row in rows}) == 1:
        used = used[:-1]  # the caption says it
    for column in used:
        table.add_column(text(column.header), justify="right" if column.right else "left", vertical="bottom")
    for row in rows:
        table.add_row(*(text(column.cell(row)) for column in used))
    return table


def _fitting(
    view: RunView, group: Group, rows: Sequence[Row], console: "Console", text: _MakeText
) -> "tuple[_Layout, Table]":
    """The widest layout that the console has room for, else the narrowest."""
    for layout in _LAYOUTS[:-1]:
        table = _table(view, group, rows, layout, text)
        if console.measure(table, options=console.options.update(width=1000)).maximum <= console.width:
            return layout, table
    return _LAYOUTS[-1], _table(view, group, rows, _LAYOUTS[-1], text)


def _table(view: RunView, group: Group, rows: Sequence[Row], layout: _Layout, text: _MakeText) -> "Table":
    from rich import box
    from rich.table import Table

    columns = _columns(view, group, rows, layout, ascii_only=text("–").plain == "-")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(text(column.header), justify="right" if column.right else "left", vertical="bottom")
    for row in rows:
        table.add_row(*(text(column.cell(row), _STYLES[column.tone(row)]) for column in columns))
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    header: str
    cell: Callable[[Row], str]
    right: bool = True
    tone: Callable[[Row], Tone] = lambda _: "plain"


def _columns(view: RunView, group: Group, rows: Sequence[Row], layout: _Layout, *, ascii_only: bool) -> list[_Column]:
    """The columns that have something to say."""

    def arm(row: Row) -> str:
        return f"{row.arm.name} {_marks(view.row_marks(row), ascii_only)}".rstrip()

    columns = [_Column(header="size", cell=size_text), _Column(header="arm", cell=arm, right=False)]
    if layout.k and k_varies(rows):
        columns.append(_Column(header="\n".join(k_header(group).split(", ")), cell=partial(k_cell, group)))
    for number, clock in enumerate(group.clocks):
        columns.append(_clock_column(view, clock, rows, wide=number < layout.ranges, ascii_only=ascii_only))
    if any(row.headline and row.headline.busbw_gb_per_s is not None for row in rows):
        columns.append(_Column(header="busbw\nGB/s", cell=_busbw))
    if layout.path:
        columns.append(_Column(header="path", cell=partial(path_cell, full=layout.algorithm), right=False))
        if any(row.ctas is not None for row in rows):
            columns.append(_Column(header="CTAs", cell=lambda row: MISSING if row.ctas is None else str(row.ctas)))
    if group.shows_ratios:
        demonstration = ",\na demonstration" if group.origin == "cpu" else ""
        header = f"against {view.baseline}{demonstration}"
        columns.append(_Column(header=header, cell=ratio_text, right=False, tone=ratio_tone))
    if len({row.proof for row in rows}) > 1:
        columns.append(_Column(header="proof", cell=_proof, right=False, tone=_proof_tone))
    return columns


def _proof(row: Row) -> str:
    return MISSING if row.proof is None else PROOF_TEXT[row.proof]


def _proof_tone(row: Row) -> Tone:
    return "plain" if row.proof is None else PROOF_TONE[row.proof]


def _busbw(row: Row) -> str:
    rate = row.headline.busbw_gb_per_s if row.headline else None
    return MISSING if rate is None else format_rate(rate)


def _clock_column(view: RunView, clock: Clock, rows: Sequence[Row], *, wide: bool, ascii_only: bool) -> _Column:
    """Medians, with their range where the layout is wide; footnote marks stand behind numbers that stay aligned."""
    marks = {id(row): _marks(view.clock_marks(row, clock), ascii_only) for row in rows}
    if not any(marks.values()):
        return _Column(header=f"{clock}\nus", cell=partial(_time, clock, wide=wide))
    tail = 1 + max(map(len, marks.values()))
    width = max(len(clock) - tail, *(len(_time(clock, row, wide=wide)) for row in rows))
    return _Column(
        header=f"{clock:>{width + tail}}\n{'us':>{width}}",
        cell=lambda row: f"{_time(clock, row, wide=wide):>{width}} {marks[id(row)]}",
        right=False,
    )


def _time(clock: Clock, row: Row, *, wide: bool) -> str:
    timing = row.timing(clock)
    if timing is None:
        return MISSING
    summary = timing.summary
    if not wide or summary.num_samples == 1:
        return format_rate(summary.median_us)
    return f"{format_rate(summary.median_us)} ({format_rate(summary.p10_us)}–{format_rate(summary.p90_us)})"


def _marks(marks: Sequence[int], ascii_only: bool) -> str:
    if not marks:
        return ""
    if ascii_only:
        return "[" + ",".join(map(str, marks)) + "]"
    return " ".join(str(mark).translate(_SUPERSCRIPTS) for mark in marks)
