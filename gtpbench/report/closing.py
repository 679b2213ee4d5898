"""The last line of every run."""

from pathlib import Path

from gtpbench.errors import ExitCode
from gtpbench.report.model import RunView
from gtpbench.report.verdict import proof_text, verdict_text


def closing_line(view: RunView, *, exit_code: int, directory: Path) -> str:
    """Verdict, arms without proof, exit code, output directory; one line without line end."""
    name = ExitCode(exit_code).name.lower().replace("_", " ") if exit_code in set(ExitCode) else "unknown"
    meaning = "" if exit_code == ExitCode.OK else f" ({name})"
    return " · ".join([verdict_text(view), proof_text(view), f"exit {int(exit_code)}{meaning}", str(directory)])
