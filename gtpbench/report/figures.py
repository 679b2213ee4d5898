"""The figures of a run: what each draws over size. Drawing is in `plots`."""

from collections.abc import Callable
from dataclasses import dataclass

from gtpbench.report.model import Group, Row, RunView, Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One number of the headline clock.

    Attributes:
        name: of the files, without ending.
        title: in words.
        label: of the axis, with unit.
        direction: which end is better.
        value: at the median time; None where the row has none, as `low` and `high` of the band.
        logarithmic: whether the axis is.
    """

    name: str
    title: str
    label: str
    direction: str
    value: Callable[[Timing], float | None]
    low: Callable[[Timing], float | None]
    high: Callable[[Timing], float | None]
    logarithmic: bool

    def rows(self, group: Group) -> list[Row]:
        """The rows of a table that have it."""
        return [row for row in group.rows if row.headline and self.value(row.headline)]


BUSBW = Quantity(
    name="busbw",
    title="Bus bandwidth",
    label="bus bandwidth, GB/s",
    direction="higher is better",
    value=lambda timing: timing.busbw_gb_per_s,
    low=lambda timing: timing.busbw_low_gb_per_s,
    high=lambda timing: timing.busbw_high_gb_per_s,
    logarithmic=False,
)
TIME = Quantity(
    name="time",
    title="Time of one operation",
    label="time of one operation, us",
    direction="lower is better",
    value=lambda timing: timing.summary.median_us,
    low=lambda timing: timing.summary.p10_us,
    high=lambda timing: timing.summary.p90_us,
    logarithmic=True,
)
QUANTITIES = (BUSBW, TIME)


def figures_of(view: RunView) -> list[Quantity]:
    """Those that some row has; ranks that share a GPU have no bandwidth."""
    return [quantity for quantity in QUANTITIES if any(quantity.rows(group) for group in view.groups)]
