"""nccl-tests' JSON (`-J`), versions 1 to 3.

Booleans are the strings "true" and "false", and a number that is none is the string "nan"; pydantic's lax mode reads
both.
"""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, Field, ValidationError

from gtpbench.errors import ResultsError, UsageError
from gtpbench.record.nccl_tests.options import whole_option
from gtpbench.record.nccl_tests.output import EventTimes, Measured, Output, OutputRow, Process, Settings

if TYPE_CHECKING:
    from gtpbench.scenario.schema import Placement

Warn = Callable[[str], None]
_Count = Annotated[int, Field(ge=0)]
NEWEST_VERSION = 3
"""Of the format; fields of later ones may mean something else."""


class _Device(BaseModel):
    """The first rank of a process."""

    rank: int
    group: int = 0
    pid: int
    hostname: str
    device_hex: str
    device_info: str


class _Config(BaseModel, extra="allow"):
    nthreads: _Count
    ngpus: _Count
    iterations: Annotated[int, Field(ge=1)]
    aggregated_iterations: Annotated[int, Field(ge=1)]
    graph: _Count
    blocking_collectives: bool
    devices: Annotated[list[_Device], Field(min_length=1)]


class _Placement(BaseModel):
    time: float | None = None
    cpu_time: float | None = None
    nwrong: _Count | None


class _PerIteration(BaseModel):
    times_us: Annotated[list[float], Field(min_length=1)]
    per_process_max_times_us: list[list[float]] = []
    skipped_iterations: _Count = 0


class _Row(BaseModel):
    size: _Count
    count: _Count
    type: str
    redop: str
    out_of_place: _Placement | None
    in_place: _Placement | None
    out_of_place_per_iter: _PerIteration | None = None
    in_place_per_iter: _PerIteration | None = None
    actual_iterations: Annotated[int, Field(ge=1)] | None = None


class _OutOfBounds(BaseModel):
    count: _Count


class _Document(BaseModel):
    version: Annotated[int, Field(ge=1)]
    args: list[str]
    env: list[str]
    nccl_version: int
    config: _Config
    results: list[_Row]
    out_of_bounds: _OutOfBounds


def read_json(text: str, *, path: Path, identity: str, warn: Warn) -> Output:
    """The output in a JSON text; see `read.read_output` for what is raised."""
    document = _document(text, path)
    if document.version > NEWEST_VERSION:
        warn(f"{path}: JSON version {document.version} is newer than {NEWEST_VERSION}, the newest known here")
    config, args = document.config, tuple(document.args)
    rows = tuple(_row(document, number, path, warn) for number in range(len(document.results)))
    settings = {name: str(value) for name, value in config.model_dump(exclude={"devices"}).items()}
    return Output(
        path=path,
        identity=identity,
        program=Path(args[0]).name if args else "",
        args=args or None,
        variables=dict(_variables(document.env)),
        nccl_version=document.nccl_version,
        version=None,
        settings=Settings(
            iterations=config.iterations,
            aggregated=config.aggregated_iterations,
            graph_launches=config.graph,
            blocking=_blocking(document, path),
            plan=settings,
        ),
        processes=tuple(
            Process(rank=d.rank, group=d.group, pid=d.pid, host=d.hostname, pci=d.device_hex, gpu=d.device_info)
            for d in config.devices
        ),
        num_ranks=len(config.devices) * config.nthreads * config.ngpus,
        rows=rows,
        num_out_of_bounds=document.out_of_bounds.count,
    )


def _document(text: str, path: Path) -> _Document:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise ResultsError(f"{path}:{error.lineno}: JSON is cut or broken: {error.msg}") from error
    try:
        return _Document.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ResultsError(f"{path}: no whole JSON output of nccl-tests: {where}: {first['msg']}") from error


def _blocking(document: _Document, path: Path) -> int | None:
    if not document.config.blocking_collectives:
        return 0
    kind = whole_option(document.args, "-z", path=path)
    return kind if kind in {1, 2, 3} else None


def _variables(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition("=")
        yield name, value


def _row(document: _Document, number: int, path: Path, warn: Warn) -> OutputRow:
    row, where = document.results[number], f"{path}: results.{number}"
    found: dict[Placement, Measured] = {}
    halves: tuple[tuple[Placement, _Placement | None, _PerIteration | None], ...] = (
        ("out_of_place", row.out_of_place, row.out_of_place_per_iter),
        ("in_place", row.in_place, row.in_place_per_iter),
    )
    for placement, half, single in halves:
        if half is None:
            continue
        if half.cpu_time is not None:
            raise UsageError(f"{where}: times of issuing only (-C 1), not of the operation")
        if half.time is None:
            raise ResultsError(f"{where}.{placement}: no time")
        events = _events(single, f"{where}.{placement}_per_iter", warn) if single else None
        found[placement] = Measured(time_us=half.time, num_wrong=half.nwrong, events=events)
    return OutputRow(
        where=where,
        size_bytes=row.size,
        count=row.count,
        dtype=row.type,
        op=row.redop,
        iterations=row.actual_iterations or document.config.iterations,
        placements=found,
    )


def _events(single: _PerIteration, where: str, warn: Warn) -> EventTimes | None:
    """The times of the iterations; None, with a warning, where one is not a number.

    Raises:
        ResultsError: processes have other numbers of iterations than their maximum.
    """
    rows = single.per_process_max_times_us
    if any(len(row) != len(single.times_us) for row in rows) or single.skipped_iterations >= len(single.times_us):
        raise ResultsError(f"{where}: needs {len(single.times_us)} times of every process, and one that is not skipped")
    if not all(math.isfinite(time) and time > 0 for row in (single.times_us, *rows) for time in row):
        warn(f"{where}: a time is not a positive number; the times of single iterations are left out")
        return None
    for iteration, (told, given) in enumerate(zip(single.times_us, zip(*rows, strict=True), strict=False)):
        if not math.isclose(told, max(given), rel_tol=1e-9):
            warn(f"{where}: iteration {iteration} says {told} us, but its slowest process took {max(given)} us")
    return EventTimes(
        time_us=tuple(map(tuple, rows)) or (tuple(single.times_us),),
        of_processes=bool(rows),
        num_skipped=single.skipped_iterations,
    )
