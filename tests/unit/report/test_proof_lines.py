"""The evidence of paths, folded into lines, and the reasons of rows without proof."""

import dataclasses
from collections.abc import Sequence

from gtpbench.record.model import Clock, ProofVerdict
from gtpbench.report.details import KernelUse, PathProof, Seen
from gtpbench.report.model import Group
from gtpbench.report.proof_lines import doubts, path_lines
from tests.unit.report.factory import KIB, MIB
from tests.unit.report.runs import view_of

NAME = "ncclSymkDevKernel_AllGather_ST"
ST = KernelUse(name=NAME, kind="kernel", ctas=9, count=64)


def _group(proofs: dict[int, Sequence[PathProof]]) -> Group:
    """The shared GPU's table with these proofs by size, the rows of arm symm alone."""
    (group,) = view_of("shared_gpu").groups
    rows = [row for row in group.rows if row.arm.name == "symm"]
    return dataclasses.replace(
        group, rows=tuple(dataclasses.replace(row, proofs=tuple(proofs[row.case.size_bytes])) for row in rows)
    )


def _proof(
    *seen: Seen,
    clock: Clock | None = "graph",
    verdict: ProofVerdict = "proved",
    statement: str = "seen",
    launches: tuple[int, ...] = (0,),
    log: tuple[str, ...] = (),
) -> PathProof:
    return PathProof(
        clock=clock,
        verdict=verdict,
        path="symm_lsa",
        algorithm="ST",
        protocol=None,
        ctas=9,
        legacy=False,
        statement=statement,
        seen=seen,
        log=log,
        launches=launches,
    )


def _seen(
    *kernels: KernelUse,
    calls: int | None = 64,
    ranks: tuple[int, ...] = (0, 1),
    source: str = "graph_nodes",
    error: str | None = None,
) -> Seen:
    return Seen(source=source, ranks=ranks, calls=calls, kernels=kernels or (ST,), error=error)


def test_sizes_and_clocks_are_folded() -> None:
    """Two clocks that saw the same kernel at both sizes are one line; calls are by clock, then over sizes."""
    both = {
        size: [_proof(_seen(dataclasses.replace(ST, count=k), calls=k)), _proof(_seen(source="cupti"), clock="stream")]
        for size, k in ((64 * KIB, 256), (MIB, 32))
    }
    (line,) = path_lines(_group(both))
    assert (line.arm, line.sizes, line.clocks) == ("symm", "every size", "graph, stream")
    assert (line.path, line.kernel, line.ctas) == ("symm_lsa ST", NAME, "9")
    assert (line.calls, line.ranks, line.source) == ("32 to 256 / 64", "2", "graph nodes, CUPTI")


def test_a_clock_that_is_missing_at_one_size_is_not_folded_in() -> None:
    """The stream was timed at 64 KiB alone: a line for each size, not one that claims both."""
    stream = _proof(_seen(source="cupti"), clock="stream")
    lines = path_lines(_group({64 * KIB: [_proof(_seen()), stream], MIB: [_proof(_seen())]}))
    assert [(line.sizes, line.clocks) for line in lines] == [("64KiB", "graph, stream"), ("1MiB", "graph")]


def test_ranks_that_disagree_are_named() -> None:
    """Each view with the ranks that had it."""
    other = KernelUse(name="ncclDevKernel_AllGather_RING_LL", kind="kernel", ctas=24, count=64)
    disagreeing = [_proof(_seen(ranks=(0,)), _seen(other, ranks=(1,)), verdict="unproven")]
    lines = path_lines(_group({64 * KIB: disagreeing, MIB: [_proof(_seen())]}))
    assert [(line.kernel, line.ctas, line.ranks) for line in lines] == [
        (NAME, "9", "rank 0 of 2"),
        ("ncclDevKernel_AllGather_RING_LL", "24", "rank 1 of 2"),
        (NAME, "9", "2"),
    ]


