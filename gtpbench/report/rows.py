"""From the records of one cell (case x arm x origin, one record a launch) to its row."""

from collections.abc import Sequence
from statistics import median

from gtpbench.bandwidth import algbw_gb_per_s, busbw_gb_per_s
from gtpbench.collectives import COLLECTIVES
from gtpbench.record.model import Clock, Proof, ProofVerdict, Record, Samples, Status
from gtpbench.report.model import Row, Timing
from gtpbench.report.notes import row_notes
from gtpbench.report.ratios import compare_on, series_by_clock, why_no_ratio
from gtpbench.stats.compare import Comparison
from gtpbench.stats.summary import summarise

PROOF_ORDER: tuple[ProofVerdict, ...] = ("proved", "by_construction", "not_eligible", "unproven", "fell_back")
"""From best to worst."""
_STATUS_ORDER: tuple[Status, ...] = ("ok", "skipped", "timeout", "error", "wrong_result")
_CLOCK_ORDER: tuple[Clock, ...] = ("graph", "host", "stream", "isolated")
"""The first clock that a cell was timed on is its headline."""


def clock_order(clocks: set[Clock]) -> tuple[Clock, ...]:
    """These clocks, the headline first."""
    return tuple(clock for clock in _CLOCK_ORDER if clock in clocks)


def build_row(records: Sequence[Record], baseline: Sequence[Record], *, baseline_arm: str, functional: bool) -> Row:
    """The row of one cell from its records by launch, not empty, and the baseline's of the same case and origin."""
    first, ok = records[0], [record for record in records if record.status == "ok"]
    worst = max(records, key=lambda record: _STATUS_ORDER.index(record.status))
    no_ratio = why_no_ratio(records, baseline, is_baseline=first.arm == baseline_arm, functional=functional)
    timings: list[Timing] = []
    for clock in clock_order({clock for record in ok for clock in series_by_clock(record)}):
        compared = compare_on(clock, ok, baseline) if no_ratio is None else None
        if not timings and compared is not None and not isinstance(compared, Comparison):
            no_ratio = compared
        timings.append(_timing(clock, ok, comparison=compared if isinstance(compared, Comparison) else None))
    proof = _worst_proof(records)
    item = proof.items[0] if proof and proof.items else None
    checks = [record.verification for record in records if record.verification]
    return Row(
        case=first.case,
        arm=first.arm_spec,
        origin=first.origin,
        status=worst.status,
        reason=worst.reason,
        num_launches=len(records),
        num_ok_launches=len(ok),
        timings=tuple(timings),
        proof=proof.verdict if proof else None,
        statement=item.statement if item else None,
        path=_paths(records),
        algorithm=item.algorithm if item else None,
        protocol=item.protocol if item else None,
        ctas=max((item.ctas for item in proof.items if item.ctas is not None), default=None) if proof else None,
        num_wrong=sum(check.num_wrong for check in checks) if checks else None,
        max_error=max((check.max_error for check in checks), default=None),
        no_ratio=no_ratio,
        notes=row_notes(records, timings),
    )


def _timing(clock: Clock, records: Sequence[Record], *, comparison: Comparison | None) -> Timing:
    launches = [record.samples[name] for record in records if (name := series_by_clock(record).get(clock))]
    summary, case = summarise(launches), records[0].case
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


def _worst_proof(records: Sequence[Record]) -> Proof | None:
    proofs = [record.proof for record in records if record.proof]
    return max(proofs, key=lambda proof: PROOF_ORDER.index(proof.verdict)) if proofs else None


def _paths(records: Sequence[Record]) -> str | None:
    """The path that ran; several where launches differ."""
    paths = list(dict.fromkeys(record.proof.path for record in records if record.proof))
    return " + ".join(paths) if paths else None
