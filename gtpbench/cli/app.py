"""Registers the commands and turns outcomes into exit codes, the only place that does."""

import signal
import sys
from types import FrameType

import typer

from gtpbench import __version__
from gtpbench.cli import allgather, env, import_, list_, merge, plan, reducescatter, report, run
from gtpbench.cli.output import say
from gtpbench.errors import ExitCode, GtpbenchError, Interrupted

app = typer.Typer(
    name="gtpbench",
    help="Does symmetric memory pay for Megatron's GTP and expert-parallel communication, and did NCCL take that path?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing rich alone would cost more than everything else
)

app.command("allgather")(allgather.command)
app.command("reducescatter")(reducescatter.command)
app.command("run")(run.command)
app.command("plan")(plan.command)
app.command("report")(report.command)
app.command("merge")(merge.command)
app.command("import")(import_.command)
app.command("list")(list_.command)
app.command("env")(env.command)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"gtpbench {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Entry point: run the command line and exit with the documented code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        app()
    except GtpbenchError as error:
        say(f"error: {error}")
        sys.exit(int(error.exit_code))
    except Interrupted:
        say("interrupted")
        sys.exit(int(ExitCode.INTERRUPTED))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End once and quietly, however often the user or the launcher asks."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise Interrupted
