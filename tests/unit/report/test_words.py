"""Ratios, sizes and proofs in words."""

import dataclasses

import pytest

from gtpbench.report.words import comparison_text, plain_ascii, ratio_text, size_text, sizes_text
from gtpbench.stats.compare import Comparison, Outcome, UndecidedReason
from tests.unit.report.factory import KIB, MIB, make_case
from tests.unit.report.runs import view_of


def _comparison(
    ratio: float, ci95: tuple[float, float] | None, outcome: Outcome, reason: UndecidedReason | None = None
) -> Comparison:
    compared = next(row.comparison for row in view_of("cpu").rows if row.comparison)
    return dataclasses.replace(compared, ratio=ratio, ci95=ci95, outcome=outcome, reason=reason)


@pytest.mark.parametrize(
    ("comparison", "words"),
    [
        (_comparison(0.5, (0.4, 0.8), "faster"), "▲ 2.00x faster [1.25, 2.50]"),
        (_comparison(0.025, (0.02, 0.1), "faster"), "▲ 40.0x faster [10.0, 50.0]"),
        (_comparison(0.96, (0.95, 0.97), "faster"), "▲ 4.2 % faster [3.1, 5.3]"),
        (_comparison(1.021, (1.01, 1.04), "slower"), "▼ 2.1 % slower [1.0, 4.0]"),
        (_comparison(1.5, (1.4, 1.6), "slower"), "▼ 1.50x slower [1.40, 1.60]"),
        (_comparison(1.0, (0.98, 1.02), "same"), "= same [0.98, 1.02]"),
        (_comparison(1.0, (0.8, 1.25), "undecided", "wide-ci"), "? wide-ci [0.80, 1.25]"),
        (_comparison(0.5, None, "undecided", "few-pairs"), "? few-pairs"),
    ],
)
def test_ratio_in_words(comparison: Comparison, words: str) -> None:
    """The direction is a word and a symbol; the interval is in the unit of the number before it."""
    assert comparison_text(comparison) == words


def test_rows_without_ratio() -> None:
    """The baseline says so, others name the reason."""
    rows = {row.arm.name: row for row in view_of("cpu").rows}
    assert ratio_text(rows["none"]) == "baseline"
    assert ratio_text(rows["symm:nvls"]) == "– skipped"


def test_rounded_size_shows_both() -> None:
    """Requested and used size, in this order."""
    row = view_of("cpu").rows[0]
    rounded = dataclasses.replace(row, case=make_case(size_bytes=65532, requested_bytes=65536, num_ranks=3))
    assert (size_text(row), size_text(rounded)) == ("64KiB", "64KiB → 65532B")


SWEEP = [64 * KIB, 256 * KIB, MIB, 4 * MIB]


@pytest.mark.parametrize(
    ("sizes", "of", "words"),
    [
        (SWEEP, SWEEP, "every size"),
        (SWEEP[:3], SWEEP, "64KiB to 1MiB"),
        (SWEEP[:2], SWEEP, "64KiB, 256KiB"),
        ([SWEEP[0], SWEEP[2], SWEEP[3]], SWEEP, "64KiB, 1MiB, 4MiB"),
        ([MIB], [MIB], "1MiB"),
    ],
)
def test_sizes_in_words(sizes: list[int], of: list[int], words: str) -> None:
    """Runs of three or more neighbours become a range, and all sizes `every size`."""
    assert sizes_text(sizes, of=of) == words


def test_ascii() -> None:
    """Every symbol has a plain counterpart."""
    assert plain_ascii("✓ ◇ – ✗ · → × ▲ ▼ ü") == "+ = - x - > x ^ v ?"
