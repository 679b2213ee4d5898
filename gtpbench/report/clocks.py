"""How many operations each clock's intervals hold, and what the clocks are."""

from collections.abc import Iterable, Sequence

from gtpbench.record.model import Clock
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.orders import clock_order
from gtpbench.report.words import MISSING

_KIND: dict[Clock, str] = {
    "graph": "operations captured in one CUDA graph",
    "stream": "operations issued from the host, as without graphs",
    "isolated": "single operations, aligned",
}
"""Device clocks; the host clock of CPU ranks needs no explanation."""


def clocks_text(view: RunView) -> str | None:
    """For example `graph (headline): k=64 operations captured in one CUDA graph; stream: k=8 ...`; None where
    nothing was timed on a device clock of gtpbench's own."""
    timings = [timing for row in view.rows for timing in row.timings if timing.aggregation is None]
    clocks = [clock for clock in clock_order(timing.clock for timing in timings) if clock in _KIND]
    if not clocks:
        return None
    headlines = {row.headline.clock for row in view.rows if row.headline}
    parts = []
    for clock in clocks:
        name = f"{clock} (headline)" if clock in headlines and len(clocks) > 1 else clock
        span = k_span(k for timing in timings if timing.clock == clock for k in timing.k)
        parts.append(f"{name}: k={span} {_KIND[clock]}")
    return "; ".join(parts)


def k_span(numbers: Iterable[int]) -> str:
    """`64`, or `16 to 256`."""
    sizes = sorted(set(numbers))
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def k_header(group: Group) -> str:
    """The clocks of `k_cell`: `k, graph/stream`."""
    return "k, " + "/".join(_device(group))


def k_cell(group: Group, row: Row) -> str:
    """Operations an interval on each device clock of the table: `64/8`."""
    timings = [row.timing(clock) for clock in _device(group)]
    return "/".join(k_span(timing.k) if timing else MISSING for timing in timings)


def k_varies(rows: Sequence[Row]) -> bool:
    """Whether rows differ in k on some device clock."""
    return any(
        len({timing.k for row in rows for timing in row.timings if timing.clock == clock}) > 1 for clock in _KIND
    )


def _device(group: Group) -> list[Clock]:
    return [clock for clock in group.clocks if clock in _KIND]
