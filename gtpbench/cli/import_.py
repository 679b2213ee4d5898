"""`gtpbench import`."""

from pathlib import Path
from typing import Annotated

import typer

from gtpbench.cli import options as o

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Outputs of nccl-tests, JSON (-J) or text.")]
ImportOut = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the results.")]
ImportedArm = Annotated[
    str | None,
    typer.Option("--arm", metavar="NAME", help="nccltests:0 or nccltests:2, for text: it does not tell -R."),
]


def command(files: Files, *, out: ImportOut, arm: ImportedArm = None, format: o.OutputFormat = o.Format.TABLE) -> None:
    """Read results of nccl-tests.

    all_gather_perf and reduce_scatter_perf; each file is a launch. Ends with 12 where rows had to be left out.

    Example: gtpbench import all_gather_R0.json --out imported
    """
    import sys

    from gtpbench.cli.output import say
    from gtpbench.cli.show import show
    from gtpbench.errors import ExitCode
    from gtpbench.launch.probe import allowed_variables
    from gtpbench.record.nccl_tests.folder import import_files
    from gtpbench.report.render import write_reports

    num_left_out = import_files(files, out, arm=arm, allowed=allowed_variables, warn=say)
    show(write_reports(out, warn=say), format.value)
    if num_left_out:
        say(f"rows left out: {num_left_out}")
        sys.exit(int(ExitCode.NOT_AS_ASKED))
