"""Verdict, proof and the closing line."""

from pathlib import Path

import pytest

from gtpbench.record import Record
from gtpbench.report.closing import closing_line
from gtpbench.report.view import RunView, build_view
from tests.unit.report.factory import KIB, MIB, make_case, make_record
from tests.unit.report.runs import make_scenario, view_of

OUT = Path("gtpbench-results/x")
SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB)


def _records(times: tuple[float, ...], *, origin: str = "measured", collective: str = "all_gather") -> list[Record]:
    cases = [make_case(size_bytes=size, collective=collective) for size in SIZES]
    return [
        make_record(arm, case=case, time_us=time, origin=origin)
        for case, symm_us in zip(cases, times, strict=True)
        for arm, time in (("none", 100.0), ("symm", symm_us))
    ]


def _view(records: list[Record]) -> RunView:
    arms = tuple(dict.fromkeys(record.arm for record in records))
    return build_view(records, {}, scenario=make_scenario("test", arms))


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((150.0, 100.0, 50.0, 50.0), "symm: faster from 1MiB, slower at 64KiB, same at 256KiB"),
        ((50.0, 50.0, 50.0, 50.0), "symm: faster at every size"),
        ((50.0, 150.0, 150.0, 50.0), "symm: faster at 64KiB, 4MiB, slower at 256KiB, 1MiB"),
        ((150.0, 150.0, 150.0, 50.0), "symm: faster at 4MiB, slower at 64KiB to 1MiB"),
    ],
)
def test_verdict_by_size(times: tuple[float, ...], verdict: str) -> None:
    """Each outcome with its sizes, and `from` where nothing above it is otherwise."""
    line = closing_line(_view(_records(times)), exit_code=0, directory=OUT)
    assert line == f"{verdict} · every arm proved · exit 0 · gtpbench-results/x"


def test_cpu_is_a_demonstration() -> None:
    """On CPU ranks the verdict says so first; skipped rows and the proof by construction are named."""
    assert closing_line(view_of("cpu"), exit_code=12, directory=OUT) == (
        "skipped: 3 of 9 rows; CPU demonstration: symm: faster from 1MiB, same at 64KiB · every arm by construction"
        " · exit 12 (not as asked) · gtpbench-results/x"
    )


def test_modelled_is_said() -> None:
    """A modelled run never reads like a measured one."""
    assert closing_line(_view(_records((50.0,) * 4, origin="modelled")), exit_code=0, directory=OUT).startswith(
        "modelled: symm: faster"
    )


def test_shared_gpu_is_functional_only() -> None:
    """No outcome, no size, no ratio."""
    assert closing_line(view_of("shared_gpu"), exit_code=0, directory=OUT) == (
        "functional only · every arm proved · exit 0 · gtpbench-results/x"
    )


def test_failures_and_missing_proofs_are_named() -> None:
    """Failed rows come first; arms without proof follow with their sizes; several groups are told apart."""
    line = closing_line(view_of("gpu"), exit_code=5, directory=OUT)
    assert line.startswith("FAILED: 1 of 21 rows; all-gather symm: faster from 16MiB")
    assert "reduce-scatter symm: faster from 16MiB" in line
    assert "without proof: symm:ce (fell back at 64KiB)" in line
    assert "exit 5 (failed)" in line
    assert "\n" not in line


def test_a_missing_proof_names_its_table() -> None:
    """Where the arm is proved in the other ones; the sizes are those of that table."""
    line = closing_line(view_of("h200"), exit_code=12, directory=OUT)
    assert line.startswith("functional only · without proof: all-gather bf16 symm:ce (unproven at 64KiB), ")
    assert "reduce-scatter bf16 symm:ce (not eligible at every size)" in line


def test_many_missing_proofs_are_counted() -> None:
    """Three of four tables are not named one by one; all four need no word."""
    dtypes = ("bf16", "fp16", "fp32", "uint8")

    def line(fallen: tuple[str, ...]) -> str:
        records = [
            make_record("symm", case=make_case(dtype=dtype), verdict="fell_back" if dtype in fallen else "proved")
            for dtype in dtypes
        ]
        return closing_line(_view(records), exit_code=12, directory=OUT)

    assert "without proof: symm (fell back at 16MiB in 3 of 4 tables)" in line(dtypes[:3])
    assert "without proof: symm (fell back at 16MiB) ·" in line(dtypes)


def test_wrong_data_is_counted_apart() -> None:
    """Wrong data is more than a failure."""
    record = make_record("none", status="wrong_result", reason=("wrong_data", "3 wrong"), num_wrong=3)
    assert closing_line(_view([record]), exit_code=5, directory=OUT).startswith(
        "FAILED: 1 of 1 rows (1 with wrong data); nothing to compare"
    )


def test_nothing_ran() -> None:
    """A run of skips only proves nothing and says so."""
    record = make_record("none", status="skipped", reason=("no_gpu", "needs a GPU"))
    line = closing_line(_view([record]), exit_code=12, directory=OUT)
    assert line.startswith("skipped: 1 of 1 rows; nothing to compare · no arm ran, nothing to prove · exit 12")


def test_one_arm_has_nothing_to_compare() -> None:
    """A single arm is a measurement without a verdict."""
    assert closing_line(_view([make_record("none")]), exit_code=0, directory=OUT).startswith("nothing to compare")


def test_many_groups_are_counted() -> None:
    """With more than four sentences to say, cells are counted instead."""
    records = [
        record
        for collective in ("all_gather", "reduce_scatter")
        for dtype in ("bf16", "fp32", "uint8")
        for arm, time in (("none", 100.0), ("symm", 50.0))
        for record in [make_record(arm, case=make_case(collective=collective, dtype=dtype), time_us=time)]
    ]
    assert closing_line(_view(records), exit_code=0, directory=OUT).startswith(
        "CPU demonstration: symm: faster in 6 of 6 cells"
    )
