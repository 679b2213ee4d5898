"""Runs README's commands as written and compares the structure of their output with what README shows.

A fenced block that starts with `$ ` holds commands, each followed by its output. Numbers differ from run to run, so
structure is compared: the words of every line with its numbers, times, sizes and paths taken out. A line `...` in
README stands for any lines. Commands run in a scratch folder with a link to scenarios/; `scripts/...` commands are
left to `scripts/test` itself.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NUMBER = re.compile(r"[-+]?\d[\d.,:]*(?:e[-+]?\d+)?\s*(?:us|ms|s|GB/s|%|x|MiB|KiB|GiB|B)?\b")
_OUTCOME = re.compile(r"\b(?:faster|slower|same|undecided|wide-ci|few-pairs|order-effect|noisy-cell)\b|[▲▼=?✓≈]")
_DIGEST = re.compile(r"\b[0-9a-f]{12,}\b")


@dataclass(frozen=True, kw_only=True)
class Example:
    """One command of README and what README says it prints."""

    line: int
    command: str
    output: list[str]


def examples(text: str) -> list[Example]:
    """The commands in README's console blocks."""
    found: list[Example] = []
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            inside = not inside and line == "```console"
        elif inside and line.startswith("$ "):
            found.append(Example(line=number, command=line[2:], output=[]))
        elif inside and found:
            found[-1].output.append(line)
    return found


def structure(line: str) -> str:
    """The line without what differs from run to run."""
    line = _DIGEST.sub("#", line)
    line = _NUMBER.sub("#", line)
    line = _OUTCOME.sub("~", line)
    return re.sub(r"[#~\s─━│┃|,;·\[\]()]+", " ", line).strip()


def matches(shown: list[str], printed: list[str]) -> str | None:
    """None if the printed lines have the structure of the shown ones, else what differs."""
    remaining = [structure(line) for line in printed if structure(line)]
    anything = False
    for line in shown:
        if line.strip() == "...":
            anything = True
            continue
        wanted = structure(line)
        if not wanted:
            continue
        if wanted not in remaining:
            return f"not printed: {line!r}"
        position = remaining.index(wanted)
        if position > 0 and not anything:
            return f"printed before {line!r}: {remaining[0]!r}"
        remaining = remaining[position + 1 :]
        anything = False
    return None if anything or not remaining else f"printed, but not in README: {remaining[0]!r}"


def main() -> int:
    """Run every example; 1 if one differs."""
    differing = 0
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110"}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "scenarios").symlink_to(ROOT / "scenarios")
        for example in examples((ROOT / "README.md").read_text(encoding="utf-8")):
            if example.command.startswith("scripts/"):
                continue
            done = subprocess.run(
                ["bash", "-c", example.command],
                cwd=scratch,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            difference = matches(example.output, done.stdout.splitlines())
            if difference:
                differing += 1
                print(f"README.md:{example.line}: {example.command}: {difference}", file=sys.stderr)
                print(done.stdout + done.stderr, file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
