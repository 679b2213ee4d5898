"""A run's view on stdout, in the format asked for."""

import os
import shutil
import sys
from typing import TYPE_CHECKING

from gtpbench.cli.output import emit

if TYPE_CHECKING:
    from gtpbench.report.model import RunView

PIPE_WIDTH = 120
"""Columns of tables that do not go to a terminal, unless COLUMNS says otherwise."""


def show(view: "RunView", format: str) -> None:
    """Print the view: tables as wide as the terminal, or one of the machine formats.

    Raises:
        ResultsError: stdout cannot be written.
    """
    if format == "table":
        emit(_table(view))
    elif format == "json":
        from gtpbench.report.as_json import render_json

        emit(render_json(view))
    elif format == "csv":
        from gtpbench.report.as_csv import render_csv

        emit(render_csv(view))
    else:
        from gtpbench.report.nccl_tests import render_nccl_tests

        emit(render_nccl_tests(view))


def _table(view: "RunView") -> str:
    from gtpbench.report.terminal import render_text

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal or "COLUMNS" in os.environ else PIPE_WIDTH
    return render_text(view, width=width, terminal=terminal, encoding=sys.stdout.encoding)
