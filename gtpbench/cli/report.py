"""`gtpbench report`."""

from gtpbench.cli import options as o


def command(directory: o.RunFolderArgument, format: o.OutputFormat = o.Format.TABLE) -> None:
    """Render a run's folder again and print it.

    Everything is rebuilt from its results.jsonl and environments.jsonl.

    Example: gtpbench report gtpbench-results/quickstart --format csv
    """
    from gtpbench.cli.output import say
    from gtpbench.cli.show import show
    from gtpbench.report.render import write_reports

    show(write_reports(directory, warn=say), format.value)
