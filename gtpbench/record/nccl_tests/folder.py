"""Writes the records of nccl-tests' outputs to a new results folder."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtpbench import __version__
from gtpbench.errors import ResultsError, UsageError
from gtpbench.plan import digest
from gtpbench.record.lines import ENVIRONMENTS, RESULTS, append_line
from gtpbench.record.nccl_tests.environment import AllowList, environment_of, refuse_unlike, shared_gpus
from gtpbench.record.nccl_tests.options import arm_of
from gtpbench.record.nccl_tests.output import Output
from gtpbench.record.nccl_tests.read import read_output
from gtpbench.record.nccl_tests.records import arm_record, plan_part, records_of

if TYPE_CHECKING:
    from gtpbench.plan import Arm
    from gtpbench.record.environment import Environment
    from gtpbench.record.model import Record

Warn = Callable[[str], None]
_PRINTED_US = 0.006
"""Times in text are rounded to 0.01 us, or to 5 digits where that is less exact."""


def import_files(paths: Sequence[Path], target: Path, *, arm: str | None, allowed: AllowList, warn: Warn) -> int:
    """Write records and environments of all files to the new folder `target`; each file is a launch.

    Args:
        paths: text or JSON outputs.
        target: must not exist.
        arm: for files that do not tell theirs.
        allowed: the environment variables that may be recorded.
        warn: told of every kind of row that is left out, and of what is odd.

    Returns:
        How many rows were left out.

    Raises:
        UsageError: `target` exists, an arm is unknown or cannot be told, or a run is given twice.
        IncomparableError: the files are of unlike machines or software.
        ResultsError: a file cannot be read, none has a row that gtpbench knows, or the folder cannot be written.
    """
    if target.exists():
        raise UsageError(f"output {target} exists: choose another --out")
    outputs = [read_output(path, warn=warn) for path in paths]
    _refuse_repeated(outputs)
    arms = [arm_record(arm_of(output, named=arm)) for output in outputs]
    environments = [environment_of(output, launch=n, allowed=allowed) for n, output in enumerate(outputs)]
    refuse_unlike(outputs, environments)
    records, num_left_out = _all_records(outputs, arms, warn=warn)
    if not records:
        raise ResultsError(f"nothing to import: no row of {', '.join(map(str, paths))} has a case here")
    used = {record.environment_id for record in records}
    _write(target, records, [environment for environment in environments if environment.environment_id in used])
    return num_left_out


def _all_records(outputs: Sequence[Output], arms: "Sequence[Arm]", *, warn: Warn) -> "tuple[list[Record], int]":
    """The records of all outputs, of one plan, and how many rows were left out."""
    parts = {json.dumps(plan_part(output, arm), sort_keys=True) for output, arm in zip(outputs, arms, strict=True)}
    plan_digest = digest([__version__, sorted(parts)])
    records: list[Record] = []
    num_left_out = 0
    for launch, (output, arm) in enumerate(zip(outputs, arms, strict=True)):
        if any(shared_gpus(output).values()):
            warn(f"{output.path}: ranks share a GPU: its times say nothing about separate GPUs")
        found, left_out = records_of(output, arm, plan_digest=plan_digest, launch=launch, warn=warn)
        records += found
        num_left_out += left_out
    return records, num_left_out


def _write(target: Path, records: "Sequence[Record]", environments: "Sequence[Environment]") -> None:
    try:
        target.mkdir(parents=True)
    except OSError as error:
        raise ResultsError(f"cannot create {target}: {error.strerror}") from error
    for environment in environments:
        append_line(target / ENVIRONMENTS, environment)
    for record in records:
        append_line(target / RESULTS, record)


def _refuse_repeated(outputs: Sequence[Output]) -> None:
    """A run that is given twice, also as text and as JSON, is no further launch."""
    for number, output in enumerate(outputs):
        for other in outputs[:number]:
            if _same_run(output, other):
                raise UsageError(f"{output.path} holds the same run as {other.path}: import one of them")


def _same_run(one: Output, other: Output) -> bool:
    """Whether program, first process and every time, as exactly as text prints it, are the same."""
    if one.identity == other.identity:
        return True
    starts = [(output.program, output.processes[0].host, output.processes[0].pid) for output in (one, other)]
    ours, theirs = _times(one), _times(other)
    return (
        starts[0] == starts[1]
        and len(ours) == len(theirs)
        and all(math.isclose(a, b, rel_tol=1e-4, abs_tol=_PRINTED_US) for a, b in zip(ours, theirs, strict=True))
    )


def _times(output: Output) -> list[float]:
    times = [measured.time_us for row in output.rows for measured in row.placements.values()]
    return [time for time in times if not math.isnan(time)]
