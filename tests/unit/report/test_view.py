"""The view model: merging, rates, ratios and the reasons for their absence. All expected numbers are worked by hand."""

from collections.abc import Sequence
from typing import Any

import pytest

from gtpbench.record import Record
from gtpbench.report.model import Row, RunView
from gtpbench.report.view import build_view
from tests.unit.report.factory import KIB, MIB, RUN_ID, make_case, make_environment, make_record, make_samples
from tests.unit.report.runs import make_scenario, view_of


def _row(view: RunView, arm: str) -> Row:
    return next(row for row in view.rows if row.arm.name == arm)


def _pair(candidate: dict[str, Any] | None = None, baseline: dict[str, Any] | None = None) -> list[Record]:
    """none at 2000 us and symm at 1000 us, with fields replaced."""
    return [
        make_record("none", **{"time_us": 2000.0, **(baseline or {})}),
        make_record("symm", **{"time_us": 1000.0, **(candidate or {})}),
    ]


def _view(records: Sequence[Record], **scenario: object) -> RunView:
    arms = tuple(dict.fromkeys(record.arm for record in records))
    return build_view(records, {"e0": make_environment()}, scenario=make_scenario("test", arms, **scenario))


def test_rates_of_all_gather() -> None:
    """16 MiB on 2 ranks in 1000 us: algbw 16777216 B / 1000 us = 16.78 GB/s, busbw half of it."""
    timing = _row(view_of("cpu"), "symm").headline
    large = view_of("cpu").rows[-2].headline
    assert timing is not None and large is not None
    assert large.summary.median_us == 1000.0
    assert large.algbw_gb_per_s == pytest.approx(16.777216)
    assert large.busbw_gb_per_s == pytest.approx(8.388608)


def test_rates_of_reduce_scatter_on_eight_ranks() -> None:
    """8 MiB on 8 ranks in 100 us: algbw 83.89 GB/s, busbw 7/8 of it = 73.40 GB/s."""
    case = make_case(collective="reduce_scatter", size_bytes=8 * MIB, num_ranks=8)
    timing = _row(_view([make_record(case=case, time_us=100.0)]), "none").headline
    assert timing is not None
    assert timing.algbw_gb_per_s == pytest.approx(83.88608)
    assert timing.busbw_gb_per_s == pytest.approx(73.40032)


def test_band_comes_from_p10_and_p90() -> None:
    """The low end of busbw belongs to the slow p90, the high end to the fast p10."""
    blocks = [[100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1100.0]]
    timing = _row(_view([make_record(samples={"step.host": make_samples(blocks)})]), "none").headline
    assert timing is not None
    assert (timing.summary.p10_us, timing.summary.median_us, timing.summary.p90_us) == (200.0, 600.0, 1000.0)
    assert timing.busbw_low_gb_per_s == pytest.approx(8.388608)
    assert timing.busbw_high_gb_per_s == pytest.approx(41.94304)


def test_ratio_is_candidate_over_baseline() -> None:
    """1000 us against 2000 us is a ratio of 0.5: faster; the baseline itself has none."""
    view = _view(_pair())
    comparison = _row(view, "symm").comparison
    assert comparison is not None
    assert comparison.ratio == pytest.approx(0.5)
    assert comparison.outcome == "faster"
    assert comparison.within_one_launch
    reason = _row(view, "none").no_ratio
    assert reason is not None and reason.code == "baseline"


@pytest.mark.parametrize(("size_bytes", "margin"), [(MIB - 4, 0.05), (MIB, 0.03)])
def test_margin_by_size(size_bytes: int, margin: float) -> None:
    """Latency cells below 1 MiB take 5 %, bandwidth cells from 1 MiB on 3 %."""
    case = make_case(size_bytes=size_bytes)
    records = [make_record("none", case=case, time_us=100.0), make_record("symm", case=case, time_us=100.0)]
    comparison = _row(_view(records), "symm").comparison
    assert comparison is not None
    assert comparison.margin == margin


def test_absolute_floor_of_half_a_microsecond() -> None:
    """At 5 us the floor of 0.5 us is 10 %, wider than the class margin."""
    case = make_case(size_bytes=64 * KIB)
    records = [make_record("none", case=case, time_us=5.0), make_record("symm", case=case, time_us=4.6)]
    comparison = _row(_view(records), "symm").comparison
    assert comparison is not None
    assert comparison.margin == pytest.approx(0.1)
    assert comparison.outcome == "same"


SHARED = {"origin": "shared_gpu"}
FAILED = {"status": "error", "reason": ("died", "rank 1 died")}
SKIPPED = {"status": "skipped", "reason": ("no_gpu", "needs a GPU")}


