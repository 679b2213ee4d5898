"""Rows that were skipped or failed, gathered so that equal reasons are said once. They never vanish."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gtpbench.report.model import Row
from gtpbench.report.registration import RegistrationRow
from gtpbench.report.words import STATUS_TEXT, sets_text, sizes_text

_Row = TypeVar("_Row", Row, RegistrationRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Rows of one arm with one status and one reason."""

    status: str
    """With its symbol."""
    arm: str
    sizes: str
    """Or sets of buffers."""
    reason: str
    """The text, then the code in brackets."""


def absent_rows(rows: Sequence[Row]) -> list[Absent]:
    """Those of a table's rows that are not ok: failed ones first, then skipped, arms in their order."""
    of = sorted({row.case.size_bytes for row in rows})
    return _absent(rows, lambda having: sizes_text(sorted({row.case.size_bytes for row in having}), of=of))


def absent_sets(rows: Sequence[RegistrationRow]) -> list[Absent]:
    """The same of a table of registration costs."""
    return _absent(rows, lambda having: sets_text(having, of=rows))


def _absent(rows: Sequence[_Row], where: Callable[[Sequence[_Row]], str]) -> list[Absent]:
    by_reason: dict[tuple[str, str, str], list[_Row]] = {}
    for row in sorted(rows, key=lambda row: row.status == "skipped"):
        if row.status != "ok":
            by_reason.setdefault((row.status, row.arm.name, _reason(row)), []).append(row)
    return [
        Absent(
            status=STATUS_TEXT[status],
            arm=arm,
            sizes=where(having),
            reason=_with_launches(reason, having),
        )
        for (status, arm, reason), having in by_reason.items()
    ]


def _reason(row: Row | RegistrationRow) -> str:
    return f"{row.reason.text} [{row.reason.code}]" if row.reason else "no reason recorded"


def _with_launches(reason: str, rows: Sequence[_Row]) -> str:
    """The launches that were ok are said where some were: their times are in the table."""
    ok = sum(row.num_ok_launches for row in rows)
    return f"{reason}; {ok} of {sum(row.num_launches for row in rows)} launches ok" if ok else reason
