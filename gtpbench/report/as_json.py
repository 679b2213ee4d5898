"""report.json: everything the other renderers show, as a contract.

Schema history:
    1   first version.

Within a version fields are only added. Ratios of times are arm / baseline: above 1 the arm is slower. A row's `proofs`
(one a clock, what ranks saw with them) and `costs`, and `costs` of each arm, are the values of `report/details.py`.
A run of registrations has `registrations` beside empty `groups`: tables whose rows hold the values of
`report/registration_lines.py` and their `proofs`.
"""

import json
from dataclasses import asdict
from typing import Any

from gtpbench.record.model import Reason
from gtpbench.report.digits import rounded
from gtpbench.report.model import Group, Row, RunView, Timing
from gtpbench.report.registration import RegistrationGroup
from gtpbench.report.registration_lines import registration_line
from gtpbench.report.trust import trust_lines
from gtpbench.report.verdict import proof_text, verdict_text
from gtpbench.report.words import ORIGIN_TEXT, path_cell, path_text, ratio_text
from gtpbench.stats.compare import Comparison

REPORT_SCHEMA_VERSION = 1

_SUMMARY = (
    "median_us", "min_us", "p10_us", "p90_us", "p99_us", "rank_min_median_us", "spread", "mean_us", "num_samples",
    "num_blocks", "num_launches", "num_mild_outliers", "num_severe_outliers", "overhead_fraction",
)  # fmt: skip
_COMPARISON = (
    "outcome", "reason", "ratio", "ci95", "ci90", "baseline_us", "candidate_us", "margin", "class_margin", "p_slower",
    "p_faster", "adjusted_p_slower", "adjusted_p_faster", "alpha", "smallest_p", "minimum_detectable_ratio", "unit",
    "num_units", "num_pairs", "num_launches", "within_one_launch", "launch_variance_covered", "order_effect_p",
    "order_balanced",
)  # fmt: skip


def render_json(view: RunView) -> str:
    """The text of report.json."""
    return json.dumps(rounded(to_document(view)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_document(view: RunView) -> dict[str, Any]:
    """The view as JSON values."""
    return {
        "schema_version": REPORT_SCHEMA_VERSION,
        "name": view.name,
        "verdict": verdict_text(view),
        "proof": proof_text(view),
        "trust": dict(trust_lines(view)),
        "command": view.command,
        "tool_versions": list(view.tool_versions),
        "commits": list(view.commits),
        "plan_digests": list(view.plan_digests),
        "origins": {origin: ORIGIN_TEXT[origin] for origin in view.origins},
        "arms": list(view.arms),
        "baseline": view.baseline,
        "num_ranks": list(view.num_ranks),
        "num_launches": view.num_launches,
        "num_all_launches": view.num_all_launches,
        "num_blocks": list(view.num_blocks),
        "functional": view.functional,
        "proofs": dict(view.proofs),
        "groups": [_group(view, group) for group in view.groups],
        **({"registrations": [_registrations(group) for group in view.registrations]} if view.registrations else {}),
        "footnotes": [{"mark": note.mark, "code": note.code, "text": note.text} for note in view.footnotes],
        "costs": [asdict(costs) for costs in view.costs],
        "environment": dict(view.environment),
    }


def _group(view: RunView, group: Group) -> dict[str, Any]:
    return {
        "title": group.title,
        "collective": group.collective,
        "op": group.op,
        "dtype": group.dtype,
        "placement": group.placement,
        "hot": group.hot,
        "num_ranks": group.num_ranks,
        "origin": group.origin,
        "clocks": list(group.clocks),
        "rows": [_row(view, row) for row in group.rows],
    }


def _registrations(group: RegistrationGroup) -> dict[str, Any]:
    return {
        "title": group.title,
        "num_ranks": group.num_ranks,
        "origin": group.origin,
        "rows": [
            {
                **registration_line(row),
                "sizes_bytes": list(row.case.sizes) if row.case.name else None,
                "proofs": [{**asdict(proof), "path_text": path_text(proof)} for proof in row.proofs],
            }
            for row in group.rows
        ],
    }


def _row(view: RunView, row: Row) -> dict[str, Any]:
    return {
        "case_id": row.case.case_id,
        "requested_bytes": row.case.requested_bytes,
        "size_bytes": row.case.size_bytes,
        "arm": row.arm.name,
        "backend": row.arm.backend,
        "origin": row.origin,
        "status": row.status,
        "reason": _reason(row.reason),
        "num_launches": row.num_launches,
        "num_ok_launches": row.num_ok_launches,
        "timings": [_timing(timing) for timing in row.timings],
        "ratio_text": ratio_text(row),
        "no_ratio": _reason(row.no_ratio),
        "proof": row.proof,
        "proof_statement": row.statement,
        "path": row.path,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "ctas": row.ctas,
        "num_wrong": row.num_wrong,
        "max_error": row.errors.max_error if row.errors else None,
        "rms_error": row.errors.rms_error if row.errors else None,
        "tolerance": row.errors.tolerance if row.errors else None,
        "path_text": path_cell(row) if row.proofs else None,
        "proofs": [{**asdict(proof), "path_text": path_text(proof)} for proof in row.proofs],
        "costs": {**asdict(row.costs), "window_bytes": dict(row.costs.window_bytes)},
        "notes": [asdict(note) for note in row.notes],
        "marks": list(view.marks(row)),
    }


def _timing(timing: Timing) -> dict[str, Any]:
    return {
        "clock": timing.clock,
        "k": timing.k,
        "alignment": timing.alignment,
        "aggregation": timing.aggregation,
        **{name: getattr(timing.summary, name) for name in _SUMMARY},
        "issue_share": timing.issue_share,
        "algbw_gb_per_s": timing.algbw_gb_per_s,
        "busbw_gb_per_s": timing.busbw_gb_per_s,
        "busbw_low_gb_per_s": timing.busbw_low_gb_per_s,
        "busbw_high_gb_per_s": timing.busbw_high_gb_per_s,
        "comparison": None if timing.comparison is None else _comparison(timing.comparison),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {name: getattr(comparison, name) for name in _COMPARISON}


def _reason(reason: Reason | None) -> dict[str, str] | None:
    return None if reason is None else {"code": reason.code, "text": reason.text}
