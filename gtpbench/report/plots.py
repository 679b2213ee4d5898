"""A quantity over size as SVG and PNG: one panel for each group that has it, one line an arm."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gtpbench.plan import Case
from gtpbench.report.figures import Quantity
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.orders import WITH_PROOF
from gtpbench.report.words import ORIGIN_LABEL, ORIGIN_TEXT
from gtpbench.units import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette: told apart by the colour-blind too."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "*", "h")
_LINES = ("-", "--", "-.", ":")
_MAX_COLUMNS = 2
_MAX_SIZE_LABELS = 8
_PANEL_WIDTH, _PANEL_HEIGHT = 5.6, 3.7
"""Inches."""


def render_svg(view: RunView, quantity: Quantity) -> bytes | None:
    """The figure as SVG, the same bytes for the same view; None where no row has the quantity."""
    return _render(view, quantity, "svg")


def render_png(view: RunView, quantity: Quantity) -> bytes | None:
    """The figure as PNG; None where no row has the quantity."""
    return _render(view, quantity, "png")


def _render(view: RunView, quantity: Quantity, kind: str) -> bytes | None:
    groups = [group for group in view.groups if quantity.rows(group)]
    if not groups:
        return None
    import matplotlib as mpl

    # Text as text keeps the file small and searchable; the salt makes element ids reproducible.
    settings: dict[Any, Any] = {
        "svg.hashsalt": "gtpbench",
        "svg.fonttype": "none",
        "font.size": 9.5,
        "font.family": "DejaVu Sans",
    }
    with mpl.rc_context():
        mpl.rcdefaults()  # a user's matplotlibrc must not change published figures
        mpl.rcParams.update(settings)
        figure = _figure(view, groups, quantity)
        stream = io.BytesIO()
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        figure.savefig(stream, format=kind, dpi=144, metadata=metadata, bbox_inches="tight", pad_inches=0.15)
    return stream.getvalue()


def style_of(number: int) -> tuple[str, str, str]:
    """Colour, marker and line of an arm by its place; markers repeat after twelve, combinations later."""
    return _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)], _LINES[number % len(_LINES)]


def _figure(view: RunView, groups: Sequence[Group], quantity: Quantity) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(groups), _MAX_COLUMNS)
    lines = -(-len(groups) // columns)
    figure = Figure(figsize=(_PANEL_WIDTH * columns, _PANEL_HEIGHT * lines + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False)
    for panel in panels.flat[len(groups) :]:
        panel.remove()
    several = len({group.origin for group in groups}) > 1
    for group, panel in zip(groups, panels.flat, strict=False):
        _panel(view, group, panel, quantity, name_origin=several)
    origin = "; ".join(dict.fromkeys(ORIGIN_TEXT[group.origin] for group in groups))
    figure.suptitle(f"{view.name} · {origin}" if not several else view.name, fontsize=11, fontweight="bold")
    handles = {line.get_label(): line for panel in figure.axes for line in panel.get_lines()}
    hollow = any(_hollow(row) for group in groups for row in quantity.rows(group))
    figure.legend(
        handles=[line for label, line in handles.items() if not str(label).startswith("_")],
        loc="outside lower center",
        ncols=6,
        frameon=False,
        handlelength=3.2,
        title="band: p10 to p90 of the time" + ("; hollow: not proved to have taken the arm's path" if hollow else ""),
        title_fontsize=8.5,
    )
    return figure


def _panel(view: RunView, group: Group, panel: "Axes", quantity: Quantity, *, name_origin: bool) -> None:
    for number, arm in enumerate(view.arms):
        rows = [row for row in quantity.rows(group) if row.arm.name == arm]
        if rows:
            _line(panel, arm, rows, quantity, style=style_of(number))
    title = f"{group.title}\n{ORIGIN_LABEL[group.origin]}" if name_origin else group.title
    clock = f", {group.clocks[0]} clock" if len(group.clocks) > 1 else ""
    panel.set_title(title + clock, fontsize=9.5, loc="left")
    # Ranks that share a GPU are shown, not judged.
    panel.set_ylabel(quantity.label + ("" if group.origin == "shared_gpu" else f"\n({quantity.direction})"))
    panel.set_xlabel("size (total bytes, as nccl-tests counts)")
    if quantity.logarithmic:
        _label_times(panel)
    else:
        panel.set_ylim(bottom=0.0)
    panel.set_xscale("log", base=2)
    _label_sizes(panel, [row.case for row in quantity.rows(group)])
    panel.grid(visible=True, axis="y", color="#dddddd", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _line(panel: "Axes", arm: str, rows: Sequence[Row], quantity: Quantity, *, style: tuple[str, str, str]) -> None:
    """One arm by increasing size; hollow markers where its path was not proved."""
    colour, marker, line = style
    sizes = [row.case.size_bytes for row in rows]
    timings = [timing for row in rows if (timing := row.headline)]
    values = [quantity.value(timing) or 0.0 for timing in timings]
    panel.plot(
        sizes, values, color=colour, marker=marker, linestyle=line, linewidth=1.6, markersize=5.5, label=arm, zorder=3
    )
    panel.fill_between(
        sizes,
        [quantity.low(timing) or 0.0 for timing in timings],
        [quantity.high(timing) or 0.0 for timing in timings],
        color=colour,
        alpha=0.18,
        linewidth=0,
    )
    hollow = [number for number, row in enumerate(rows) if _hollow(row)]
    if hollow:
        panel.plot(
            [sizes[number] for number in hollow],
            [values[number] for number in hollow],
            color=colour,
            marker=marker,
            markerfacecolor="white",
            linestyle="none",
            markersize=5.5,
            label="_hollow",
            zorder=4,
        )


def _hollow(row: Row) -> bool:
    return row.proof not in WITH_PROOF


def _label_times(panel: "Axes") -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def _label_sizes(panel: "Axes", cases: Sequence[Case]) -> None:
    """A tick at every size, labels at every second, third ... of many; `≈` and the requested one if rounded."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    names = {
        case.size_bytes: ("" if case.requested_bytes == case.size_bytes else "≈") + format_size(case.requested_bytes)
        for case in cases
    }
    sizes = sorted(names)
    step = -(-len(sizes) // _MAX_SIZE_LABELS)
    labels = [names[size] if number % step == 0 else "" for number, size in enumerate(sizes)]
    panel.xaxis.set_major_locator(FixedLocator(sizes))
    panel.xaxis.set_major_formatter(FixedFormatter(labels))
    panel.xaxis.set_minor_locator(NullLocator())
    if any(len(label) > 8 for label in labels):
        panel.tick_params(axis="x", labelrotation=30)
    if len(sizes) == 1:
        panel.set_xlim(sizes[0] / 2, sizes[0] * 2)
