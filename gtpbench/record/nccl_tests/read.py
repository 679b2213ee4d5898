"""Reads one output file of nccl-tests, text or JSON."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from gtpbench.errors import ResultsError, UsageError
from gtpbench.record.nccl_tests.json_output import read_json
from gtpbench.record.nccl_tests.output import Output
from gtpbench.record.nccl_tests.text_output import read_text

Warn = Callable[[str], None]


def read_output(path: Path, *, warn: Warn) -> Output:
    """The output in a file; its first character tells JSON from text, its name tells nothing.

    Raises:
        ResultsError: the file cannot be read, is cut, or is no output of nccl-tests; names file and line or field.
        UsageError: its ranks ran in several communicators at once.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror}") from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ResultsError(f"{path}:{line}: not UTF-8 text: no output of nccl-tests") from error
    if not text.strip():
        raise ResultsError(f"{path}: empty")
    identity = hashlib.sha256(data).hexdigest()[:12]
    read = read_json if text.lstrip().startswith("{") else read_text
    output = read(text, path=path, identity=identity, warn=warn)
    if len({process.group for process in output.processes}) > 1:
        raise UsageError(f"{path}: several groups ran at once (NCCL_TESTS_SPLIT): gtpbench has no such case")
    num_wrong = sum(measured.num_wrong or 0 for row in output.rows for measured in row.placements.values())
    if output.num_out_of_bounds and not num_wrong:
        warn(f"{path}: says {output.num_out_of_bounds} out of bounds values, but no row has a wrong element")
    return output
