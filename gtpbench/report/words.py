"""The words and symbols of all renderers: origins, proofs, ratios, sizes. No numbers are computed here."""

from collections.abc import Sequence
from typing import Literal

from gtpbench.record.model import Origin, ProofVerdict
from gtpbench.report.details import PathProof
from gtpbench.report.model import Group, Row, Timing
from gtpbench.report.paths import headline_proofs
from gtpbench.report.registration import RegistrationGroup, RegistrationRow
from gtpbench.stats.compare import Comparison
from gtpbench.units import format_rate, format_size

Tone = Literal["good", "bad", "open", "plain"]
"""What colour underlines; every word says the same without it."""

ORIGIN_TEXT: dict[Origin, str] = {
    "measured": "measured on GPUs",
    "shared_gpu": "ranks share a GPU: paths and correctness only, times say nothing about separate GPUs",
    "cpu": "CPU ranks: a demonstration, not NVLink",
    "modelled": "modelled, not measured",
    "imported": "imported from another tool",
}
ORIGIN_LABEL: dict[Origin, str] = {
    "measured": "measured",
    "shared_gpu": "shared GPU",
    "cpu": "CPU ranks, a demonstration",
    "modelled": "MODELLED",
    "imported": "imported",
}
PROOF_TEXT: dict[ProofVerdict, str] = {
    "proved": "✓ proved",
    "by_construction": "◇ by construction",
    "not_eligible": "– not eligible",
    "unproven": "? unproven",
    "fell_back": "✗ fell back",
}
PROOF_TONE: dict[ProofVerdict, Tone] = {
    "proved": "good",
    "by_construction": "plain",
    "not_eligible": "open",
    "unproven": "open",
    "fell_back": "bad",
}
STATUS_TEXT = {
    "ok": "ok",
    "wrong_result": "✗ wrong result",
    "skipped": "skipped",
    "error": "✗ error",
    "timeout": "✗ timeout",
}
MISSING = "–"
_MAX_SETS = 4
"""Sets of buffers that are named one by one."""
_ASCII = str.maketrans(
    {"✓": "+", "◇": "=", "–": "-", "✗": "x", "·": "-", "→": ">", "×": "x", "▲": "^", "▼": "v", "…": "~"}
)


def plain_ascii(text: str) -> str:
    """The text for terminals without Unicode."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def percent(fraction: float) -> str:
    """A fraction in whole percent: `5 %`."""
    return f"{fraction * 100:.0f} %"


def group_title(group: Group | RegistrationGroup) -> str:
    """A table's title; says where the numbers come from unless GPUs of their own made them."""
    return group.title if group.origin == "measured" else f"{group.title} · {ORIGIN_LABEL[group.origin]}"


def size_text(row: Row) -> str:
    """The size, and the requested one before it where that was rounded."""
    used = format_size(row.case.size_bytes)
    if row.case.requested_bytes == row.case.size_bytes:
        return used
    return f"{format_size(row.case.requested_bytes)} → {used}"


LEGACY_TEXT = "legacy (ring, NVLS or PAT)"
"""A kernel name does not tell them apart."""


def path_text(proof: PathProof) -> str:
    """Path, algorithm and protocol: `symm_lsa ST`, `ring SIMPLE`, `copy_engine`, `legacy (ring, NVLS or PAT)`."""
    if proof.legacy:
        return LEGACY_TEXT
    algorithm = proof.algorithm if proof.algorithm and proof.algorithm.lower() != proof.path else None
    return " ".join(filter(None, (proof.path, algorithm, proof.protocol)))


def path_cell(row: Row | RegistrationRow, *, full: bool = True) -> str:
    """The headline clock's path for a table cell, `legacy` in short; several where launches differ."""
    cells = [
        "legacy" if proof.legacy else path_text(proof) if full else proof.path for proof in headline_proofs(row.proofs)
    ]
    return " + ".join(dict.fromkeys(cells)) or MISSING


