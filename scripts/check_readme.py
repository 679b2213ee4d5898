"""Runs README's commands as written and compares the structure of their output with what README shows.

    python scripts/check_readme.py            exit 1 where one differs
    python scripts/check_readme.py --write    put today's output into README

A fenced block of kind `console` holds commands after `$ `, each followed by its output. Numbers differ from run to run,
so structure is compared: the words of every line, without numbers, outcomes, digests and footnotes. Commands run one
after the other in a scratch folder with a link to scenarios/; those under `scripts/` are left to whoever calls this.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
_DIGEST = re.compile(r"\b[0-9a-f]{12,}\b")
_NUMBER = re.compile(r"[-+]?\d[\d.,:]*(?:e[-+]?\d+)?(?:us|ms|x|MiB|KiB|GiB|B)?\b")
_OUTCOME = re.compile(
    r"faster|slower|same|undecided|wide-ci|few-pairs|order-effect|noisy-cell|severe_outliers|few_samples|\bto\b|by row"
    r"|\b[um]s\b"
)
_FOOTNOTE = re.compile(r"^[¹²³⁴⁵⁶⁷⁸⁹]")
_CLOSING = re.compile(r" · exit (\d+)")


@dataclass(frozen=True, kw_only=True)
class Example:
    """One command of README and what README says it prints."""

    line: int
    command: str
    output: list[str]


def examples(text: str) -> list[Example]:
    """The commands in README's console blocks, in order."""
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


def structure(lines: list[str]) -> list[str]:
    """The lines without what differs from run to run; footnotes and the verdict's words are left out."""
    kept, in_footnote = [], False
    for line in lines:
        closing = _CLOSING.search(line)
        if closing:
            in_footnote = False
            kept.append(f"closing line, exit {closing[1]}")
            continue
        in_footnote = in_footnote or bool(_FOOTNOTE.match(line))
        words = re.sub(r"[^\w()/%-]+", " ", _OUTCOME.sub(" ", _NUMBER.sub(" ", _DIGEST.sub(" ", line))))
        words = re.sub(r"[¹²³⁴⁵⁶⁷⁸⁹]|\(\s*\)", " ", words)
        words = " ".join(word for word in words.split() if re.search(r"[A-Za-z]", word))
        if words and not in_footnote:
            kept.append(words)
    return kept


def run_all() -> Iterator[tuple[Example, str]]:
    """Every example with what it prints today."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "110"}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "scenarios").symlink_to(ROOT / "scenarios")
        for example in examples(README.read_text(encoding="utf-8")):
            if example.command.startswith("scripts/"):
                continue
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", example.command],
                cwd=scratch,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            if done.returncode not in {0, 141}:
                sys.exit(f"README.md:{example.line}: {example.command}: code {done.returncode}\n{done.stderr}")
            yield example, done.stdout


def check() -> int:
    """Compare all examples; 1 if one differs."""
    differing = 0
    for example, printed in run_all():
        shown, found = structure(example.output), structure(printed.splitlines())
        if shown != found:
            differing = 1
            first = next((pair for pair in zip(shown, found, strict=False) if pair[0] != pair[1]), None)
            detail = f"{first[0]!r} is now {first[1]!r}" if first else f"{len(shown)} lines are now {len(found)}"
            print(f"README.md:{example.line}: {example.command}: {detail}", file=sys.stderr)
    return differing


def write() -> int:
    """Replace the shown outputs by today's."""
    lines = README.read_text(encoding="utf-8").splitlines()
    for example, printed in reversed(list(run_all())):
        lines[example.line : example.line + len(example.output)] = [line.rstrip() for line in printed.splitlines()]
    README.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write() if sys.argv[1:] == ["--write"] else check())
