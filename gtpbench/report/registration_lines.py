"""One registration row as flat values: a line of results.csv, and what report.json says of it."""

from typing import Any

from gtpbench.report.details import Cost
from gtpbench.report.registration import RegistrationRow
from gtpbench.report.words import path_cell
from gtpbench.stats.summary import Summary

_PHASE = ("median_us", "min_us", "p10_us", "p90_us")
WHOLE = (
    "buffer_bytes",
    "num_samples",
    "num_blocks",
    "num_wrong",
    "window_bytes",
    "registered_bytes",
    "used_bytes",
    "kept_bytes",
    "free_before_bytes",
    "free_after_bytes",
)
"""Whole numbers that may be missing."""


def registration_line(row: RegistrationRow) -> dict[str, Any]:
    """The values of one set of buffers x arm, None where there is none.

    `allocate_*`, `register_*` and `deregister_*` are host times of the whole set on the slowest rank; `per_buffer_us`
    is the median of `register` over the number of buffers. `buffer_bytes` is None where buffers differ.
    `first_registration_us` is that of the first buffer of a process, in the case that came first;
    `single_registration_us` that of one buffer by itself in the others. `used_bytes` and `kept_bytes` are device memory
    of the rank that loses most: to the registered set, and after its release.
    """
    case, costs, register = row.case, row.costs, row.register
    return {
        "case_id": case.case_id,
        "set": case.name,
        "num_buffers": case.num_buffers,
        "buffer_bytes": case.buffer_bytes if isinstance(case.buffer_bytes, int) else None,
        "total_bytes": case.total_bytes,
        "num_ranks": case.num_ranks,
        "origin": row.origin,
        "arm": row.arm.name,
        "backend": row.arm.backend,
        "status": row.status,
        "reason": row.reason.code if row.reason else None,
        "num_launches": row.num_launches,
        "num_ok_launches": row.num_ok_launches,
        "num_samples": register.num_samples if register else None,
        "num_blocks": register.num_blocks if register else None,
        **_phase("allocate", row.allocate),
        **_phase("register", register),
        "per_buffer_us": row.per_buffer_us,
        **_phase("deregister", row.deregister),
        "communicator_us": _median_us(costs.communicator),
        "first_registration_us": _median_us(costs.first_registration),
        "single_registration_us": _median_us(costs.registration),
        "window_bytes": dict(costs.window_bytes).get("buffers"),
        "registered_bytes": costs.registered_bytes,
        "used_bytes": row.used_bytes,
        "kept_bytes": row.kept_bytes,
        "free_before_bytes": costs.free_before_bytes,
        "free_after_bytes": costs.free_after_bytes,
        "proof": row.proof,
        "path": path_cell(row) if row.proofs else None,
        "proof_statement": row.statement,
        "num_wrong": row.num_wrong,
        "reason_text": row.reason.text if row.reason else None,
    }


def _phase(name: str, summary: Summary | None) -> dict[str, float | None]:
    return {f"{name}_{field}": getattr(summary, field, None) for field in _PHASE}


def _median_us(cost: Cost | None) -> float | None:
    return cost.median_us if cost else None
