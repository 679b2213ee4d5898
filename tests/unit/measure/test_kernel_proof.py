"""Proof of path by kernel rows: the table observed on an H200, the arms, and logs that agree or contradict."""

from collections.abc import Mapping
from typing import Any

import pytest

from gtpbench.errors import UsageError
from gtpbench.record.model import Clock, KernelRow, RankEvidence
from tests.unit.measure.kernels import (
    AG,
    AG_RING,
    COPY,
    COPY_LINE,
    KIB,
    LEGACY_ROW,
    MIB,
    REGISTER_LINE,
    RS,
    RS_RING,
    SYMMETRIC_LINE,
    SYMMETRIC_ROW,
    K,
    copies,
    every_rank,
    kernel,
    legacy_line,
    make_case,
    mangled,
    only,
    prove,
    rank,
    tuning,
)

SIZES = {"64K": 64 * KIB, "4M": 4 * MIB, "64M": 64 * MIB}
PROVED, KEPT = "proved", "not_eligible"
TABLE: Mapping[tuple[str, str], Mapping[str, tuple[str, str, str]]] = {
    ("none", "all_gather"): dict.fromkeys(SIZES, (AG_RING, PROVED, "ring")),
    ("none", "reduce_scatter"): dict.fromkeys(SIZES, (RS_RING, PROVED, "ring")),
    ("symm", "all_gather"): {
        "64K": (AG.format("LL"), PROVED, "symm_lsa"),
        "4M": (AG.format("ST"), PROVED, "symm_lsa"),
        "64M": (AG.format("ST"), PROVED, "symm_lsa"),
    },
    ("symm", "reduce_scatter"): {
        "64K": (RS.format("LL"), PROVED, "symm_lsa"),
        "4M": (RS.format("LD"), PROVED, "symm_lsa"),
        "64M": (RS.format("LD"), PROVED, "symm_lsa"),
    },
    ("symm:recv", "all_gather"): {
        "64K": (AG.format("LL"), PROVED, "symm_lsa"),
        "4M": (AG.format("ST"), PROVED, "symm_lsa"),
        "64M": (AG.format("ST"), PROVED, "symm_lsa"),
    },
    ("symm:recv", "reduce_scatter"): {
        "64K": (RS.format("LL"), PROVED, "symm_lsa"),
        "4M": (RS_RING, KEPT, "ring"),
        "64M": (RS_RING, KEPT, "ring"),
    },
    ("symm:send", "all_gather"): {
        "64K": (AG.format("LL"), PROVED, "symm_lsa"),
        "4M": (AG_RING, KEPT, "ring"),
        "64M": (AG_RING, KEPT, "ring"),
    },
    ("symm:send", "reduce_scatter"): {
        "64K": (RS.format("LL"), PROVED, "symm_lsa"),
        "4M": (RS.format("LD"), PROVED, "symm_lsa"),
        "64M": (RS.format("LD"), PROVED, "symm_lsa"),
    },
    ("symm:ce", "all_gather"): dict.fromkeys(SIZES, (COPY, PROVED, "copy_engine")),
    ("symm:ce", "reduce_scatter"): {
        "64K": (RS.format("LL"), KEPT, "symm_lsa"),
        "4M": (RS.format("LD"), KEPT, "symm_lsa"),
        "64M": (RS.format("LD"), KEPT, "symm_lsa"),
    },
}
"""(arm, collective) -> size -> the kernel that was seen on one H200 with 2 and 4 ranks, NCCL 2.30.7."""


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("clock", ["graph", "stream"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("arm", "collective"), TABLE)
def test_the_kernels_seen_on_an_h200(arm: str, collective: Any, size: str, clock: Clock, num_ranks: int) -> None:
    """Every cell of the table, from graph nodes and from CUPTI, with the TUNING line where a legacy kernel ran."""
    name, verdict, path = TABLE[arm, collective][size]
    case = make_case(collective, SIZES[size], num_ranks=num_ranks)
    if name == COPY:
        rows = [copies(4 * K), KernelRow(name="batch_mem_op", kind="batch_mem_op", grid=None, count=2 * K)]
        rows = rows if clock == "graph" else [copies(K * (num_ranks - 1), name=COPY)]
    else:
        arguments = "ncclSymkDevWorkArgs4K" if "Symk" in name else "ncclDevKernelArgsStorage<4096ul>"
        rows = [kernel(mangled(name) if clock == "graph" else f"{name}({arguments})")]
    protocol = "LL" if size == "64K" else "SIMPLE"
    line = legacy_line(collective, SIZES[size] // num_ranks, protocol=protocol)
    evidence = every_rank(*rows, clock=clock, num_ranks=num_ranks)
    item = only(prove(arm, [*evidence, *([tuning(line)] if path == "ring" else [])], case=case))
    assert (verdict, path, clock) == (item.verdict, item.path, item.clock)
    assert ("collective", collective, SIZES[size]) == (item.role, item.collective, item.size_bytes)
    assert (None if name == COPY else 9) == item.ctas
    if path == "symm_lsa":
        assert name.split("_")[2] == item.algorithm
    elif path == "ring":
        assert ("RING", protocol) == (item.algorithm, item.protocol)
    if verdict == KEPT:
        assert "NCCL 2.30.7: " in item.statement


def test_the_statement_is_the_evidence() -> None:
    """Calls, ranks, name, CTAs, source; for a legacy kernel what tells its path, and from where."""
    item = only(prove("symm", every_rank(kernel(mangled(AG.format("ST"))))))
    assert "64 of 64 calls on each of 2 ranks: ncclSymkDevKernel_AllGather_ST, 9 CTAs (graph nodes)" == item.statement
    rows = every_rank(kernel(AG_RING, grid=64), clock="stream")
    item = only(prove("none", [*rows, tuning(legacy_line("all_gather", 2 * MIB))]))
    assert (
        "64 of 64 calls on each of 2 ranks: ncclDevKernel_AllGather_RING_LL, 64 CTAs (CUPTI); "
        "TUNING of another launch: RING SIMPLE, 64 channels"
    ) == item.statement
    assert (64, "RING", "SIMPLE") == (item.ctas, item.algorithm, item.protocol)
    item = only(prove("symm:ce", every_rank(copies(4 * K))))
    assert "64 calls on each of 2 ranks: no kernel, 4 copies a call (graph nodes)" == item.statement


def test_one_item_for_each_clock_and_the_worst_decides() -> None:
    """Symmetric in the graph, legacy on the stream."""
    evidence = [
        *every_rank(kernel(mangled(AG.format("ST")))),
        *every_rank(kernel(AG_RING), clock="stream"),
    ]
    proof = prove("symm", evidence)
    assert [("graph", "proved"), ("stream", "fell_back")] == [(item.clock, item.verdict) for item in proof.items]
    assert ("fell_back", "unknown") == (proof.verdict, proof.path)
    assert tuple(evidence) == proof.evidence
    first = prove("symm", [*evidence[2:], *evidence[:2]])
    assert (["stream", "graph"], "fell_back") == ([item.clock for item in first.items], first.verdict)


def test_verdicts_from_best_to_worst() -> None:
    """`unproven` is worse than `not_eligible`, `fell_back` worse than both."""
    kept = every_rank(kernel(AG_RING))
    nothing = every_rank(clock="stream")
    assert "unproven" == prove("symm:send", [*kept, *nothing]).verdict
    fell = every_rank(kernel(AG_RING), clock="stream")
    assert "fell_back" == prove("symm", [*every_rank(), *fell]).verdict


@pytest.mark.parametrize("arm", ["none", "registered", "nccltests:0"])
@pytest.mark.parametrize(
    ("algorithm", "path"), [("RING", "ring"), ("TREE", "tree"), ("PAT", "pat"), ("NVLS", "nvls"), ("NVLS_TREE", "nvls")]
)
def test_the_path_of_a_legacy_kernel_comes_from_the_log(arm: str, algorithm: str, path: str) -> None:
    """Which names it."""
    log = tuning(legacy_line("all_gather", 2 * MIB, algorithm))
    item = only(prove(arm, [*every_rank(kernel(AG_RING)), log]))
    assert ("proved", path, algorithm) == (item.verdict, item.path, item.algorithm)


@pytest.mark.parametrize("arm", ["none", "registered", "nccltests:0"])
def test_a_legacy_kernel_without_a_log(arm: str) -> None:
    """It ran, on a path that its name does not tell."""
    item = only(prove(arm, every_rank(kernel(AG_RING)), version=None))
    assert ("proved", "unknown", None, None) == (item.verdict, item.path, item.algorithm, item.protocol)
    assert "ring, NVLS and PAT share this name; no TUNING log" in item.statement


def test_lines_of_other_calls_are_no_lines_of_this_one() -> None:
    """Another function, the total in place of the share; and a log that could not be read."""
    lines = [legacy_line("reduce_scatter", 2 * MIB), legacy_line("all_gather", 4 * MIB)]
    item = only(prove("none", [*every_rank(kernel(AG_RING)), tuning(*lines)]))
    assert ("proved", "unknown") == (item.verdict, item.path)
    assert item.statement.endswith("no TUNING line for this size")
    failed = RankEvidence(rank=0, source="tuning_log", error="no file")
    assert "no TUNING log" in only(prove("none", [*every_rank(kernel(AG_RING)), failed])).statement


def test_a_log_of_two_minds() -> None:
    """Ring and NVLS for one size: the path is not known; two protocols of the ring: the path is."""
    two = tuning(*(legacy_line("all_gather", 2 * MIB, name) for name in ("RING", "NVLS")))
    item = only(prove("none", [*every_rank(kernel(AG_RING)), two]))
    assert ("proved", "unknown") == (item.verdict, item.path)
    assert "RING SIMPLE, 64 channels and NVLS SIMPLE, 64 channels" in item.statement
    two = tuning(*(legacy_line("all_gather", 2 * MIB, protocol=name) for name in ("LL128", "SIMPLE")))
    item = only(prove("none", [*every_rank(kernel(AG_RING)), two]))
    assert ("ring", "RING", None) == (item.path, item.algorithm, item.protocol)


def test_a_baseline_with_registered_buffers() -> None:
    """Contradicts `none`; nccl-tests' conditions and plain registration do not mind."""
    log = tuning(REGISTER_LINE, legacy_line("all_gather", 2 * MIB))
    evidence = [*every_rank(kernel(AG_RING)), log]
    item = only(prove("none", evidence))
    assert ("unproven", "unknown") == (item.verdict, item.path)
    assert "buffers were registered there (1 times)" in item.statement
    window = tuning("NCCL INFO Inserted window 0x7f0010 into address map, ret=0")
    assert "unproven" == prove("none", [*every_rank(kernel(AG_RING)), window]).verdict
    assert ["proved", "proved"] == [prove(arm, evidence).verdict for arm in ("registered", "nccltests:0")]


@pytest.mark.parametrize("arm", ["none", "registered", "nvls", "nccltests:0"])
def test_a_contaminated_baseline(arm: str) -> None:
    """A symmetric kernel where no window was asked for."""
    item = only(prove(arm, every_rank(kernel(AG.format("LL")))))
    assert ("fell_back", "symm_lsa") == (item.verdict, item.path)
    assert f"{arm} asks for no window, a symmetric kernel ran" in item.statement


def test_plain_registration_that_registered_nothing() -> None:
    """Counted by the rank."""
    evidence = [
        rank(0, kernel(AG_RING), counters={"registered": 2}),
        rank(1, kernel(AG_RING), counters={"registered": 0}),
    ]
    item = only(prove("registered", evidence))
    assert ("unproven", True) == (item.verdict, "no buffer is registered on rank 1" in item.statement)
    assert "proved" == prove("none", evidence).verdict


@pytest.mark.parametrize("arm", ["symm", "symm:nvls", "symm:nonvls", "nccltests:2"])
@pytest.mark.parametrize(("collective", "name"), [("all_gather", AG_RING), ("reduce_scatter", RS_RING)])
@pytest.mark.parametrize("version", ["2.27.7", "2.28.9", "2.29.7", "2.30.7", "2.30.7+cuda13.3", None])
def test_windows_that_did_not_act(arm: str, collective: Any, name: str, version: str | None) -> None:
    """The negative control: with both sides in windows no rule keeps a 4 MiB call on a legacy kernel."""
    item = only(prove(arm, every_rank(kernel(name)), case=make_case(collective), version=version))
    assert ("fell_back", "unknown", 9) == (item.verdict, item.path, item.ctas)
    assert "a window was asked for, a legacy kernel ran" in item.statement


def test_null_windows_are_named() -> None:
    """They explain the fall-back, and no rule excuses them."""
    evidence = [
        rank(0, kernel(AG_RING), counters={"windows": 2, "null_windows": 0}),
        rank(1, kernel(AG_RING), counters={"windows": 2, "null_windows": 2}),
    ]
    item = only(prove("symm", evidence))
    assert ("fell_back", True) == (item.verdict, item.statement.endswith("NULL windows on rank 1: 2"))
    assert "fell_back" == prove("symm:send", evidence).verdict
    assert "fell_back" == prove("symm:ce", evidence).verdict


@pytest.mark.parametrize(
    ("arm", "algorithm", "verdict", "path"),
    [
        ("symm", "ST", "proved", "symm_lsa"),
        ("symm", "STMC", "proved", "symm_multicast"),
        ("symm", "RailRing_LsaSTMC", "proved", "symm_rail"),
        ("symm:nvls", "STMC", "proved", "symm_multicast"),
        ("symm:nvls", "LLMC", "proved", "symm_multicast"),
        ("symm:nvls", "TmaSTMC", "proved", "symm_multicast"),
        ("symm:nvls", "RailRing_LsaSTMC", "proved", "symm_rail"),
        ("symm:nvls", "ST", "fell_back", "symm_lsa"),
        ("symm:nvls", "LL", "fell_back", "symm_lsa"),
        ("symm:nonvls", "ST", "proved", "symm_lsa"),
        ("symm:nonvls", "LL", "proved", "symm_lsa"),
        ("symm:nonvls", "STMC", "fell_back", "symm_multicast"),
        ("symm:nonvls", "LLMC", "fell_back", "symm_multicast"),
        ("nccltests:2", "STMC", "proved", "symm_multicast"),
    ],
)
def test_multicast_asked_for_and_off(arm: str, algorithm: str, verdict: str, path: str) -> None:
    """On eight ranks, where nothing rules it out."""
    case = make_case(num_ranks=8)
    item = only(prove(arm, every_rank(kernel(AG.format(algorithm)), num_ranks=8), case=case))
    assert (verdict, path, algorithm) == (item.verdict, item.path, item.algorithm)


@pytest.mark.parametrize(
    ("algorithm", "verdict", "path"),
    [
        ("NVLS", "proved", "nvls"),
        ("NVLS_TREE", "proved", "nvls"),
        ("RING", "fell_back", "ring"),
        (None, "unproven", "unknown"),
    ],
)
def test_legacy_nvls(algorithm: str | None, verdict: str, path: str) -> None:
    """Only the log can tell it from a ring."""
    log = [tuning(legacy_line("all_gather", 2 * MIB, algorithm))] if algorithm else []
    item = only(prove("nvls", [*every_rank(kernel(AG_RING)), *log]))
    assert (verdict, path) == (item.verdict, item.path)


@pytest.mark.parametrize(
    ("arm", "row", "line", "words"),
    [
        ("symm", LEGACY_ROW, SYMMETRIC_LINE.format("AllGather", 2 * MIB, "AllGather_ST"), "ST symmetric, 9 channels"),
        ("symm", SYMMETRIC_ROW, legacy_line("all_gather", 2 * MIB), "RING SIMPLE, 64 channels"),
        ("none", LEGACY_ROW, SYMMETRIC_LINE.format("AllGather", 2 * MIB, "AllGather_LL"), "LL symmetric, 9 channels"),
        ("symm:ce", copies(K), SYMMETRIC_LINE.format("AllGather", 2 * MIB, "AllGather_ST"), "ST symmetric"),
        ("symm", SYMMETRIC_ROW, COPY_LINE.format(2 * MIB), "copy engine"),
    ],
)
def test_rows_and_log_that_contradict_each_other(arm: str, row: KernelRow, line: str, words: str) -> None:
    """Prove nothing; both are printed."""
    item = only(prove(arm, [*every_rank(row), tuning(line)]))
    assert ("unproven", "unknown") == (item.verdict, item.path)
    assert "on each of 2 ranks: " in item.statement
    assert f"TUNING of another launch contradicts it: {words}" in item.statement


def test_rows_and_log_that_agree() -> None:
    """Symmetric kernels and copies."""
    line = SYMMETRIC_LINE.format("AllGather", 2 * MIB, "AllGather_ST")
    assert "proved" == prove("symm", [*every_rank(SYMMETRIC_ROW), tuning(line, REGISTER_LINE)]).verdict
    assert "proved" == prove("symm:ce", [*every_rank(copies(K)), tuning(COPY_LINE.format(2 * MIB))]).verdict


@pytest.mark.parametrize("rows", [(), (copies(K),), (LEGACY_ROW,)])
def test_one_rank(rows: tuple[KernelRow, ...]) -> None:
    """Has nobody to send to."""
    for arm in ("none", "symm", "symm:ce"):
        item = only(prove(arm, every_rank(*rows, num_ranks=1), case=make_case(num_ranks=1)))
        assert ("unproven", "unknown") == (item.verdict, item.path)
        assert "one rank communicates with nobody" in item.statement


def test_a_version_that_is_none() -> None:
    """Is refused."""
    with pytest.raises(UsageError, match="is not a version"):
        prove("symm", every_rank(SYMMETRIC_ROW), version="unknown")
