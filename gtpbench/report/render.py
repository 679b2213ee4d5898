"""Writes the reports of a run folder beside its results."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from gtpbench.errors import GtpbenchError, ResultsError
from gtpbench.record import read_environments, read_records
from gtpbench.record.lines import ENVIRONMENTS, RESULTS
from gtpbench.report.as_csv import render_csv
from gtpbench.report.as_json import render_json
from gtpbench.report.figures import QUANTITIES
from gtpbench.report.markdown import render_markdown
from gtpbench.report.model import RunView
from gtpbench.report.plots import render_png, render_svg
from gtpbench.report.view import build_view
from gtpbench.scenario.load import load_scenario
from gtpbench.scenario.schema import Scenario

SCENARIO = "scenario.toml"


def read_view(directory: Path, *, warn: Callable[[str], None]) -> RunView:
    """The view of a run folder.

    Raises:
        ResultsError: the folder has no results, or they cannot be read.
    """
    records = read_records(directory / RESULTS, warn=warn)
    if not records:
        raise ResultsError(f"{directory / RESULTS} holds no record")
    environments = read_environments(directory / ENVIRONMENTS, warn=warn)
    return build_view(records, environments, scenario=_scenario(directory / SCENARIO, warn))


def write_reports(directory: Path, *, warn: Callable[[str], None]) -> RunView:
    """Read a run folder and write report.md, report.json, results.csv and the figures (SVG and PNG) into it.

    Each file is replaced as a whole. A figure that has nothing to show, as busbw without rates, is removed.

    Raises:
        ResultsError: the folder has no results, or a file cannot be read or written.
    """
    view = read_view(directory, warn=warn)
    files = {
        "report.md": render_markdown(view).encode(),
        "report.json": render_json(view).encode(),
        "results.csv": render_csv(view).encode(),
        **{f"{quantity.name}.svg": render_svg(view, quantity) for quantity in QUANTITIES},
        **{f"{quantity.name}.png": render_png(view, quantity) for quantity in QUANTITIES},
    }
    for name, content in files.items():
        _replace(directory / name, content)
    return view


def _scenario(path: Path, warn: Callable[[str], None]) -> Scenario | None:
    """The scenario beside the results; one that is missing or cannot be read costs only the arms' order."""
    if not path.exists():
        return None
    try:
        return load_scenario(path)
    except GtpbenchError as error:
        warn(f"{error}; arms are ordered as in the results")
        return None


def _replace(path: Path, content: bytes | None) -> None:
    """Put a file in place at once, or take it away."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        if content is None:
            path.unlink(missing_ok=True)
            return
        temporary.write_bytes(content)
        os.replace(temporary, path)  # noqa: PTH105 - the name says that it is atomic
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ResultsError(f"cannot write {path}: {error.strerror}") from error
