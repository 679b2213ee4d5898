"""JSON Lines: append one line at a time, read everything that is whole."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from gtpbench.errors import ResultsError
from gtpbench.plan import PlanModel
from gtpbench.record.environment import Environment
from gtpbench.record.model import Record

RESULTS = "results.jsonl"
ENVIRONMENTS = "environments.jsonl"

_Model = TypeVar("_Model", bound=PlanModel)
Warn = Callable[[str], None]


def append_line(path: Path, model: PlanModel) -> None:
    """Append one record or environment and force it to disk; what was there stays as it was.

    A write that fails half-way is cut off again, so that the file never ends in half a line of ours.

    Raises:
        ResultsError: the line could not be written, for example on a full disk.
    """
    line = model.model_dump_json(exclude_defaults=False).encode() + b"\n"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise ResultsError(f"cannot open {path}: {error.strerror}") from error
    try:
        start = os.fstat(fd).st_size
        try:
            written = 0
            while written < len(line):
                written += os.write(fd, line[written:])
            os.fsync(fd)
        except OSError as error:
            os.ftruncate(fd, start)
            raise ResultsError(f"cannot write {path}: {error.strerror}; {start} bytes of it are whole") from error
    finally:
        os.close(fd)


def repair_torn_line(path: Path) -> None:
    """Cut a last line without line end off a results file before something is appended to it.

    The readers have reported it by then.

    Raises:
        ResultsError: the file cannot be changed.
    """
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        try:
            os.truncate(path, whole)
        except OSError as error:
            raise ResultsError(f"cannot repair {path}: {error.strerror}") from error


def read_records(path: Path, *, warn: Warn) -> list[Record]:
    """All records of a results.jsonl; a torn last line is dropped and reported to `warn`.

    Raises:
        ResultsError: the file is missing, or a line that is not the torn last one is no record; names the line.
    """
    return list(_read(path, Record, warn))


def read_environments(path: Path, *, warn: Warn) -> dict[str, Environment]:
    """All environments beside a results.jsonl, by id; empty where the file is missing.

    Raises:
        ResultsError: a line that is not the torn last one is no environment.
    """
    if not path.exists():
        return {}
    return {environment.environment_id: environment for environment in _read(path, Environment, warn)}


def _read(path: Path, model: type[_Model], warn: Warn) -> Iterator[_Model]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror}") from error
    lines = data.split(b"\n")
    torn = lines.pop()
    if torn:
        warn(f"{path}: last line is torn ({len(torn)} bytes); dropped")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield model.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ResultsError(f"{path}:{number}: not a {model.__name__.lower()}: {where}: {first['msg']}") from error
