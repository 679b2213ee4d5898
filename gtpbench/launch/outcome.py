"""The exit code that records earn. Pure."""

from collections.abc import Iterable

from gtpbench.errors import ExitCode, worst
from gtpbench.record.model import Record


def record_code(record: Record, *, allow_skip: bool) -> ExitCode:
    """What one record contributes to the exit code."""
    if record.status in {"error", "timeout", "wrong_result"}:
        return ExitCode.FAILED
    if record.status == "skipped":
        return ExitCode.OK if allow_skip else ExitCode.NOT_AS_ASKED
    if record.proof is not None and record.proof.verdict in {"fell_back", "unproven"}:
        return ExitCode.NOT_AS_ASKED
    return ExitCode.OK


def records_code(records: Iterable[Record], *, allow_skip: bool) -> ExitCode:
    """The exit code of a run with these records."""
    return worst(record_code(record, allow_skip=allow_skip) for record in records)
