"""What a reader should know about single rows, and the footnotes made of it."""

from collections.abc import Sequence

from gtpbench.record.model import Record
from gtpbench.report.details import PathProof
from gtpbench.report.model import Footnote, Note, Row, Timing
from gtpbench.report.paths import clocks_differ
from gtpbench.report.words import PROOF_TEXT, path_text, percent
from gtpbench.units import format_size

_MIB = 2**20
MAX_OVERHEAD = 0.20
"""Of a block's wall time, from 1 MiB on; below it alignment and stamping always weigh."""
HOST_BOUND = 0.90
MIN_SAMPLES = 30
"""Below it p10 and p90 rest on fewer than three samples each."""
ORDER_EFFECT_P = 0.05
SEVERE_SHARE = 0.01
"""Severe outliers are a note from this share on; a few are in every run, and none is ever dropped."""

_FOOTNOTES = {
    "rounded_size": "the requested size was rounded down to whole elements for every rank",
    "partial_launches": "not every launch was ok; times come from those that were",
    "test_fault": "a fault was injected for a test; this is no measurement",
    "invalid_step": "the step dropped rows",
    "shared_gpu": "other processes were on the rank's GPU: its times say nothing about a GPU of its own",
    "clocks_differ": "the clocks' proofs differ; the path shown is the headline's, the verdict the worst",
    "few_iterations": f"fewer than {MIN_SAMPLES} samples: p10 and p90 are rough",
    "severe_outliers": f"more than {percent(SEVERE_SHARE)} of the samples are severe outliers (3 IQR); all are kept",
    "overhead": f"more than {percent(MAX_OVERHEAD)} of the blocks' time was not the operation (alignment, stamping)",
    "host_bound": f"more than {percent(HOST_BOUND)} of the time the host was issuing: the device waited for it",
    "order_effect": "first and second block of a pair differ",
    "order_unbalanced": "one arm ran first more often than the other",
}
"""Code -> text, in the order of printing."""


def row_notes(records: Sequence[Record], timings: Sequence[Timing], proofs: Sequence[PathProof]) -> tuple[Note, ...]:
    """The notes of one cell, in the order of the footnotes."""
    found = {
        **_record_notes(records),
        **(_timing_notes(records[0].collective_case.size_bytes, timings) if timings else {}),
    }
    if clocks_differ(proofs):
        found["clocks_differ"] = "; ".join(
            f"{proof.clock} {path_text(proof)} {PROOF_TEXT[proof.verdict]}" for proof in proofs
        )
    notes = [Note(code=code, text=text) for code, text in found.items()]
    notes += [_host_bound(timing) for timing in timings if (timing.issue_share or 0.0) > HOST_BOUND]
    order = list(_FOOTNOTES)
    return tuple(sorted(notes, key=lambda note: order.index(note.code)))


def _host_bound(timing: Timing) -> Note:
    share = percent(timing.issue_share or 0.0)
    return Note(code="host_bound", text=f"{timing.clock} clock, {share}", clock=timing.clock)


def footnotes(rows: Sequence[Row]) -> tuple[Footnote, ...]:
    """One footnote for each code that a row has, numbered, with how many rows have it and the first of them."""
    made: list[Footnote] = []
    for code, meaning in _FOOTNOTES.items():
        having = [(row, note) for row in rows for note in row.notes if note.code == code]
        if not having:
            continue
        row, note = having[0]
        example = f"{row.arm.name} {format_size(row.case.size_bytes)}: {note.text}"
        num_rows = len({id(row) for row, _ in having})
        count = "1 row" if num_rows == 1 else f"{num_rows} rows"
        made.append(Footnote(mark=len(made) + 1, code=code, text=f"{meaning} ({count}; {example})"))
    return tuple(made)


def _record_notes(records: Sequence[Record]) -> dict[str, str]:
    case, num_ok = records[0].collective_case, sum(record.status == "ok" for record in records)
    found: dict[str, str] = {}
    if case.requested_bytes != case.size_bytes:
        found["rounded_size"] = f"{case.requested_bytes} B requested, {case.size_bytes} B used"
    if 0 < num_ok < len(records):
        found["partial_launches"] = f"{num_ok} of {len(records)} launches"
    fault = next((record.test_fault for record in records if record.test_fault), None)
    if fault:
        found["test_fault"] = fault
    if any(record.valid_step is False for record in records):
        found["invalid_step"] = "its time enters no comparison"
    others = max((state.other_processes or 0 for record in records for state in record.block_states), default=0)
    if others and records[0].origin == "imported":
        found["shared_gpu"] = f"{others} other{'s' if others > 1 else ''}"
    return found


def _timing_notes(size_bytes: int, timings: Sequence[Timing]) -> dict[str, str]:
    summary, comparison = timings[0].summary, timings[0].comparison
    found: dict[str, str] = {}
    if summary.num_samples < MIN_SAMPLES and timings[0].aggregation is None:
        found["few_iterations"] = f"{summary.num_samples} samples"
    if summary.num_severe_outliers > SEVERE_SHARE * summary.num_samples:
        found["severe_outliers"] = f"{summary.num_severe_outliers} of {summary.num_samples}"
    if size_bytes >= _MIB and summary.overhead_fraction > MAX_OVERHEAD:
        found["overhead"] = f"{percent(summary.overhead_fraction)}"
    if comparison and comparison.order_effect_p <= ORDER_EFFECT_P:
        found["order_effect"] = f"p = {comparison.order_effect_p:.2g}"
    if comparison and not comparison.order_balanced:
        found["order_unbalanced"] = f"{comparison.num_pairs} pairs"
    return found
