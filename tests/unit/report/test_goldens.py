"""Golden files of every format, byte for byte.

Make them again with GTPBENCH_UPDATE_GOLDENS=1, and read the difference before committing it.
"""

import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pytest

from gtpbench.report.as_csv import render_csv
from gtpbench.report.as_json import render_json
from gtpbench.report.figures import BUSBW, TIME, Quantity
from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.nccl_tests import render_nccl_tests
from gtpbench.report.plots import render_svg
from gtpbench.report.terminal import render_text
from tests.unit.report.runs import view_of

GOLDENS = Path(__file__).parents[2] / "data" / "report"
UPDATE = "GTPBENCH_UPDATE_GOLDENS"
SVG_MADE_WITH = "3.11"
"""matplotlib's version: another one may place text elsewhere."""

FORMATS: dict[str, Callable[[RunView], str]] = {
    "terminal-80.txt": lambda view: render_text(view, width=80),
    "terminal-100.txt": lambda view: render_text(view, width=100),
    "terminal-140.txt": lambda view: render_text(view, width=140),
    "report.md": render_markdown,
    "results.csv": render_csv,
    "report.json": render_json,
    "nccl-tests.txt": render_nccl_tests,
}


def _check(name: str, content: bytes) -> None:
    path = GOLDENS / name
    if os.environ.get(UPDATE):
        path.write_bytes(content)
    assert content == path.read_bytes(), f"{name} differs; {UPDATE}=1 writes it again"


@pytest.mark.parametrize(
    ("run", "name"),
    [
        *((run, name) for run in ("cpu", "gpu", "shared_gpu") for name in FORMATS),
        *(("h200", name) for name in FORMATS if name != "report.json"),
        *(("registration", name) for name in FORMATS if name != "nccl-tests.txt"),
        ("shared_registration", "terminal-100.txt"),
        ("shared_registration", "report.md"),
        ("cross_check", "nccl-tests.txt"),
        ("cross_check", "report.md"),
    ],
)
def test_text_formats(run: str, name: str) -> None:
    """What is printed and written today is what was read and found right."""
    _check(f"{run}.{name}", FORMATS[name](view_of(run)).encode())


@pytest.mark.skipif(not mpl.__version__.startswith(SVG_MADE_WITH), reason=f"made with matplotlib {SVG_MADE_WITH}")
@pytest.mark.parametrize(("run", "quantity"), [("cpu", BUSBW), ("gpu", BUSBW), ("h200", TIME)])
def test_svg(run: str, quantity: Quantity) -> None:
    """The figures too, with the matplotlib that made them."""
    content = render_svg(view_of(run), quantity)
    assert content is not None
    _check(f"{run}.{quantity.name}.svg", content)
