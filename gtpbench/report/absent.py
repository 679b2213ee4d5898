"""Rows that were skipped or failed, gathered so that equal reasons are said once. They never vanish."""

from collections.abc import Sequence
from dataclasses import dataclass

from gtpbench.report.model import Row
from gtpbench.report.words import STATUS_TEXT, sizes_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Rows of one arm with one status and one reason."""

    status: str
    """With its symbol."""
    arm: str
    sizes: str
    reason: str
    """The text, then the code in brackets."""


def absent_rows(rows: Sequence[Row]) -> list[Absent]:
    """Those of a table's rows that are not ok: failed ones first, then skipped, arms in their order."""
    by_reason: dict[tuple[str, str, str], list[Row]] = {}
    of = sorted({row.case.size_bytes for row in rows})
    for row in sorted(rows, key=lambda row: row.status == "skipped"):
        if row.status != "ok":
            by_reason.setdefault((row.status, row.arm.name, _reason(row)), []).append(row)
    return [
        Absent(
            status=STATUS_TEXT[status],
            arm=arm,
            sizes=sizes_text(sorted({row.case.size_bytes for row in having}), of=of),
            reason=_with_launches(reason, having),
        )
        for (status, arm, reason), having in by_reason.items()
    ]


def _reason(row: Row) -> str:
    return f"{row.reason.text} [{row.reason.code}]" if row.reason else "no reason recorded"


def _with_launches(reason: str, rows: Sequence[Row]) -> str:
    """The launches that were ok are said where some were: their times are in the table."""
    ok = sum(row.num_ok_launches for row in rows)
    return f"{reason}; {ok} of {sum(row.num_launches for row in rows)} launches ok" if ok else reason
