"""The exit code that records earn."""

import itertools
from typing import Any

import pytest

from gtpbench.launch.outcome import record_code, records_code
from tests.examples import make_record

OK: dict[str, Any] = {}
CODES: list[tuple[dict[str, Any], int]] = [
    (OK, 0),
    ({"verdict": "proved"}, 0),
    ({"verdict": "not_eligible"}, 0),
    ({"verdict": "fell_back"}, 12),
    ({"verdict": "unproven"}, 12),
    ({"status": "skipped"}, 12),
    ({"status": "wrong_result"}, 5),
    ({"status": "error"}, 5),
    ({"status": "timeout"}, 5),
]


@pytest.mark.parametrize(("fields", "code"), CODES)
def test_one_record(fields: dict[str, Any], code: int) -> None:
    """Failed, timed out or wrong is 5; skipped, fell back or unproven is 12; not eligible is a result."""
    assert code == record_code(make_record(**fields), allow_skip=False)


@pytest.mark.parametrize(("fields", "code"), CODES)
def test_allow_skip_forgives_skipped_arms_only(fields: dict[str, Any], code: int) -> None:
    """A path that fell back is no skip."""
    expected = 0 if fields.get("status") == "skipped" else code
    assert expected == record_code(make_record(**fields), allow_skip=True)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(CODES, 2)))
def test_of_two_records_the_worse_counts(one: tuple[dict[str, Any], int], other: tuple[dict[str, Any], int]) -> None:
    """5 over 12 over 0, in any order."""
    worse = 5 if 5 in {one[1], other[1]} else max(one[1], other[1])
    records = [make_record(**one[0]), make_record(**other[0])]
    assert worse == records_code(records, allow_skip=False)
    assert worse == records_code(reversed(records), allow_skip=False)


def test_no_records_are_ok() -> None:
    """Nothing went wrong."""
    assert 0 == records_code([], allow_skip=False)
