"""The error tree and the exit codes, the only place that gives either a meaning.

GtpbenchError           anything the tool can explain: one line on stderr, no traceback
├── UsageError          2   the request is wrong: flag, scenario, size, launcher variables
│   └── ScenarioError   2   a scenario file is wrong; names the key
├── RunError            5   the run failed: timeout, dead rank, wrong data, full disk
│   ├── StageTimeout    5   a stage outlived its timeout
│   └── ResultsError    5   a results file cannot be read or written
├── IncomparableError   12  two sides cannot be compared
└── UnsupportedError    12  a backend lacks what was asked; becomes a `skipped` record
"""

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """What the process ends with. 1 is never used on purpose: it means a bug and comes with a traceback."""

    OK = 0
    USAGE = 2
    FAILED = 5
    REGRESSED = 10
    UNDECIDED = 11
    NOT_AS_ASKED = 12
    """An arm the user named was skipped, fell back or is unproven; a comparison was refused; import left rows out."""
    INTERRUPTED = 130


_PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.FAILED,
    ExitCode.NOT_AS_ASKED,
    ExitCode.REGRESSED,
    ExitCode.UNDECIDED,
    ExitCode.OK,
)


def worst(codes: "Iterable[ExitCode]") -> ExitCode:
    """The code that wins when several apply: 130 > 2 > 5 > 12 > 10 > 11 > 0; OK for none."""
    found = set(codes)
    return next((code for code in _PRECEDENCE if code in found), ExitCode.OK)


class GtpbenchError(Exception):
    """Root of the errors the tool explains in one line. `exit_code` is what the process ends with."""

    exit_code = ExitCode.FAILED


class Interrupted(BaseException):
    """SIGINT or SIGTERM asked the process to end. No error: what was finished stays, the code is 130."""


class UsageError(GtpbenchError):
    """The request cannot be meant: an unknown name, a size too small, contradictory launcher variables."""

    exit_code = ExitCode.USAGE


class ScenarioError(UsageError):
    """A scenario file has an unknown key or a bad value; the message starts with the key's path."""


class RunError(GtpbenchError):
    """The run could not finish as planned."""


class StageTimeout(RunError):
    """A stage outlived its timeout; the message names rank, stage, case and arm."""


class ResultsError(RunError):
    """A results file cannot be read or written; the message names file and line."""


class IncomparableError(GtpbenchError):
    """Two sides differ in a field that must be equal; the message lists the fields."""

    exit_code = ExitCode.NOT_AS_ASKED


class UnsupportedError(GtpbenchError):
    """A backend or library lacks what was asked for.

    Args:
        message: what is missing and what would provide it.
        code: the reason code of the `skipped` record.
    """

    exit_code = ExitCode.NOT_AS_ASKED

    def __init__(self, message: str, *, code: str = "unsupported") -> None:
        super().__init__(message)
        self.code = code
