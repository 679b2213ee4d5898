"""The tables of registration costs: columns for the terminal and for report.md, whose cells are escaped."""

from collections.abc import Callable

from gtpbench.report.markup import Column, Table, escape, make_table
from gtpbench.report.model import RunView
from gtpbench.report.registration import RegistrationRow
from gtpbench.report.registration_words import doubt_lines, group_lines
from gtpbench.report.words import MISSING, PROOF_TEXT, group_title, path_cell
from gtpbench.stats.summary import Summary
from gtpbench.units import format_about, format_size, format_times_us


def registration_columns(
    *, ranges: bool = True, full: bool = True, memory: bool = True
) -> list[Column[RegistrationRow]]:
    """The columns, their cells not escaped.

    Args:
        ranges: p10 and p90 too.
        full: with those that may go where there is little room.
        memory: with what the set takes of the device.
    """
    columns: list[tuple[bool, Column[RegistrationRow]]] = [
        (True, Column(header="buffers", cell=lambda row: str(row.case.num_buffers))),
        (True, Column(header="each", cell=_each)),
        (full, Column(header="total", cell=lambda row: format_about(row.case.total_bytes))),
        (True, Column(header="arm", cell=lambda row: row.arm.name, right=False)),
        (full, Column(header="allocate", cell=_time(lambda row: row.allocate, ranges=ranges))),
        (True, Column(header="register", cell=_time(lambda row: row.register, ranges=ranges))),
        (True, Column(header="a buffer", cell=_per_buffer)),
        (True, Column(header="deregister", cell=_time(lambda row: row.deregister, ranges=ranges))),
        (memory, Column(header="memory\nused", cell=_used)),
        (full, Column(header="kept", cell=lambda row: format_about(row.kept_bytes) if row.kept_bytes else MISSING)),
        (full, Column(header="path", cell=path_cell, right=False)),
        (True, Column(header="proof", cell=_proof, right=False)),
    ]
    return [column for wanted, column in columns if wanted]


def registration_tables(view: RunView) -> list[Table]:
    """report.md's tables, each with what did not run, the first registration and doubts above it."""
    columns = [
        Column(header=column.header, cell=_escaped(column.cell), right=column.right)
        for column in registration_columns()
    ]
    return [
        make_table(
            group_title(group),
            [row for row in group.rows if row.register],
            columns,
            notes=[f"{label}: {text}" for label, text in (*group_lines(view, group), *doubt_lines(group))],
        )
        for group in view.registrations
    ]


def _escaped(cell: Callable[[RegistrationRow], str]) -> Callable[[RegistrationRow], str]:
    return lambda row: escape(cell(row))


def _each(row: RegistrationRow) -> str:
    """Of a listed set its name."""
    return row.case.name or format_size(row.case.sizes[0])


def _time(of: Callable[[RegistrationRow], Summary | None], *, ranges: bool) -> Callable[[RegistrationRow], str]:
    def cell(row: RegistrationRow) -> str:
        summary = of(row)
        if summary is None:
            return MISSING
        if not ranges:
            return format_times_us(summary.median_us)
        return format_times_us(summary.median_us, summary.p10_us, summary.p90_us)

    return cell


def _per_buffer(row: RegistrationRow) -> str:
    return MISSING if row.per_buffer_us is None else format_times_us(row.per_buffer_us)


def _used(row: RegistrationRow) -> str:
    return MISSING if row.used_bytes is None else format_about(row.used_bytes)


def _proof(row: RegistrationRow) -> str:
    return MISSING if row.proof is None else PROOF_TEXT[row.proof]
