"""Path proof, numerical error and costs in report.md."""

import re

import pytest

from gtpbench.record import Verification
from gtpbench.report.markdown import render_markdown
from gtpbench.report.sections import cost_tables, error_tables, proof_tables
from gtpbench.report.terminal import render_text
from gtpbench.report.view import build_view
from tests.unit.report.factory import make_case, make_record
from tests.unit.report.runs import view_of

TITLE = "reduce-scatter sum · bf16 · out of place · 2 ranks · shared GPU"


def _verification(num_checked: int, rms_error: float, max_error: float = 0.5) -> Verification:
    return Verification(
        num_slots=2,
        poisoned=True,
        num_wrong=0,
        num_checked=num_checked,
        max_error=max_error,
        rms_error=rms_error,
        tolerance=1.0,
    )


def test_proof_tables_show_kernels_by_arm_and_size() -> None:
    """A line for each arm's kernels, those of all sizes folded."""
    table = proof_tables(view_of("h200"))[0]
    assert table.header[:6] == ("arm", "sizes", "clocks", "path", "kernel, each call", "CTAs")
    kernels = {(row[0], row[1]): (row[3], row[4], row[5]) for row in table.rows}
    assert kernels["none", "every size"] == ("legacy (ring, NVLS or PAT)", "ncclDevKernel_AllGather_RING_LL", "64")
    assert kernels["symm", "64KiB"] == ("symm_lsa LL", "ncclSymkDevKernel_AllGather_LL", "9")
    assert kernels["symm", "4MiB, 64MiB"] == ("symm_lsa ST", "ncclSymkDevKernel_AllGather_ST", "9")
    assert kernels["symm:ce", "every size"] == ("copy_engine", "memcpy ×4 + batch_mem_op ×2", "–")


def test_proof_tables_say_why_a_row_is_not_proved() -> None:
    """Above the table, once for all sizes and clocks with one reason; in the terminal too."""
    table = next(table for table in proof_tables(view_of("h200")) if table.title == TITLE)
    told = [note for note in table.notes if note.startswith("– not eligible: symm:ce at every size")]
    assert len(told) == 1 and told[0].endswith("NCCL 2.30.7: there is no copy-engine reduce-scatter")
    text = " ".join(render_text(view_of("h200")).split())
    assert "– not eligible symm:ce at every size: ncclSymkDevKernel_ReduceScatter_LL_sum_bf16" in text
    assert "? unproven symm:ce at 64KiB, stream clock: rank 1 could not look" in text


def test_bytes_alone_make_no_proof_table() -> None:
    """On CPU ranks path and proof stand in the main table; a row without proof still gets its reason."""
    assert proof_tables(view_of("cpu")) == []
    assert "## Path proof" not in render_markdown(view_of("cpu"))
    record = make_record("symm", verdict="fell_back", path="socket", statement="sockets carried it")
    (table,) = proof_tables(build_view([record], {}))
    assert (table.notes, table.rows) == (("✗ fell back: symm at 16MiB: sockets carried it",), ())


def test_errors_of_reductions_by_arm_size_and_dtype() -> None:
    """All-gathers move bytes and have none; each dtype is a table."""
    tables = error_tables(view_of("h200"))
    assert [table.title for table in tables] == [TITLE, TITLE.replace("bf16", "fp16")]
    assert tables[0].rows[0] == ("64KiB", "none", "legacy", "0.00389", "0.000980", "0.00780")
    assert len(tables[0].rows) == 12


def test_errors_of_launches_are_joined() -> None:
    """rms over 100 elements of 3 and 300 of 1: the root of (9 x 100 + 1 x 300) / 400 = sqrt(3); the maximum is kept."""
    case = make_case(collective="reduce_scatter")
    records = [
        make_record("none", case=case, launch=0, verification=_verification(100, 3.0, 4.0)),
        make_record("none", case=case, launch=1, verification=_verification(300, 1.0, 5.0)),
    ]
    errors = build_view(records, {}).rows[0].errors
    assert errors is not None
    assert errors.rms_error == pytest.approx(3**0.5)
    assert (errors.max_error, errors.tolerance) == (5.0, 1.0)


def test_whole_numbers_have_no_errors() -> None:
    """They come out exactly or wrong."""
    case = make_case(collective="reduce_scatter", dtype="int32")
    view = build_view([make_record("none", case=case, verification=_verification(100, 0.0))], {})
    assert error_tables(view) == []


def test_errors_that_were_not_recorded_are_not_zero() -> None:
    """Another tool that counts wrong elements says nothing of errors."""
    counted = _verification(100, 0.0).model_copy(update={"counts_only": True})
    view = build_view([make_record("none", case=make_case(collective="reduce_scatter"), verification=counted)], {})
    assert view.rows[0].errors is None and view.rows[0].num_wrong == 0
    assert error_tables(view) == []


def test_costs_by_arm() -> None:
    """Creation, first and later registrations, capture, windows, addresses and free memory, an arm a line."""
    table = cost_tables(view_of("h200"))[0]
    assert table.title == "By arm"
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert rows["symm"]["communicator"] == "225 ms"
    assert rows["symm"]["first registration"] == "20.5 ms"
    assert rows["symm"]["later, each buffer"] == "540 us (440–640)"
    assert rows["symm"]["symmetric addresses, each rank"] == "144GiB"
    assert rows["symm"]["windows of a case"] == "4MiB to 768MiB"
    assert rows["none"]["free before → after, GiB"] == "138.00 → 137.25"
    assert rows["none"]["later, each buffer"] == rows["none"]["windows of a case"] == "–"


def test_costs_by_size() -> None:
    """Of the arms that register, in the tables' order."""
    table = cost_tables(view_of("h200"))[1]
    row = dict(zip(table.header, table.rows[-3], strict=True))
    assert (row["size"], row["arm"]) == ("64MiB", "symm")
    assert (row["windows"], row["buffers"], row["registration"]) == ("send 256MiB, recv 512MiB", "2", "960 us")
    assert {cells[1] for cells in table.rows} == {"symm", "symm:recv", "symm:ce"}


def test_costs_of_several_origins_are_told_apart() -> None:
    """Arms of one name from CPU ranks and from GPUs."""
    costs = {"communicator_us": (5.0,)}
    records = [make_record("none", origin=origin, costs=costs) for origin in ("cpu", "measured")]
    (table,) = cost_tables(build_view(records, {}))
    assert [row[0] for row in table.rows] == ["none, CPU ranks, a demonstration", "none, measured"]


def test_runs_without_errors_and_costs_have_no_such_sections() -> None:
    """No empty headings."""
    text = render_markdown(view_of("cpu"))
    assert "## Numerical error" not in text and "## Costs" not in text
    headings = re.findall(r"^## (.*)$", render_markdown(view_of("h200")), flags=re.MULTILINE)
    assert headings[3:7] == ["Notes", "Path proof", "Numerical error", "Costs"]
