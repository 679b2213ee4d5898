"""The text layout of nccl-tests: same columns, same widths, `N/A` where something was not run.

One block per arm. Two things differ from nccl-tests, and the header says so: `time` is the median over iterations of
the slowest rank instead of a mean over ranks, and both placements of a block come from different cases.
"""

from collections.abc import Iterator, Sequence

from gtpbench.collectives import dtype_named
from gtpbench.report.absent import absent_rows
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.words import ORIGIN_TEXT

_TYPES = {
    "bf16": "bfloat16",
    "fp16": "half",
    "fp32": "float",
    "fp64": "double",
    "fp8_e4m3": "f8e4m3",
    "fp8_e5m2": "f8e5m2",
}
"""nccl-tests' names where ours differ."""
_HEADER = (
    "#",
    "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place" + " " * 10,
    "#       size         count      type   redop    root" + "     time   algbw   busbw  #wrong" * 2 + " ",
    "#        (B)    (elements)                          " + "     (us)  (GB/s)  (GB/s)        " * 2 + " ",
)


def render_nccl_tests(view: RunView) -> str:
    """All blocks of a run, a blank line between them."""
    return "\n".join("\n".join(block) + "\n" for block in _blocks(view))


def _blocks(view: RunView) -> Iterator[list[str]]:
    """One block for each arm and everything but placement that its rows share."""
    merged: dict[tuple[object, ...], list[Group]] = {}
    for group in view.groups:
        key = (group.collective, group.op, group.dtype, group.hot, group.num_ranks, group.origin)
        merged.setdefault(key, []).append(group)
    for groups in merged.values():
        for arm in view.arms:
            rows = [row for group in groups for row in group.rows if row.arm.name == arm]
            if rows:
                yield _block(view, groups[0], rows)


def _block(view: RunView, group: Group, rows: Sequence[Row]) -> list[str]:
    by_size: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_size.setdefault(row.case.size_bytes, {})[row.case.placement] = row
    rates = [rate for row in rows if row.headline and (rate := row.headline.busbw_gb_per_s) is not None]
    num_wrong = sum(row.num_wrong or 0 for row in rows)
    clocks = " and ".join(dict.fromkeys(f"{row.headline.clock} clock" for row in rows if row.headline))
    time = f"{clocks}, median over iterations of the slowest rank" if clocks else "not run"
    return [
        f"# Collective test starting: {group.collective}_perf",
        f"# gtpbench {', '.join(view.tool_versions)} {view.name}: arm {rows[0].arm.name} ({rows[0].arm.backend})",
        f"# {group.num_ranks} ranks, {ORIGIN_TEXT[group.origin]}",
        f"# time: {time}" + (", hot buffers" if group.hot else ""),
        *(f"# {item.status} at {item.sizes}: {' '.join(item.reason.split())}" for item in absent_rows(rows)),
        *_HEADER,
        *(_line(found) for _, found in sorted(by_size.items())),
        f"# Out of bounds values : {num_wrong} {'FAILED' if num_wrong else 'OK'}",
        f"# Avg bus bandwidth    : {f'{sum(rates) / len(rates):g}' if rates else 'N/A'} ",
    ]


def _line(placements: dict[str, Row]) -> str:
    """One size; count is elements of one rank's share, as nccl-tests prints for both collectives."""
    case = next(iter(placements.values())).case
    share = case.size_bytes // case.num_ranks // dtype_named(case.dtype).size_bytes
    dtype = _TYPES.get(case.dtype, case.dtype)
    head = f"{case.size_bytes:>12}  {share:>12}  {dtype:>8}  {case.op or 'none':>6}  {-1:>6}"
    return head + "".join(_half(placements.get(placement)) for placement in ("out_of_place", "in_place"))


def _half(row: Row | None) -> str:
    """Time, algbw, busbw and wrong elements of one placement."""
    timing = row.headline if row else None
    wrong = "N/A" if row is None or row.num_wrong is None else str(row.num_wrong)
    time_us = timing.summary.median_us if timing else None
    algbw, busbw = (timing.algbw_gb_per_s, timing.busbw_gb_per_s) if timing else (None, None)
    return f"  {_number(time_us, 7)}  {_number(algbw, 6)}  {_number(busbw, 6)}  {wrong:>6}"


def _number(value: float | None, width: int) -> str:
    """Two decimals, fewer where the number is too wide for them, as nccl-tests' getFloatStr."""
    if value is None:
        return f"{'N/A':>{width}}"
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    return f"{value:>{width}.{decimals}f}"
