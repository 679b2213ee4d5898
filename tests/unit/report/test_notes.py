"""Notes of single rows and the footnotes made of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from gtpbench.record import Samples
from gtpbench.report.view import build_view
from tests.unit.report.factory import KIB, MIB, make_case, make_record, make_samples
from tests.unit.report.runs import make_scenario

SPIKES = [[100.0 + index % 5 for index in range(19)] + [900.0]] * 10


def _codes(record_fields: Mapping[str, Any]) -> list[str]:
    (row,) = build_view([make_record(**record_fields)], {}).rows
    return [note.code for note in row.notes]


def _host(samples: Samples) -> dict[str, Samples]:
    return {"step.host": samples}


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({}, []),
        ({"case": make_case(size_bytes=65532, requested_bytes=65536, num_ranks=3)}, ["rounded_size"]),
        ({"samples": _host(make_samples(100.0, num_blocks=2, iters=2))}, ["few_iterations"]),
        ({"samples": _host(make_samples(SPIKES))}, ["severe_outliers"]),
        ({"samples": _host(make_samples(100.0, overhead=0.25))}, ["overhead"]),
        ({"samples": _host(make_samples(100.0, overhead=0.25)), "case": make_case(size_bytes=64 * KIB)}, []),
        ({"samples": {"step.stream": make_samples(100.0, clock="stream", issue_us=95.0)}}, ["host_bound"]),
        ({"samples": {"step.stream": make_samples(100.0, clock="stream", issue_us=85.0)}}, []),
        ({"valid_step": False}, ["invalid_step"]),
        ({"test_fault": "slow"}, ["test_fault"]),
    ],
)
def test_notes_of_a_row(fields: dict[str, Any], codes: list[str]) -> None:
    """Each doubt is noted by its code, from its threshold on and not before."""
    assert _codes(fields) == codes


def test_order_effect() -> None:
    """Whichever arm comes second is 30 % slow in all 10 pairs: p = 2 / 2^10; a balanced order cancels it."""
    none = [[100.0 if block % 2 == 0 else 130.0] * 20 for block in range(10)]
    symm = [[130.0 if block % 2 == 0 else 100.0] * 20 for block in range(10)]
    records = [
        make_record("none", samples=_host(make_samples(none))),
        make_record("symm", samples=_host(make_samples(symm))),
    ]
    row = build_view(records, {}, scenario=make_scenario("test", ("none", "symm"))).rows[1]
    assert [(note.code, note.text) for note in row.notes] == [("order_effect", "p = 0.002")]
    assert row.comparison is not None and row.comparison.ratio == pytest.approx(1.0)


def test_unbalanced_order() -> None:
    """Pairs in which one arm always went first are marked."""
    execution = make_record("none").execution
    assert execution is not None
    fixed = execution.model_copy(update={"block_order": (("none", "symm"),) * 10})
    records = [make_record("none", execution=fixed), make_record("symm", execution=fixed, time_us=50.0)]
    view = build_view(records, {}, scenario=make_scenario("test", ("none", "symm")))
    assert "order_unbalanced" in [note.code for note in view.rows[1].notes]


def test_footnotes_are_numbered_and_counted() -> None:
    """One footnote a code, however many rows have it; rows carry the marks of theirs."""
    cases = [make_case(size_bytes=size - 4, requested_bytes=size, num_ranks=3) for size in (64 * KIB, MIB)]
    records = [make_record("none", case=case) for case in cases]
    records.append(make_record("symm", case=cases[0], samples=_host(make_samples(SPIKES, num_ranks=3))))
    view = build_view(records, {}, scenario=make_scenario("test", ("none", "symm")))
    assert [(note.mark, note.code) for note in view.footnotes] == [(1, "rounded_size"), (2, "severe_outliers")]
    assert "3 rows" in view.footnotes[0].text
    assert "symm 65532B: 10 of 200" in view.footnotes[1].text
    assert [view.marks(row) for row in view.rows] == [(1,), (1, 2), (1,)]
