"""The view as a table of raw numbers: the only place that uses pandas."""

from typing import TYPE_CHECKING, Any, get_args

from gtpbench.record.model import Clock
from gtpbench.report.model import Row, RunView

if TYPE_CHECKING:
    from pandas import DataFrame

_SUMMARY = (
    "median_us",
    "min_us",
    "p10_us",
    "p90_us",
    "p99_us",
    "rank_min_median_us",
    "spread",
    "num_samples",
    "num_blocks",
    "num_mild_outliers",
    "num_severe_outliers",
    "overhead_fraction",
)
_WHOLE = ("num_samples", "num_blocks", "num_mild_outliers", "num_severe_outliers", "ctas", "num_wrong")
"""Whole numbers that may be missing."""


def to_frame(view: RunView) -> "DataFrame":
    """One row per case x arm in the order of the view. Units are in the names; nothing is rounded.

    Times and rates are those of the headline clock, `<clock>_median_us` the medians of all of them. `time_ratio` is
    arm / baseline: above 1 the arm is slower.
    """
    import pandas as pd

    frame = pd.DataFrame([_line(view, row) for row in view.rows])
    return frame.astype(dict.fromkeys(_WHOLE, "Int64"))


def _line(view: RunView, row: Row) -> dict[str, Any]:
    case = row.case
    return {
        "case_id": case.case_id,
        "collective": case.collective,
        "op": case.op,
        "dtype": case.dtype,
        "placement": case.placement,
        "hot": case.hot,
        "num_ranks": case.num_ranks,
        "origin": row.origin,
        "requested_bytes": case.requested_bytes,
        "size_bytes": case.size_bytes,
        "arm": row.arm.name,
        "backend": row.arm.backend,
        "status": row.status,
        "reason": row.reason.code if row.reason else None,
        "num_launches": row.num_launches,
        "num_ok_launches": row.num_ok_launches,
        **_times(row),
        **_ratio(view, row),
        "proof": row.proof,
        "path": row.path,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "ctas": row.ctas,
        "num_wrong": row.num_wrong,
        "max_error": row.max_error,
        "notes": " ".join(note.code for note in row.notes) or None,
        "reason_text": row.reason.text if row.reason else None,
    }


def _times(row: Row) -> dict[str, Any]:
    timing = row.headline
    summary = timing.summary if timing else None
    medians = {clock: row.timing(clock) for clock in get_args(Clock)}
    return {
        "clock": timing.clock if timing else None,
        "k": " ".join(map(str, timing.k)) if timing else None,
        **{name: getattr(summary, name, None) for name in _SUMMARY},
        "algbw_gb_per_s": timing.algbw_gb_per_s if timing else None,
        "busbw_gb_per_s": timing.busbw_gb_per_s if timing else None,
        **{f"{clock}_median_us": found.summary.median_us if found else None for clock, found in medians.items()},
    }


def _ratio(view: RunView, row: Row) -> dict[str, Any]:
    comparison = row.comparison
    low, high = (comparison.ci95 if comparison else None) or (None, None)
    return {
        "baseline": view.baseline if comparison else None,
        "time_ratio": comparison.ratio if comparison else None,
        "time_ratio_low95": low,
        "time_ratio_high95": high,
        "outcome": comparison.outcome if comparison else None,
        "undecided_reason": comparison.reason if comparison else None,
        "within_one_launch": comparison.within_one_launch if comparison else None,
        "no_ratio": row.no_ratio.code if row.no_ratio else None,
    }
