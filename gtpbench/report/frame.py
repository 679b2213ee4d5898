"""The view as a table of raw numbers: the only place that uses pandas."""

from typing import TYPE_CHECKING, Any, get_args

from gtpbench.record.model import Clock
from gtpbench.report.details import Cost
from gtpbench.report.model import Row, RunView
from gtpbench.report.registration_lines import WHOLE, registration_line
from gtpbench.report.words import path_cell

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
_DEVICE_CLOCKS: tuple[Clock, ...] = ("graph", "stream")
_WHOLE = (
    "num_samples",
    "num_blocks",
    "num_mild_outliers",
    "num_severe_outliers",
    "ctas",
    "num_wrong",
    "graph_ctas",
    "stream_ctas",
    "num_registrations",
    "send_window_bytes",
    "recv_window_bytes",
    "registered_bytes",
    "symmetric_va_bytes",
    "free_before_bytes",
    "free_after_bytes",
)
"""Whole numbers that may be missing."""


def to_frame(view: RunView) -> "DataFrame":
    """One row per case x arm in the order of the view. Units are in the names; nothing is rounded.

    Times and rates are those of the headline clock, `<clock>_median_us` the medians of all of them; `mean_us` is over
    ranks too, as nccl-tests takes it. `time_ratio` is arm / baseline: above 1 the arm is slower. `proof` is the worst
    of all clocks; `path`, `algorithm`, `protocol` and `ctas` are the headline clock's, and `path_text` is as tables
    show them: `legacy` where `path` is `unknown` because no TUNING log tells ring, NVLS and PAT apart. `graph_*` and
    `stream_*` are one clock's own; `kernel` is what the headline clock's proof saw. Errors are against fp64. Costs are
    medians over launches of the slowest rank: `first_registration_us` where the case registered first, else
    `registration_us`, each of all `num_registrations` buffers. `free_*_bytes` are those of the rank with least, the
    other bytes of the one with most.

    A run of registrations has other columns, those of `registration_line`.
    """
    import pandas as pd

    if view.registrations:
        lines = pd.DataFrame([registration_line(row) for row in view.registration_rows])
        return lines.astype(dict.fromkeys(WHOLE, "Int64"))
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
        "max_error": row.errors.max_error if row.errors else None,
        "notes": " ".join(dict.fromkeys(note.code for note in row.notes)) or None,
        "reason_text": row.reason.text if row.reason else None,
        "aggregation": row.headline.aggregation if row.headline else None,
        "mean_us": row.headline.summary.mean_us if row.headline else None,
        **_stream(row),
        **_clock_proofs(row),
        "rms_error": row.errors.rms_error if row.errors else None,
        "tolerance": row.errors.tolerance if row.errors else None,
        **_costs(row),
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


def _stream(row: Row) -> dict[str, Any]:
    """What stands beside the graph clock, and how much of it the host was issuing."""
    timing = row.timing("stream")
    return {
        "stream_k": " ".join(map(str, timing.k)) if timing else None,
        "stream_p10_us": timing.summary.p10_us if timing else None,
        "stream_p90_us": timing.summary.p90_us if timing else None,
        "stream_issue_share": timing.issue_share if timing else None,
    }


def _clock_proofs(row: Row) -> dict[str, Any]:
    """The first launch's proof of each clock where each has its own, and what the headline clock's saw."""
    found = {proof.clock: proof for proof in reversed(row.proofs)}
    columns: dict[str, Any] = {"path_text": path_cell(row) if row.proofs else None}
    for clock in _DEVICE_CLOCKS:
        proof = found.get(clock)
        columns[f"{clock}_proof"] = proof.verdict if proof else None
        columns[f"{clock}_path"] = proof.path if proof else None
        columns[f"{clock}_ctas"] = proof.ctas if proof else None
    names = [use.name for seen in (row.proofs[0].seen if row.proofs else ()) for use in seen.kernels]
    return {**columns, "kernel": " + ".join(dict.fromkeys(names)) or None}


def _costs(row: Row) -> dict[str, Any]:
    costs, windows = row.costs, dict(row.costs.window_bytes)
    return {
        "communicator_us": _median_us(costs.communicator),
        "first_registration_us": _median_us(costs.first_registration),
        "registration_us": _median_us(costs.registration),
        "num_registrations": costs.num_registrations,
        "deregistration_us": _median_us(costs.deregistration),
        "capture_us": _median_us(costs.capture),
        "send_window_bytes": windows.get("send"),
        "recv_window_bytes": windows.get("recv"),
        "registered_bytes": costs.registered_bytes,
        "symmetric_va_bytes": costs.symmetric_va_bytes,
        "free_before_bytes": costs.free_before_bytes,
        "free_after_bytes": costs.free_after_bytes,
        "l2_resident": costs.l2_resident,
    }


def _median_us(cost: Cost | None) -> float | None:
    return cost.median_us if cost else None


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
