"""`gtpbench merge`."""

from pathlib import Path
from typing import Annotated

import typer

from gtpbench.cli import options as o

Directories = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Output folders of the same plan.")]
MergeOut = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the merged run.")]


def command(directories: Directories, out: MergeOut, format: o.OutputFormat = o.Format.TABLE) -> None:
    """Merge runs of one plan into one folder.

    Launches are renumbered; other plans and unlike machines are refused.

    Example: gtpbench merge run-1 run-2 --out both
    """
    from gtpbench.cli.output import say
    from gtpbench.cli.show import show
    from gtpbench.launch.merge import merge_folders
    from gtpbench.report.render import write_reports

    merge_folders(directories, out, warn=say)
    show(write_reports(out, warn=say), format.value)
