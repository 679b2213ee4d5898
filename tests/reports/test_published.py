"""The published reports: they render again byte for byte, stay small, and say what they are published for."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gtpbench.launch.outcome import record_code
from gtpbench.record.lines import RESULTS, read_records
from gtpbench.record.model import Record
from gtpbench.report.markdown import render_markdown
from gtpbench.report.render import read_view
from gtpbench.stats.summary import summarise

REPORTS = Path(__file__).parents[2] / "reports"
FOLDERS = sorted(path.parent for path in REPORTS.glob(f"*/{RESULTS}"))
NCCL_TESTS = Path(__file__).parents[1] / "data" / "nccl-tests"
MIB = 2**20
KIB = 2**10

every_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def _stop(text: str) -> None:
    raise AssertionError(text)


@cache
def records(name: str) -> list[Record]:
    """The records of the one report whose name starts so."""
    (folder,) = [folder for folder in FOLDERS if folder.name.startswith(name)]
    return read_records(folder / RESULTS, warn=_stop)


def test_there_are_reports() -> None:
    """The figures that the README speaks of are published."""
    names = {folder.name.split("_")[0] for folder in FOLDERS}
    controls = {"nccl-controls-plain", "nccl-controls-win-enable-0", "nccl-controls-sym-kernel-none"}
    assert names >= {"nccl-shared-gpu-2ranks", "nccl-shared-gpu-4ranks", "nccl-tests-conditions"} | controls


@every_folder
def test_report_renders_again(folder: Path) -> None:
    """report.md is what the results say, byte for byte."""
    assert (folder / "report.md").read_text(encoding="utf-8") == render_markdown(read_view(folder, warn=_stop))


@every_folder
def test_report_is_small_and_names_its_origin(folder: Path) -> None:
    """Under 1.5 MiB, with the exact command, the version and the commit."""
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 1.5 * MIB
    environments = [json.loads(line) for line in (folder / "environments.jsonl").read_text().splitlines()]
    assert environments
    for environment in environments:
        assert environment["command"][0] == "gtpbench"
        assert environment["tool_version"]
        assert environment["commit"]


def test_all_reports_together_are_small() -> None:
    """Under 10 MiB."""
    assert sum(path.stat().st_size for path in REPORTS.rglob("*") if path.is_file()) <= 10 * MIB


@every_folder
def test_shared_gpus_give_no_ratios_and_no_rates(folder: Path) -> None:
    """Two ranks on one memory say nothing about two GPUs."""
    view = read_view(folder, warn=_stop)
    if "shared_gpu" not in view.origins:
        return
    for row in view.rows:
        for timing in row.timings:
            assert timing.comparison is None
            assert timing.algbw_gb_per_s is None
            assert timing.busbw_gb_per_s is None
    text = (folder / "report.md").read_text(encoding="utf-8")
    for word in ("faster", "slower", "GB/s"):
        assert word not in text


# The kernel table of the observations on this GPU, bf16, 2 and 4 ranks: size -> algorithm, None for the ring.
SIZES = (64 * KIB, 4 * MIB, 64 * MIB)
KERNELS: dict[tuple[str, str], tuple[str | None, ...]] = {
    ("all_gather", "none"): (None, None, None),
    ("reduce_scatter", "none"): (None, None, None),
    ("all_gather", "symm"): ("LL", "ST", "ST"),
    ("reduce_scatter", "symm"): ("LL", "LD", "LD"),
    ("all_gather", "symm:recv"): ("LL", "ST", "ST"),
    ("reduce_scatter", "symm:recv"): ("LL", None, None),
    ("all_gather", "symm:send"): ("LL", None, None),
    ("reduce_scatter", "symm:send"): ("LL", "LD", "LD"),
}


def _kernel_cells() -> Iterator[Any]:
    for report in ("nccl-shared-gpu-2ranks", "nccl-shared-gpu-4ranks"):
        for (collective, arm), algorithms in KERNELS.items():
            for size, algorithm in zip(SIZES, algorithms, strict=True):
                yield pytest.param(report, collective, arm, size, algorithm, id=f"{report}-{collective}-{arm}-{size}")


@pytest.mark.parametrize(("report", "collective", "arm", "size", "algorithm"), list(_kernel_cells()))
def test_the_kernel_table(report: str, collective: str, arm: str, size: int, algorithm: str | None) -> None:
    """Each row is proved on both clocks where NCCL takes the window, and `not_eligible` where its rule forbids."""
    one_sided = arm in {"symm:send", "symm:recv"}
    found = [
        record
        for record in records(report)
        if (record.case.collective, record.arm, record.case.size_bytes) == (collective, arm, size)
        and record.case.dtype == "bf16"
        # In place both sides are one buffer: there is nothing one-sided.
        and (record.case.placement == "out_of_place" or not one_sided)
    ]
    assert found
    for record in found:
        assert record.proof is not None
        assert {item.clock for item in record.proof.items} == {"graph", "stream"}
        for item in record.proof.items:
            if algorithm is None:
                assert item.verdict == ("not_eligible" if one_sided else "proved")
                assert item.path == "ring"
            else:
                assert (item.verdict, item.path, item.algorithm) == ("proved", "symm_lsa", algorithm)


@pytest.mark.parametrize("report", ["nccl-shared-gpu-2ranks", "nccl-shared-gpu-4ranks"])
def test_copy_engines_gather_without_a_kernel(report: str) -> None:
    """Under CTA policy ZERO the all-gather is copies alone; there is no such reduce-scatter."""
    for record in records(report):
        if record.arm != "symm:ce":
            continue
        if record.case.collective == "reduce_scatter":
            assert record.status == "skipped"
            assert record.reason is not None
            assert record.reason.code == "copy_engine_reduction"
            continue
        assert record.proof is not None
        assert (record.proof.verdict, record.proof.path) == ("proved", "copy_engine")
        assert all(row.kind != "kernel" for evidence in record.proof.evidence for row in evidence.kernels)


def test_every_rank_shows_every_call() -> None:
    """On the graph clock the k captured operations are k kernels, on each rank."""
    for record in records("nccl-shared-gpu-2ranks"):
        if record.status != "ok" or record.arm == "symm:ce":
            continue
        assert record.proof is not None
        graphs = [evidence for evidence in record.proof.evidence if evidence.source == "graph_nodes"]
        assert {evidence.rank for evidence in graphs} == {0, 1}
        for evidence in graphs:
            assert evidence.calls == record.samples["step.graph"].k
            assert sum(row.count for row in evidence.kernels if row.kind == "kernel") == evidence.calls


def test_multicast_arms_are_skipped_for_the_right_reason() -> None:
    """NCCL_NVLS_ENABLE=0 was exported, and that is what the records say."""
    skipped = [record for record in records("nccl-shared-gpu-2ranks") if record.arm in {"symm:nvls", "nvls"}]
    assert skipped
    assert {record.reason.code for record in skipped if record.reason} == {"multicast_off"}


@pytest.mark.parametrize("control", ["nccl-controls-win-enable-0", "nccl-controls-sym-kernel-none"])
def test_negative_controls_turn_the_verdict(control: str) -> None:
    """What is proved without the switch falls back with it, the baseline stays proved, and the run is not 0."""
    before = {(record.case_id, record.arm): record for record in records("nccl-controls-plain")}
    after = {(record.case_id, record.arm): record for record in records(control)}
    assert before.keys() == after.keys()
    for key, record in after.items():
        assert record.proof is not None
        assert before[key].proof.verdict == "proved"  # type: ignore[union-attr]
        assert record.proof.verdict == ("fell_back" if record.arm == "symm" else "proved")
        assert record.proof.path == "ring"
        assert int(record_code(record, allow_skip=False)) == (12 if record.arm == "symm" else 0)


def test_results_were_right_everywhere() -> None:
    """Every timed buffer was checked, and none was wrong."""
    for folder in FOLDERS:
        for record in read_records(folder / RESULTS, warn=_stop):
            assert record.status in {"ok", "skipped"}
            if record.verification is not None:
                assert record.verification.num_wrong == 0
                assert record.verification.num_checked > 0


def test_symmetric_reductions_round_once() -> None:
    """The ring rounds 16-bit sums at every hop, the symmetric kernels once at the end: with 4 ranks that shows."""
    by_arm: dict[tuple[str, int, str], float] = {}
    for record in records("nccl-shared-gpu-4ranks"):
        if record.case.collective == "reduce_scatter" and record.status == "ok":
            assert record.verification is not None
            by_arm[record.case.dtype, record.case.size_bytes, record.arm] = record.verification.rms_error
    for dtype in ("bf16", "fp16"):
        for size in SIZES:
            assert 0 < by_arm[dtype, size, "symm"] < by_arm[dtype, size, "none"]


def nccl_tests_times(collective: str, arm: str) -> Iterator[tuple[int, str, float]]:
    """(size, placement, us) of nccl-tests' own run on the same kind of machine."""
    name = f"{collective}_R{arm.split(':')[1]}.json"
    for row in json.loads((NCCL_TESTS / name).read_text(encoding="utf-8"))["results"]:
        for placement in ("out_of_place", "in_place"):
            yield row["size"], placement, row[placement]["time"]


@pytest.mark.parametrize(
    ("collective", "arm"),
    [("all_gather", "nccltests:0"), ("all_gather", "nccltests:2"), ("reduce_scatter", "nccltests:0")],
)
def test_the_clock_agrees_with_nccl_tests(collective: str, arm: str) -> None:
    """Within 15 % below 1 MiB and 10 % from there to 16 MiB, of a run on another boot of the same kind of machine."""
    ours = {
        (record.case.size_bytes, record.case.placement): summarise([record.samples["step.graph"]]).mean_us
        for record in records("nccl-tests-conditions")
        if record.case.collective == collective and record.arm == arm
    }
    for size, placement, theirs in nccl_tests_times(collective, arm):
        if size <= 16 * MIB:
            assert ours[size, placement] == pytest.approx(theirs, rel=0.15 if size < MIB else 0.10)