@pytest.mark.parametrize(
    ("candidate", "baseline", "code"),
    [
        (SHARED, SHARED, "shared_gpu"),
        (FAILED, {}, "failed"),
        ({"status": "wrong_result", "reason": ("wrong_data", "3 wrong"), "num_wrong": 3}, {}, "failed"),
        (SKIPPED, {}, "skipped"),
        ({"valid_step": False}, {}, "invalid_step"),
        ({}, {"valid_step": False}, "no_baseline"),
        ({"verdict": "not_eligible"}, {}, "not_eligible"),
        ({"verdict": "fell_back"}, {}, "fell_back"),
        ({"test_fault": "slow"}, {}, "test_fault"),
        ({}, {"test_fault": "slow"}, "no_baseline"),
        ({}, FAILED, "no_baseline"),
        ({}, SKIPPED, "no_baseline"),
        ({"formula_version": 99}, {}, "formula_version"),
        ({"launch": 1}, {}, "unpaired"),
        ({"origin": "measured"}, {"origin": "imported"}, "no_baseline"),
        ({"samples": {"step.stream": make_samples(9.0, clock="stream")}}, {}, "unpaired"),
        ({"samples": {"step.host": make_samples(9.0, k=4)}}, {}, "unpaired"),
        ({"execution": None}, {}, "unpaired"),
    ],
)
def test_why_there_is_no_ratio(candidate: dict[str, Any], baseline: dict[str, Any], code: str) -> None:
    """Every rule that withholds a ratio names itself, and no comparison exists."""
    row = _row(_view(_pair(candidate, baseline)), "symm")
    assert row.comparison is None
    assert row.no_ratio is not None and row.no_ratio.code == code
    assert row.no_ratio.text


def test_other_family_is_never_compared() -> None:
    """nccl-tests' conditions are for cross-checks only."""
    row = _row(_view([make_record("none"), make_record("nccltests:0")]), "nccltests:0")
    assert row.no_ratio is not None and row.no_ratio.code == "other_family"


def test_nccl_tests_arms_are_no_baseline_of_others() -> None:
    """Named first, they come after the first arm of the main family, with which the other main arms are compared."""
    arms = ("nccltests:0", "none", "nccltests:2", "symm")
    view = _view([make_record(arm, arms=arms) for arm in arms])
    assert view.arms == ("none", "nccltests:0", "nccltests:2", "symm")
    assert _row(view, "symm").comparison is not None
    codes = {arm: reason.code for arm in arms[::2] if (reason := _row(view, arm).no_ratio)}
    assert codes == {"nccltests:0": "other_family", "nccltests:2": "other_family"}


def test_nccl_tests_arms_alone_are_compared_among_themselves() -> None:
    """-R 2 against -R 0, both under nccl-tests' conditions."""
    arms = ("nccltests:0", "nccltests:2")
    view = _view([make_record(arm, arms=arms) for arm in arms])
    assert view.baseline == "nccltests:0"
    assert _row(view, "nccltests:2").comparison is not None


def test_functional_run_has_no_ratios() -> None:
    """`functional` of the scenario, or --functional of the command where no scenario is known."""
    row = _row(_view(_pair(), functional=True), "symm")
    assert row.no_ratio is not None and row.no_ratio.code == "functional"
    environment = make_environment(command=("gtpbench", "allgather", "--functional"))
    row = _row(build_view(_pair(), {"e0": environment}), "symm")
    assert row.no_ratio is not None and row.no_ratio.code == "functional"


def test_an_unproven_arm_keeps_its_ratio() -> None:
    """Unproven is a doubt that proof column and closing line show; what ran is not known to be another path."""
    assert _row(_view(_pair({"verdict": "unproven"})), "symm").comparison is not None


def test_origins_are_never_compared() -> None:
    """A measured candidate finds no baseline among CPU records, and the two stand in tables of their own."""
    view = _view([make_record("none", time_us=100.0), make_record("symm", time_us=50.0, origin="measured")])
    assert [group.origin for group in view.groups] == ["cpu", "measured"]
    assert all(row.comparison is None for row in view.rows)
    assert view.origins == ("cpu", "measured")


def test_shared_gpu_rows_keep_times_and_lose_rates() -> None:
    """Times and paths are shown, rates and ratios are not."""
    for row in view_of("shared_gpu").rows:
        assert row.headline is not None
        assert row.headline.algbw_gb_per_s is row.headline.busbw_gb_per_s is None
        assert row.headline.busbw_low_gb_per_s is row.headline.busbw_high_gb_per_s is None
        assert row.comparison is None


