"""What a newcomer meets first: help, flags, examples."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gtpbench.cli.app import app

COMMANDS = ("allgather", "reducescatter", "run", "plan", "report", "merge", "import", "list", "env")
HEAVY = frozenset({"torch", "pandas", "scipy", "matplotlib", "numpy", "pydantic"})

COLLECTIVE_FLAGS = {
    "--arm", "--symm", "--nvls", "--no-nvls", "-b", "--minbytes", "-e", "--maxbytes", "-f", "--stepfactor", "-d",
    "--datatype", "-o", "--op", "--placement", "--num-ranks", "--ranks-per-gpu", "--backend", "--clock", "--hot",
    "--launches", "-n", "--iters", "-w", "--warmup", "--time-budget", "--seed", "--functional", "--out", "--append",
    "--allow-skip", "--format", "--save-scenario", "--registration-cost", "--buffers",
}  # fmt: skip
FLAGS = {
    "allgather": COLLECTIVE_FLAGS,
    "reducescatter": COLLECTIVE_FLAGS,
    "run": {
        "--num-ranks", "--ranks-per-gpu", "--launches", "--time-budget", "--seed", "--functional", "--out", "--append",
        "--allow-skip", "--format", "--save-scenario",
    },
    "plan": {"--num-ranks", "--ranks-per-gpu", "--launches", "--time-budget", "--format"},
    "report": {"--format"},
    "merge": {"--out", "--format"},
    "import": {"--out", "--arm", "--format"},
    "list": set(),
    "env": {"--format"},
}  # fmt: skip


def test_every_flag_is_on_the_frozen_list() -> None:
    """A flag cannot come or go without this list changing."""
    root = get_command(app)
    found = {
        name: {
            option
            for parameter in command.params
            if parameter.param_type_name == "option"
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in root.commands.items()
    }
    assert found == FLAGS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_sentence_and_an_example(command: str) -> None:
    """`--help` of each command says what it does and shows one line to type."""
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: gtpbench {command}" in re.sub(r"\s+", " ", result.stdout)


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        # Typer itself imports pydantic once it parses a command's own options.
        (["allgather", "--help"], HEAVY - {"pydantic"}),
        (["list", "--help"], HEAVY - {"pydantic"}),
    ],
)
def test_help_imports_nothing_heavy(words: list[str], heavy: frozenset[str]) -> None:
    """A fresh interpreter shows help without the libraries that take long to import."""
    code = (
        "import sys\n"
        "from gtpbench.cli.app import main\n"
        f"sys.argv = ['gtpbench', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {sorted(heavy)!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_no_command_shows_help_and_is_a_usage_error(tmp_path: Path) -> None:
    """`gtpbench` alone helps, with the code of a wrong command line."""
    done = subprocess.run([sys.executable, "-m", "gtpbench"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "allgather" in done.stdout + done.stderr
