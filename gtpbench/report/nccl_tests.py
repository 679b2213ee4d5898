"""The text layout of nccl-tests: same columns, same widths, `N/A` where something was not run.

One block per arm. Two things differ from nccl-tests, and the header says so: `time` is the median over iterations of
the slowest rank instead of a mean over ranks, and both placements of a block come from different cases. Arms that run
under nccl-tests' own conditions take its mean, so that their lines compare with its file; imported rows keep theirs.
`time` is always there; `algbw` and `busbw` are `N/A` where ranks share a GPU. The layout has no place for the cost of
registration: runs of it are refused.
"""

from collections.abc import Iterator, Sequence

from gtpbench.bandwidth import algbw_gb_per_s, busbw_gb_per_s
from gtpbench.collectives import COLLECTIVES, dtype_named
from gtpbench.errors import UsageError
from gtpbench.report.absent import absent_rows
from gtpbench.report.clocks import k_span
from gtpbench.report.model import Group, Row, RunView
from gtpbench.report.words import ORIGIN_TEXT, aggregation_text

NO_LAYOUT = "nccl-tests' layout has no place for the cost of registration: ask for table, json or csv"
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
    """All blocks of a run, a blank line between them.

    Raises:
        UsageError: a run of registrations.
    """
    if view.registrations:
        raise UsageError(NO_LAYOUT)
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
    rates = [rate for row in rows if (rate := _numbers(row)[2]) is not None]
    num_wrong = sum(row.num_wrong or 0 for row in rows)
    return [
        f"# Collective test starting: {group.collective}_perf",
        f"# gtpbench {', '.join(view.tool_versions)} {view.name}: arm {rows[0].arm.name} ({rows[0].arm.backend})",
        f"# {group.num_ranks} ranks, {ORIGIN_TEXT[group.origin]}",
        f"# time: {_time_kind(rows)}" + (", hot buffers" if group.hot else ""),
        *(f"# {item.status} at {item.sizes}: {' '.join(item.reason.split())}" for item in absent_rows(rows)),
        *_HEADER,
        *(_line(found) for _, found in sorted(by_size.items())),
        f"# Out of bounds values : {num_wrong} {'FAILED' if num_wrong else 'OK'}",
        f"# Avg bus bandwidth    : {f'{sum(rates) / len(rates):g}' if rates else 'N/A'} ",
    ]


def _time_kind(rows: Sequence[Row]) -> str:
    """Which clock, with how many operations an interval, and what became of ranks and iterations."""
    headlines = [row.headline for row in rows if row.headline]
    if not headlines:
        return "not run"
    clocks = " and ".join(f"{clock} clock" for clock in dict.fromkeys(timing.clock for timing in headlines))
    other = aggregation_text(headlines)
    if other:
        return f"{clocks}, {other}"
    own = "mean over ranks and iterations, as nccl-tests' -a 1"
    kind = own if any(map(_takes_mean, rows)) else "median over iterations of the slowest rank"
    on_host = all(timing.clock == "host" for timing in headlines)
    k = "" if on_host else f"k={k_span(k for timing in headlines for k in timing.k)}, "
    return f"{clocks}, {k}{kind}"


def _takes_mean(row: Row) -> bool:
    return row.arm.family == "nccltests" and row.headline is not None and row.headline.aggregation is None


def _line(placements: dict[str, Row]) -> str:
    """One size; count is elements of one rank's share, as nccl-tests prints for both collectives."""
    case = next(iter(placements.values())).case
    share = case.size_bytes // case.num_ranks // dtype_named(case.dtype).size_bytes
    dtype = _TYPES.get(case.dtype, case.dtype)
    head = f"{case.size_bytes:>12}  {share:>12}  {dtype:>8}  {case.op or 'none':>6}  {-1:>6}"
    return head + "".join(_half(placements.get(placement)) for placement in ("out_of_place", "in_place"))


def _half(row: Row | None) -> str:
    """Time, algbw, busbw and wrong elements of one placement."""
    wrong = "N/A" if row is None or row.num_wrong is None else str(row.num_wrong)
    time_us, algbw, busbw = _numbers(row) if row else (None, None, None)
    return f"  {_number(time_us, 7)}  {_number(algbw, 6)}  {_number(busbw, 6)}  {wrong:>6}"


def _numbers(row: Row) -> tuple[float | None, float | None, float | None]:
    """Time, algbw and busbw; rates are None where they are withheld."""
    timing, case = row.headline, row.case
    if timing is None:
        return None, None, None
    if not _takes_mean(row):
        return timing.summary.median_us, timing.algbw_gb_per_s, timing.busbw_gb_per_s
    time_us = timing.summary.mean_us
    if timing.algbw_gb_per_s is None:
        return time_us, None, None
    busbw = busbw_gb_per_s(COLLECTIVES[case.collective], case.size_bytes, time_us, num_ranks=case.num_ranks)
    return time_us, algbw_gb_per_s(case.size_bytes, time_us), busbw


def _number(value: float | None, width: int) -> str:
    """Two decimals, fewer where the number is too wide for them, as nccl-tests' getFloatStr."""
    if value is None:
        return f"{'N/A':>{width}}"
    digits = len(str(int(value))) if value >= 1 else 0
    decimals = 2 if digits < width - 2 else 1 if digits < width - 1 else 0
    return f"{value:>{width}.{decimals}f}"