def test_launches_are_merged() -> None:
    """Three launches of a cell are one row over all their samples; one that failed decides the status, not the time."""
    records = [
        make_record("none", time_us=100.0, launch=0),
        make_record("none", time_us=300.0, launch=1),
        make_record("none", launch=2, status="timeout", reason=("stage_timeout", "rank 1 hung")),
    ]
    view = _view(records)
    (row,) = view.rows
    assert (row.status, row.num_launches, row.num_ok_launches) == ("timeout", 3, 2)
    assert row.reason is not None and row.reason.code == "stage_timeout"
    assert row.headline is not None and row.headline.summary.median_us == 200.0
    assert row.headline.summary.num_samples == 400
    assert [note.code for note in row.notes] == ["partial_launches"]
    assert (view.num_launches, view.num_all_launches) == (2, 3)


def test_wrong_data_is_the_worst_status() -> None:
    """One launch with wrong data outweighs a timeout and any number of good ones; wrong elements are added up."""
    records = [
        make_record("none", launch=0),
        make_record("none", launch=1, status="wrong_result", reason=("wrong_data", "w"), num_wrong=3),
        make_record("none", launch=2, status="wrong_result", reason=("wrong_data", "w"), num_wrong=4),
        make_record("none", launch=3, status="timeout", reason=("t", "t")),
    ]
    (row,) = _view(records).rows
    assert row.status == "wrong_result"
    assert row.num_wrong == 7


def test_worst_proof_and_both_paths() -> None:
    """A launch that fell back makes the row fall back; paths of all launches are named."""
    records = [
        make_record("symm", launch=0, origin="measured", path="symm_lsa", ctas=16),
        make_record("symm", launch=1, origin="measured", path="ring", verdict="fell_back", ctas=24),
    ]
    (row,) = _view(records).rows
    assert (row.proof, row.path, row.ctas) == ("fell_back", "symm_lsa + ring", 24)


def test_clocks_side_by_side() -> None:
    """The graph clock is the headline, the stream clock stands beside it, each with its own comparison."""

    def both(base_us: float) -> dict[str, Any]:
        stream = make_samples(base_us + 50.0, clock="stream")
        return {"step.stream": stream, "step.graph": make_samples(base_us, clock="graph", k=8)}

    records = [make_record("none", samples=both(200.0)), make_record("symm", samples=both(100.0))]
    view = _view(records)
    row = _row(view, "symm")
    assert view.groups[0].clocks == ("graph", "stream")
    assert [timing.clock for timing in row.timings] == ["graph", "stream"]
    ratios = [timing.comparison.ratio for timing in row.timings if timing.comparison]
    assert ratios == pytest.approx([0.5, 150.0 / 250.0])


def test_arms_without_scenario_start_with_set_zero() -> None:
    """Skipped records come first in a file; the baseline is still the arm that planning put into set 0."""
    records = [
        make_record("symm:nvls", status="skipped", reason=("no_cpu_counterpart", "x"), arms=("symm", "none")),
        make_record("none", arms=("symm", "none")),
        make_record("symm", arms=("symm", "none")),
    ]
    assert build_view(records, {}).arms == ("symm", "symm:nvls", "none")
    assert build_view(records, {}).name == RUN_ID


def test_arms_without_scenario_and_without_set_zero() -> None:
    """Where set 0 never ran, the baseline is the arm that did not run, so that nothing is compared with another."""
    records = [
        make_record("symm", status="skipped", reason=("no_gpu", "x")),
        make_record("none", arms=("symm", "none")),
    ]
    view = build_view(records, {})
    assert view.arms == ("symm", "none")
    assert _row(view, "none").comparison is None


def test_outcomes_are_corrected_over_the_run() -> None:
    """Adjusted p values are filled in for every cell, over all cells of one clock."""
    compared = [row.comparison for row in view_of("cpu").rows if row.comparison]
    assert len(compared) == 3
    # 10 pairs give p = 2^-10 in two of the three cells: Benjamini-Hochberg makes it 3/2 of that.
    assert compared[1].adjusted_p_faster == pytest.approx(1.5 / 1024)


def test_rows_are_ordered_by_size_then_arm() -> None:
    """Whatever order the records come in."""
    records = [
        make_record(arm, case=make_case(size_bytes=size)) for size in (MIB, 64 * KIB) for arm in ("symm", "none")
    ]
    view = build_view(records, {}, scenario=make_scenario("test", ("none", "symm")))
    assert [(row.case.size_bytes, row.arm.name) for row in view.rows] == [
        (64 * KIB, "none"),
        (64 * KIB, "symm"),
        (MIB, "none"),
        (MIB, "symm"),
    ]


def test_record_order_does_not_matter() -> None:
    """The same records in another order give an equal view."""
    records = _pair()
    scenario = make_scenario("test", ("none", "symm"))
    assert build_view(records, {}, scenario=scenario) == build_view(records[::-1], {}, scenario=scenario)