def test_several_kernels_of_a_call() -> None:
    """`×n` where each call has n; a number that the calls do not divide is told as it is; none at all is said."""
    copies = KernelUse(name="memcpy", kind="memcpy", ctas=None, count=128)
    odd = dataclasses.replace(ST, count=65)
    nothing = dataclasses.replace(_seen(), kernels=())
    (both,) = path_lines(_group({64 * KIB: [_proof(_seen(copies, odd))], MIB: []}))
    (none,) = path_lines(_group({64 * KIB: [_proof(nothing)], MIB: []}))
    assert both.kernel == f"memcpy ×2 + {NAME} 65 times"
    assert (none.kernel, none.ctas) == ("none", "–")


def test_launches_that_differ_are_named() -> None:
    """Where one clock has several proofs, each says its launches."""
    other = _proof(_seen(dataclasses.replace(ST, ctas=16)), launches=(1,))
    lines = path_lines(_group({64 * KIB: [_proof(_seen(), launches=(0, 2)), other], MIB: []}))
    assert [(line.clocks, line.ctas) for line in lines] == [("graph, launch 0, 2", "9"), ("graph, launch 1", "16")]


def test_a_log_of_another_launch_is_marked() -> None:
    """It was not seen in the timed object."""
    (line,) = path_lines(_group({64 * KIB: [_proof(_seen(), log=("Algo RING",))], MIB: []}))
    assert line.source == "graph nodes, TUNING of another launch"


def test_ranks_that_could_not_look_have_no_line() -> None:
    """Neither have sources without calls, as the interfaces' counters; what they say is in the statement."""
    blind = _seen(calls=None, error="no CUPTI")
    counted = _seen(calls=None, source="interface_bytes")
    assert path_lines(_group({64 * KIB: [_proof(blind)], MIB: [_proof(counted)]})) == []


def test_doubts_with_one_reason_are_folded() -> None:
    """Statements that differ in what was seen and share the reason: kernels, then the shared end; proved ones none."""
    rule = "no TUNING log; NCCL 2.30.7: not here"
    proofs = {
        size: [
            _proof(_seen(), clock=clock, verdict="not_eligible", statement=f"{k} calls on 2 ranks; {rule}")
            for clock, k in (("graph", size), ("stream", 8))
        ]
        for size in (64 * KIB, MIB)
    }
    (doubt,) = doubts(_group(proofs))
    assert (doubt.verdict, doubt.text) == ("not_eligible", f"symm at every size: {NAME}; {rule}")
    assert doubts(_group({64 * KIB: [_proof(_seen())], MIB: []})) == []


def test_a_reason_alone_is_the_end_of_a_longer_one() -> None:
    """One launch saw a kernel, another one nothing: what both say is kept."""
    proofs = {
        64 * KIB: [
            _proof(verdict="unproven", statement="8 calls; no log"),
            _proof(verdict="unproven", statement="no log"),
        ],
        MIB: [_proof(_seen())],
    }
    assert [doubt.text for doubt in doubts(_group(proofs))] == ["symm at 64KiB: no log"]


def test_a_doubt_of_one_clock_names_it() -> None:
    """The other clock is proved."""
    alone = _proof(clock="stream", verdict="unproven", statement="rank 1 could not look: no CUPTI")
    proofs = {64 * KIB: [_proof(_seen()), alone], MIB: [_proof(_seen())]}
    (doubt,) = doubts(_group(proofs))
    assert doubt.text == "symm at 64KiB, stream clock: rank 1 could not look: no CUPTI"


def test_different_reasons_stay_apart() -> None:
    """Two sizes that fell back for two reasons are two doubts."""
    proofs = {
        64 * KIB: [_proof(verdict="fell_back", statement="a; b")],
        MIB: [_proof(verdict="fell_back", statement="a; c")],
    }
    assert [doubt.text for doubt in doubts(_group(proofs))] == ["symm at 64KiB: a; b", "symm at 1MiB: a; c"]
