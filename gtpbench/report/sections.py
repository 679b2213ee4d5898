"""report.md's tables beside the main ones: evidence of the paths, numerical error, costs."""

from collections.abc import Callable

from gtpbench.collectives import COLLECTIVES, dtype_named
from gtpbench.report.details import ArmCosts, CellCosts, Cost, Errors
from gtpbench.report.markup import Column, Table, escape, make_table
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.proof_lines import PathLine, doubts, path_lines
from gtpbench.report.words import MISSING, ORIGIN_LABEL, PROOF_TEXT, group_title, path_cell, size_text
from gtpbench.units import format_gib, format_size, format_times_us


def proof_tables(view: RunView) -> list[Table]:
    """What was seen of every path, a table for each of the main ones; those that have nothing to say are left out."""
    tables = [
        make_table(
            group_title(group),
            path_lines(group),
            _PROOF_COLUMNS,
            notes=[f"{PROOF_TEXT[doubt.verdict]}: {doubt.text}" for doubt in doubts(group)],
        )
        for group in view.groups
    ]
    return [table for table in tables if table.rows or table.notes]


def error_tables(view: RunView) -> list[Table]:
    """Errors of reductions of floating-point numbers."""
    made = []
    for group in view.groups:
        rows = [row for row in group.rows if row.errors]
        if rows and COLLECTIVES[group.collective].reduces and dtype_named(group.dtype).epsilon:
            made.append(make_table(group_title(group), rows, _ERROR_COLUMNS, notes=()))
    return made


def cost_tables(view: RunView) -> list[Table]:
    """Costs by arm, then those of the arms that register by size."""
    if not view.costs:
        return []
    several = len({costs.origin for costs in view.costs}) > 1

    def arm(costs: ArmCosts) -> str:
        return escape(f"{costs.arm}, {ORIGIN_LABEL[costs.origin]}" if several else costs.arm)

    columns = [Column(header="arm", cell=arm, right=False), *_ARM_COLUMNS]
    return [make_table("By arm", view.costs, columns, notes=()), *filter(None, map(_by_size, view.groups))]


def _by_size(group: Group) -> Table | None:
    rows = [row for row in group.rows if row.costs.registration or row.costs.first_registration]
    return make_table(group_title(group), rows, _SIZE_COLUMNS, notes=()) if rows else None


_PROOF_COLUMNS: list[Column[PathLine]] = [
    Column(header="arm", cell=lambda line: escape(line.arm), right=False),
    Column(header="sizes", cell=lambda line: escape(line.sizes), right=False),
    Column(header="clocks", cell=lambda line: escape(line.clocks), right=False),
    Column(header="path", cell=lambda line: escape(line.path), right=False),
    Column(header="kernel, each call", cell=lambda line: escape(line.kernel), right=False),
    Column(header="CTAs", cell=lambda line: escape(line.ctas)),
    Column(header="calls", cell=lambda line: escape(line.calls)),
    Column(header="ranks", cell=lambda line: escape(line.ranks)),
    Column(header="seen in", cell=lambda line: escape(line.source), right=False),
    Column(header="proof", cell=lambda line: PROOF_TEXT[line.verdict], right=False),
]


def _error(value: Callable[[Errors], float]) -> Callable[[Row], str]:
    return lambda row: MISSING if row.errors is None else f"{value(row.errors):#.3g}"


_ERROR_COLUMNS: list[Column[Row]] = [
    Column(header="size", cell=lambda row: escape(size_text(row))),
    Column(header="arm", cell=lambda row: escape(row.arm.name), right=False),
    Column(header="path", cell=lambda row: escape(path_cell(row)), right=False),
    Column(header="max error", cell=_error(lambda errors: errors.max_error)),
    Column(header="rms error", cell=_error(lambda errors: errors.rms_error)),
    Column(header="tolerance", cell=_error(lambda errors: errors.tolerance)),
]


def _cost(cost: Cost | None) -> str:
    return MISSING if cost is None else escape(format_times_us(cost.median_us, cost.low_us, cost.high_us))


def _free(costs: ArmCosts | CellCosts) -> str:
    before, after = costs.free_before_bytes, costs.free_after_bytes
    return MISSING if before is None or after is None else f"{format_gib(before)} → {format_gib(after)}"


def _size(num_bytes: int | None) -> str:
    return MISSING if num_bytes is None else format_size(num_bytes)


def _window_range(costs: ArmCosts) -> str:
    if costs.window_bytes is None:
        return MISSING
    return " to ".join(dict.fromkeys(map(format_size, costs.window_bytes)))


_ARM_COLUMNS: list[Column[ArmCosts]] = [
    Column(header="communicator", cell=lambda costs: _cost(costs.communicator)),
    Column(header="first registration", cell=lambda costs: _cost(costs.first_registration)),
    Column(header="later, each buffer", cell=lambda costs: _cost(costs.registration)),
    Column(header="deregistration", cell=lambda costs: _cost(costs.deregistration)),
    Column(header="capture", cell=lambda costs: _cost(costs.capture)),
    Column(header="windows of a case", cell=_window_range),
    Column(header="symmetric addresses, each rank", cell=lambda costs: _size(costs.symmetric_va_bytes)),
    Column(header="free before → after, GiB", cell=_free),
]


def _windows(row: Row) -> str:
    return ", ".join(f"{side} {format_size(size)}" for side, size in row.costs.window_bytes) or MISSING


def _resident(row: Row) -> str:
    return MISSING if row.costs.l2_resident is None else "yes" if row.costs.l2_resident else "no"


_SIZE_COLUMNS: list[Column[Row]] = [
    Column(header="size", cell=lambda row: escape(size_text(row))),
    Column(header="arm", cell=lambda row: escape(row.arm.name), right=False),
    Column(header="windows", cell=_windows, right=False),
    Column(header="buffers", cell=lambda row: str(row.costs.num_registrations or MISSING)),
    Column(header="first registration", cell=lambda row: _cost(row.costs.first_registration)),
    Column(header="registration", cell=lambda row: _cost(row.costs.registration)),
    Column(header="free before → after, GiB", cell=lambda row: _free(row.costs)),
    Column(header="all slots in cache", cell=_resident, right=False),
]
