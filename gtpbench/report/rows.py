"""From the records of one cell (case x arm x origin, one record a launch) to its row."""

import math
from collections.abc import Sequence
from statistics import median

from gtpbench.bandwidth import algbw_gb_per_s, busbw_gb_per_s
from gtpbench.collectives import COLLECTIVES
from gtpbench.record.model import Clock, Record, Samples, Verification
from gtpbench.report.costs import cell_costs
from gtpbench.report.details import Errors
from gtpbench.report.model import Row, Timing
from gtpbench.report.notes import row_notes
from gtpbench.report.orders import PROOF_ORDER, STATUS_ORDER, clock_order
from gtpbench.report.paths import headline_proofs, path_proofs, worst_verdict
from gtpbench.report.ratios import compare_on, series_by_clock, why_no_ratio
from gtpbench.stats.compare import Comparison
from gtpbench.stats.summary import summarise


def build_row(records: Sequence[Record], baseline: Sequence[Record], *, baseline_arm: str, functional: bool) -> Row:
    """The row of one cell from its records by launch, not empty, and the baseline's of the same case and origin."""
    first, ok = records[0], [record for record in records if record.status == "ok"]
    worst = max(records, key=lambda record: STATUS_ORDER.index(record.status))
    no_ratio = why_no_ratio(records, baseline, is_baseline=first.arm == baseline_arm, functional=functional)
    timings: list[Timing] = []
    for clock in clock_order({clock for record in ok for clock in series_by_clock(record)}):
        compared = compare_on(clock, ok, baseline) if no_ratio is None else None
        if not timings and compared is not None and not isinstance(compared, Comparison):
            no_ratio = compared
        timings.append(_timing(clock, ok, comparison=compared if isinstance(compared, Comparison) else None))
    verdict, proofs = worst_verdict(records), path_proofs(records)
    shown = headline_proofs(proofs)
    worst_shown = max(shown, key=lambda proof: PROOF_ORDER.index(proof.verdict), default=None)
    checks = [check for record in records if (check := record.verification) and check.num_checked]
    return Row(
        case=first.collective_case,
        arm=first.arm_spec,
        origin=first.origin,
        status=worst.status,
        reason=worst.reason,
        num_launches=len(records),
        num_ok_launches=len(ok),
        timings=tuple(timings),
        proof=verdict,
        statement=next((proof.statement for proof in proofs if proof.verdict == verdict), None),
        path=" + ".join(dict.fromkeys(proof.path for proof in shown)) or None,
        algorithm=worst_shown.algorithm if worst_shown else None,
        protocol=worst_shown.protocol if worst_shown else None,
        ctas=worst_shown.ctas if worst_shown else None,
        proofs=proofs,
        num_wrong=sum(check.num_wrong for check in checks) if checks else None,
        errors=_errors(checks),
        costs=cell_costs(records),
        no_ratio=no_ratio,
        notes=row_notes(records, timings, proofs),
    )


def _timing(clock: Clock, records: Sequence[Record], *, comparison: Comparison | None) -> Timing:
    launches = [record.samples[name] for record in records if (name := series_by_clock(record).get(clock))]
    summary, case = summarise(launches), records[0].collective_case
    collective = COLLECTIVES[case.collective]
    withheld = any(record.origin == "shared_gpu" for record in records)

    def busbw(time_us: float) -> float | None:
        if withheld or time_us <= 0:
            return None
        return busbw_gb_per_s(collective, case.size_bytes, time_us, num_ranks=case.num_ranks)

    return Timing(
        clock=clock,
        k=tuple(sorted({samples.k for samples in launches})),
        alignment=launches[0].alignment,
        aggregation=launches[0].aggregation,
        summary=summary,
        algbw_gb_per_s=None if busbw(summary.median_us) is None else algbw_gb_per_s(case.size_bytes, summary.median_us),
        busbw_gb_per_s=busbw(summary.median_us),
        busbw_low_gb_per_s=busbw(summary.p90_us),
        busbw_high_gb_per_s=busbw(summary.p10_us),
        issue_share=_issue_share(launches),
        comparison=comparison,
    )


def _issue_share(launches: Sequence[Samples]) -> float | None:
    """Median over all iterations of issuing time / time, each rank by itself."""
    shares = [
        issue / time
        for samples in launches
        for issued, timed in zip(samples.issue_us or (), samples.time_us, strict=False)
        for issue_block, time_block in zip(issued, timed, strict=False)
        for issue, time in zip(issue_block, time_block, strict=False)
        if time > 0
    ]
    return median(shares) if shares else None


def _errors(checks: Sequence[Verification]) -> Errors | None:
    """The largest error of all launches, and the root of their mean square over all checked elements."""
    known = [check for check in checks if not check.counts_only]
    if not known:
        return None
    squares = sum(check.rms_error**2 * check.num_checked for check in known)
    return Errors(
        max_error=max(check.max_error for check in known),
        rms_error=math.sqrt(squares / sum(check.num_checked for check in known)),
        tolerance=max(check.tolerance for check in known),
    )
