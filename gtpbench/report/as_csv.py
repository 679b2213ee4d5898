"""results.csv: one line per case x arm."""

from gtpbench.report.digits import DIGITS
from gtpbench.report.frame import to_frame
from gtpbench.report.model import RunView


def render_csv(view: RunView) -> str:
    """The text of results.csv: raw numbers, units in the header, empty where there is no value."""
    return to_frame(view).to_csv(index=False, lineterminator="\n", float_format=f"%.{DIGITS}g")
