"""The error tree and the exit codes."""

import itertools

import pytest

from gtpbench.errors import (
    ExitCode,
    GtpbenchError,
    IncomparableError,
    ResultsError,
    RunError,
    ScenarioError,
    StageTimeout,
    UnsupportedError,
    UsageError,
    worst,
)

STRONGEST_FIRST = [130, 2, 5, 12, 10, 11, 0]


@pytest.mark.parametrize(("winner", "loser"), list(itertools.combinations(STRONGEST_FIRST, 2)))
def test_precedence_of_every_pair(winner: int, loser: int) -> None:
    """130 > 2 > 5 > 12 > 10 > 11 > 0, whatever the order and however often they come."""
    assert winner == worst([ExitCode(winner), ExitCode(loser)])
    assert winner == worst([ExitCode(loser), ExitCode(winner), ExitCode(loser)])


@pytest.mark.parametrize("code", STRONGEST_FIRST)
def test_one_code_is_its_own_worst(code: int) -> None:
    """A single code stays as it is."""
    assert code == worst([ExitCode(code)])


def test_nothing_is_ok() -> None:
    """No code at all is success."""
    assert ExitCode.OK is worst([])


def test_the_codes_are_these() -> None:
    """1 is never used on purpose: it means a bug."""
    assert {0, 2, 5, 10, 11, 12, 130} == {int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("error", "parent", "code"),
    [
        (UsageError("x"), GtpbenchError, 2),
        (ScenarioError("x"), UsageError, 2),
        (RunError("x"), GtpbenchError, 5),
        (StageTimeout("x"), RunError, 5),
        (ResultsError("x"), RunError, 5),
        (IncomparableError("x"), GtpbenchError, 12),
        (UnsupportedError("x"), GtpbenchError, 12),
    ],
)
def test_every_error_has_its_code_and_parent(error: GtpbenchError, parent: type, code: int) -> None:
    """The code travels with the error."""
    assert code == error.exit_code
    assert isinstance(error, parent)
    assert str(error) == "x"


def test_unsupported_carries_a_reason_code() -> None:
    """The code of the skipped record, `unsupported` where none was given."""
    assert UnsupportedError("x", code="pool").code == "pool"
    assert UnsupportedError("x").code == "unsupported"
