"""nccl-tests' text: `#` lines, and one line of numbers a size.

Columns are found by the names in the table's header, which differ with `-I`, `-S` and between versions.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gtpbench.errors import ResultsError, UsageError
from gtpbench.record.nccl_tests.output import PLACEMENTS, Measured, Output, OutputRow, Process, Settings
from gtpbench.scenario.schema import Placement

Warn = Callable[[str], None]

_FIRST = ("size", "count", "type", "redop", "root")
_NEEDED = ("time", "algbw", "busbw", "#wrong")
_VERSION = re.compile(r"# nccl-tests version (\S+) .*nccl-library=(\d+)")
_PROGRAM = re.compile(r"# Collective test starting: (\S+)")
_SETTING = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|step|warmup iters|agg iters|iters|validation|graph|unalign):? (\S+)"
)
_PROCESS = re.compile(
    r"#\s+Rank\s+(?P<rank>\d+)\s+(?:Group\s+(?P<group>\d+)\s+)?Pid\s+(?P<pid>\d+)\s+on\s+(?P<host>\S+)"
    r"\s+device\s+\d+\s+\[(?P<pci>[^\]]*)\]\s+(?P<gpu>.*\S)"
)
_BLOCKING = {"after each inner iteration (-m), no barrier": 2, "after each outer iteration (-n)": 3}
"""Part of the line -> `-z`; 1 without any of them."""
_NUMBER_LINE = re.compile(r"\s*\d+\s+\d+\s")
"""Size and count; other lines are of NCCL's log or of what started the ranks."""


@dataclass(kw_only=True)
class _Found:
    """What the lines so far have said."""

    path: Path
    version: str | None = None
    nccl_version: int | None = None
    program: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    blocking: int = 0
    processes: list[Process] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[OutputRow] = field(default_factory=list)
    out_of_bounds: int | None = None


def read_text(text: str, *, path: Path, identity: str, warn: Warn) -> Output:
    """The output in a text; see `read.read_output` for what is raised."""
    found = _Found(path=path)
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line.startswith("#"):
            _comment(found, line, f"{path}:{number}")
        elif _NUMBER_LINE.match(line):
            found.rows.append(_row(found, line, f"{path}:{number}"))
    program, num_out_of_bounds = _whole(found, len(lines))
    if "i_min" in found.columns:
        warn(f"{path}: text has no times of single iterations, only their summary; the JSON output (-J) has them")
    return Output(
        path=path,
        identity=identity,
        program=program,
        args=None,
        variables={},
        nccl_version=found.nccl_version,
        version=found.version,
        settings=Settings(
            iterations=_setting(found, "iters"),
            aggregated=_setting(found, "agg iters"),
            graph_launches=_setting(found, "graph"),
            blocking=found.blocking,
            plan={**found.settings, "blocking": str(found.blocking)},
        ),
        processes=tuple(found.processes),
        num_ranks=len(found.processes),
        rows=tuple(found.rows),
        num_out_of_bounds=num_out_of_bounds,
    )


def _whole(found: _Found, num_lines: int) -> tuple[str, int]:
    """Program and out of bounds values of a text that has all its parts.

    Raises:
        ResultsError: names the part that is missing.
    """
    if not found.columns or not found.settings:
        raise ResultsError(f"{found.path}:1: no output of nccl-tests: neither its JSON nor its text")
    if found.program is None:
        raise ResultsError(
            f"{found.path}: no line `Collective test starting`: the file does not say which collective ran"
        )
    if not found.processes:
        raise ResultsError(f"{found.path}: no line `Rank`: the file does not say how many ranks ran")
    if found.out_of_bounds is None:
        raise ResultsError(
            f"{found.path}:{num_lines}: ends without `Out of bounds values`: cut, or the test did not finish"
        )
    return found.program, found.out_of_bounds


def _comment(found: _Found, line: str, where: str) -> None:
    if match := _VERSION.match(line):
        found.version, found.nccl_version = match[1], int(match[2])
    elif match := _PROGRAM.match(line):
        if found.program is not None:
            raise ResultsError(f"{where}: a second test starts here: import a file for each test")
        found.program = match[1]
    elif line.startswith("# nThread "):
        if found.settings:
            raise ResultsError(f"{where}: a second test starts here: import a file for each test")
        found.settings = dict(_SETTING.findall(line))
        if found.settings.get("unalign", "0") != "0":
            raise UsageError(f"{where}: unaligned buffers (-u): gtpbench has no such case")
    elif line.startswith("# Blocking Enabled"):
        found.blocking = next((kind for part, kind in _BLOCKING.items() if part in line), 1)
    elif match := _PROCESS.match(line):
        rank, group, pid = (int(match[name] or 0) for name in ("rank", "group", "pid"))
        found.processes.append(
            Process(rank=rank, group=group, pid=pid, host=match["host"], pci=match["pci"], gpu=match["gpu"])
        )
    elif tuple(line[1:].split()[:5]) == _FIRST:
        found.columns = _header(line[1:].split(), where)
    elif match := re.match(r"# Out of bounds values\s*:\s*(\d+)", line):
        found.out_of_bounds = int(match[1])


def _header(names: Sequence[str], where: str) -> list[str]:
    """The names of the columns.

    Raises:
        UsageError: times are of issuing the operation only.
        ResultsError: a column is missing.
    """
    if "cputime" in names:
        raise UsageError(f"{where}: times of issuing only (-C 1), not of the operation")
    missing = [name for name in _NEEDED if names.count(name) != len(PLACEMENTS)]
    if missing:
        raise ResultsError(f"{where}: the table needs {', '.join(missing)} for each placement, given {' '.join(names)}")
    return list(names)


def _setting(found: _Found, name: str) -> int:
    text = found.settings.get(name, "0" if name == "graph" else "1" if name == "agg iters" else "")
    if not text.isdecimal() or (name != "graph" and not int(text)):
        raise ResultsError(f"{found.path}: the line `nThread` gives no number of `{name}`")
    return int(text)


def _row(found: _Found, line: str, where: str) -> OutputRow:
    if not found.columns or not found.settings:
        raise ResultsError(f"{where}: numbers without nccl-tests' header: {line.strip():.60}")
    words = line.split()
    if len(words) < len(found.columns):
        raise ResultsError(f"{where}: {len(words)} of {len(found.columns)} columns: the line is cut")
    starts = [number for number, name in enumerate(found.columns) if name == "time"]
    try:
        placements = dict(_placements(found.columns, words, starts))
        size_bytes, count = int(words[0]), int(words[1])
    except (ValueError, OverflowError) as error:
        raise ResultsError(f"{where}: no row of nccl-tests' table: {error}") from error
    return OutputRow(
        where=where,
        size_bytes=size_bytes,
        count=count,
        dtype=words[2],
        op=words[3],
        iterations=_setting(found, "iters"),
        placements=placements,
    )


def _placements(
    columns: Sequence[str], words: Sequence[str], starts: Sequence[int]
) -> Iterator[tuple[Placement, Measured]]:
    for placement, start in zip(PLACEMENTS, starts, strict=True):
        wrong = words[columns.index("#wrong", start)]
        num_wrong = None if wrong == "N/A" else round(float(wrong))
        yield placement, Measured(time_us=float(words[start]), num_wrong=num_wrong)