def aggregation_text(timings: Sequence[Timing]) -> str | None:
    """What another tool made of ranks and iterations, by clock; None where all times are gtpbench's own kind."""
    by_clock: dict[str, dict[str, None]] = {}
    for timing in timings:
        by_clock.setdefault(timing.clock, {})[timing.aggregation or "median of the slowest rank's iterations"] = None
    if all(timing.aggregation is None for timing in timings):
        return None
    told = {clock: " or ".join(texts) for clock, texts in by_clock.items()}
    return "; ".join(f"{clock}: {text}" for clock, text in told.items()) if len(told) > 1 else "".join(told.values())


def sizes_text(sizes: Sequence[int], *, of: Sequence[int]) -> str:
    """Sizes in words: `every size`, `64KiB, 1MiB`, and runs of three or more of the sweep `of` as `64KiB to 1MiB`."""
    if len(of) > 1 and set(sizes) == set(of):
        return "every size"
    runs: list[list[int]] = []
    for size in sorted(sizes):
        if runs and of.index(size) == of.index(runs[-1][-1]) + 1:
            runs[-1].append(size)
        else:
            runs.append([size])
    return ", ".join(_run_text(run) for run in runs)


def sets_text(rows: Sequence[RegistrationRow], *, of: Sequence[RegistrationRow]) -> str:
    """Sets of buffers in words: `every set`, `1 × 64KiB, 4 × 64KiB`, or their number where they are many."""
    labels = dict.fromkeys(row.case.label for row in rows)
    every = {row.case.label for row in of}
    if len(every) > 1 and labels.keys() == every:
        return "every set"
    return ", ".join(labels) if len(labels) <= _MAX_SETS else f"{len(labels)} of {len(every)} sets"


def _run_text(run: Sequence[int]) -> str:
    if len(run) > 2:
        return f"{format_size(run[0])} to {format_size(run[-1])}"
    return ", ".join(map(format_size, run))


def ratio_text(row: Row) -> str:
    """The ratio in words: `▲ 1.83x faster [1.79, 1.87]`, `▼ 2.1 % slower [0.9, 3.3]`, `= same [0.99, 1.01]`,
    `? wide-ci [0.93, 1.21]`; without one `baseline` or the reason's code.

    Intervals are 95 %. Those of `same` and `?` are speed-ups, baseline time / arm time.
    """
    comparison = row.comparison
    if comparison is None:
        if row.no_ratio is None or row.no_ratio.code == "baseline":
            return "baseline" if row.no_ratio else MISSING
        return f"{MISSING} {row.no_ratio.code.replace('_', ' ')}"
    return comparison_text(comparison)


def comparison_text(comparison: Comparison) -> str:
    """See `ratio_text`."""
    if comparison.outcome in {"same", "undecided"}:
        what = "= same" if comparison.outcome == "same" else f"? {comparison.reason or 'undecided'}"
        return what + _interval(comparison, upside_down=True, percent=False)
    faster = comparison.outcome == "faster"
    factor = 1.0 / comparison.ratio if faster else comparison.ratio
    symbol = "▲" if faster else "▼"
    percent = factor < 1.1
    number = f"{(factor - 1) * 100:.1f} %" if percent else f"{format_rate(factor)}x"
    return f"{symbol} {number} {comparison.outcome}" + _interval(comparison, upside_down=faster, percent=percent)


def ratio_tone(row: Row) -> Tone:
    """The colour of a ratio."""
    if row.comparison is None:
        return "plain"
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad", "same": "plain", "undecided": "open"}
    return tones[row.comparison.outcome]


def _interval(comparison: Comparison, *, upside_down: bool, percent: bool) -> str:
    if comparison.ci95 is None:
        return ""
    low, high = comparison.ci95
    if upside_down:
        low, high = 1.0 / high, 1.0 / low
    if percent:
        return f" [{(low - 1) * 100:.1f}, {(high - 1) * 100:.1f}]"
    return f" [{format_rate(low)}, {format_rate(high)}]"
