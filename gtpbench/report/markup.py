"""Pieces of Markdown: escaped text, code blocks, tables."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gtpbench.report.words import MISSING

_SPECIAL = re.compile(r"([\\`*|~]|\](?=[(\[])|(?<!\w)_|_(?!\w))")
_Line = TypeVar("_Line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[_Line]):
    """One column of a table; `cell` gives escaped text."""

    header: str
    cell: Callable[[_Line], str]
    right: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as a template prints it; `notes` are escaped lines above it."""

    title: str
    notes: tuple[str, ...]
    header: tuple[str, ...]
    align: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_table(title: str, lines: Sequence[_Line], columns: Sequence[Column[_Line]], *, notes: Sequence[str]) -> Table:
    """A table of the columns in which some line says something; title and notes are escaped here."""
    cells = [tuple(column.cell(line) for line in lines) for column in columns]
    used = [number for number, column in enumerate(cells) if any(cell != MISSING for cell in column)]
    return Table(
        title=escape(title),
        notes=tuple(escape(note) for note in notes),
        header=tuple(escape(columns[number].header) for number in used),
        align=tuple("---:" if columns[number].right else "---" for number in used),
        rows=tuple(tuple(cells[number][line] for number in used) for line in range(len(lines))),
    )


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in a table cell too: no markup, no HTML, no new line."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", flat).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str) -> str:
    """A code block, its fence longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"
