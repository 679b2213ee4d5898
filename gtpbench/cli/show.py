"""A run's view on stdout, in the format asked for."""

from gtpbench.cli.output import emit
from gtpbench.report.model import RunView


def show(view: RunView, format: str) -> None:
    """Print the view: tables as wide as the terminal, or one of the machine formats."""
    if format == "table":
        from rich.console import Console

        from gtpbench.report.terminal import print_view

        print_view(view, Console(highlight=False))
    elif format == "json":
        from gtpbench.report.as_json import render_json

        emit(render_json(view))
    elif format == "csv":
        from gtpbench.report.as_csv import render_csv

        emit(render_csv(view))
    else:
        from gtpbench.report.nccl_tests import render_nccl_tests

        emit(render_nccl_tests(view))
