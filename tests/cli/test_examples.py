"""The examples in the commands' own help, typed as they stand there."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.main import get_command

from gtpbench.cli.app import app
from tests.cli.command import ROOT, Outcome, gtpbench, write_scenario
from tests.markers import ranks

STANDIN = """
name = "example"
arms = ["none", "symm"]
backend = "standin"
num_ranks = 2
[workload]
collectives = ["all_gather"]
sizes = ["64K"]
dtypes = ["fp32"]
[measure]
blocks = 2
iters = 4
hot = true
"""


def _examples(command: str) -> list[list[str]]:
    """The words after `gtpbench` in the examples of a command's help."""
    text = get_command(app).commands[command].help or ""
    return [shlex.split(words) for words in re.findall(r"Example: gtpbench (.+)", text)]


def _typed(command: str, folder: Path, *more: str, number: int = 0) -> Outcome:
    outcome = gtpbench(*_examples(command)[number], *more, cwd=folder).run()
    assert outcome.code == 0, outcome.stderr
    assert outcome.stdout
    return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with scenarios/ in it, as the checkout is."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    return tmp_path


@pytest.mark.parametrize("command", ["plan", "list", "env"])
def test_examples_that_run_nothing(folder: Path, command: str) -> None:
    """They print something and end with 0."""
    _typed(command, folder)


@ranks
@pytest.mark.parametrize("command", ["allgather", "reducescatter"])
def test_examples_of_collectives(folder: Path, command: str) -> None:
    """As typed, in less time."""
    assert "symm" in _typed(command, folder, "--time-budget", "0.3", "--out", "out").stdout


@ranks
def test_the_example_of_registration(folder: Path) -> None:
    """As typed, fewer times."""
    assert "first buffer" in _typed("allgather", folder, "-n", "2", "--out", "out", number=1).stdout


def test_every_example_is_run_here() -> None:
    """One a command, and one more for what allgather times besides."""
    found = {command: len(_examples(command)) for command in get_command(app).commands}
    assert {**dict.fromkeys(found, 1), "allgather": 2} == found


@ranks
def test_run_then_report(folder: Path) -> None:
    """What `run` leaves is what `report` renders."""
    _typed("run", folder, "--time-budget", "0.3", "--out", "gtpbench-results/quickstart")
    assert _typed("report", folder).stdout.startswith("case_id,")


@ranks
def test_merge(folder: Path) -> None:
    """Two runs of one plan become one of two launches."""
    path = write_scenario(folder / "s.toml", STANDIN)
    for name in ("run-1", "run-2"):
        assert gtpbench("run", path, "--out", name, cwd=folder).run().code == 0
    assert "2 launches" in _typed("merge", folder).stdout


def test_import(folder: Path) -> None:
    """An output of nccl-tests beside it becomes a folder that `report` renders."""
    shutil.copy(ROOT / "tests" / "data" / "nccl-tests" / "all_gather_R0.json", folder)
    assert "imported from another tool" in _typed("import", folder).stdout
    assert gtpbench("report", "imported", cwd=folder).run().code == 0


@pytest.mark.parametrize("what", ["arms", "backends", "collectives", "dtypes", "scenarios", "skips", "schema"])
def test_everything_that_can_be_listed(folder: Path, what: str) -> None:
    """Each registry prints, with the file to open (schemas are JSON)."""
    outcome = gtpbench("list", what, cwd=folder).run()
    assert outcome.code == 0
    assert "from " in outcome.stdout.splitlines()[-1] or outcome.stdout.startswith("{")
