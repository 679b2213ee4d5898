"""Kernel rows of all ranks together, and every way in which they prove nothing."""

import pytest

from gtpbench.record.model import KernelRow, RankEvidence
from tests.unit.measure.kernels import (
    AG,
    AG_RING,
    COPY,
    FEW_ROW,
    LEGACY_ROW,
    MIB,
    RS,
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


@pytest.mark.parametrize(
    ("num_ranks", "count", "verdict"),
    [(2, K, "proved"), (2, 4 * K, "proved"), (2, K - 1, "unproven"), (2, K + 1, "unproven"), (4, 2 * K, "unproven"),
     (4, 3 * K, "proved"), (8, 7 * K, "proved"), (8, 6 * K, "unproven")],
)  # fmt: skip
def test_copies_of_the_copy_engine(num_ranks: int, count: int, verdict: str) -> None:
    """One for each peer and call at least, the same number in each call."""
    case = make_case(num_ranks=num_ranks)
    evidence = every_rank(copies(count, name=COPY), clock="stream", num_ranks=num_ranks)
    item = only(prove("symm:ce", evidence, case=case))
    assert (verdict, "copy_engine" if verdict == "proved" else "unknown") == (item.verdict, item.path)
    assert verdict == "proved" or f"rank 0 shows {count} copies for 64 calls" in item.statement
    least = {2: "1 copy", 4: "3 copies", 8: "7 copies"}[num_ranks]
    assert verdict == "proved" or f"each call needs {least} or more" in item.statement


def test_copies_may_differ_between_ranks() -> None:
    """And may be labelled as kernels by whoever read them."""
    evidence = [rank(0, copies(K)), rank(1, KernelRow(name="Memcpy PtoP (Device -> Device)", grid=None, count=2 * K))]
    assert "1 to 2 copies a call" in only(prove("symm:ce", evidence)).statement
    assert "no kernel, 1 copy a call" in only(prove("symm:ce", every_rank(copies(K)))).statement


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ([], "no rank looked"),
        ([tuning(legacy_line("all_gather", 2 * MIB))], "no rank looked"),
        ([rank(0, SYMMETRIC_ROW)], "rank 1 left no evidence"),
        ([rank(0, SYMMETRIC_ROW), rank(0, SYMMETRIC_ROW), rank(1, SYMMETRIC_ROW)], "rank 0 left evidence twice"),
        ([*every_rank(SYMMETRIC_ROW), rank(2, SYMMETRIC_ROW)], "rank 2 is none of the 2 ranks"),
        ([rank(0, SYMMETRIC_ROW), rank(1, error="no CUPTI here")], "rank 1 could not look: no CUPTI here"),
        ([rank(0, SYMMETRIC_ROW), rank(1, SYMMETRIC_ROW, calls=None)], "rank 1 does not say how many calls"),
        ([rank(0, SYMMETRIC_ROW), rank(1, SYMMETRIC_ROW, calls=0)], "rank 1 does not say how many calls"),
        ([rank(0, SYMMETRIC_ROW), rank(1, SYMMETRIC_ROW, calls=32)], "different numbers of calls: 64, 32"),
        (every_rank(), "rank 0 shows neither a kernel nor a copy for 64 calls; rank 1"),
        ([rank(0, SYMMETRIC_ROW), rank(1)], "rank 1 shows neither a kernel nor a copy"),
        ([rank(0, SYMMETRIC_ROW), rank(1, FEW_ROW)], f"rank 1 shows {AG.format('ST')} x63 for 64 calls"),
        (every_rank(kernel(AG.format("ST"), count=65)), "ncclSymkDevKernel_AllGather_ST x65 for 64 calls"),
        ([rank(0, SYMMETRIC_ROW), rank(1, LEGACY_ROW)], f"rank 1 shows {AG_RING} x64 for 64 calls, the other"),
        ([rank(0, SYMMETRIC_ROW), rank(1, copies(K))], "rank 1 shows 64 copies for 64 calls, the other ranks"),
        ([rank(0, copies(K)), rank(1, SYMMETRIC_ROW)], "rank 0 shows 64 copies for 64 calls, the other ranks"),
        (every_rank(SYMMETRIC_ROW, kernel("fill", count=1)), "AllGather_ST x64 and fill x1"),
        (every_rank(SYMMETRIC_ROW, kernel(AG.format("LL"), count=1)), "AllGather_LL x1"),
        (every_rank(SYMMETRIC_ROW, copies(3)), "ncclSymkDevKernel_AllGather_ST x64 and 3 copies"),
        (every_rank(kernel(RS.format("LD"))), "ncclSymkDevKernel_ReduceScatter_LD_sum_bf16 is no all-gather"),
        (every_rank(kernel("ncclDevKernel_Generic")), "ncclDevKernel_Generic is no all-gather"),
        (every_rank(kernel("ncclDevKernel_AllGatherV_RING_LL")), "is no all-gather"),
        (every_rank(kernel("nccl_ep_jit_ht_dispatch_kernel")), "nccl_ep_jit_ht_dispatch_kernel is no all-gather"),
        (every_rank(kernel("ncclSymkDevKernel_AllGather_NEW")), "_NEW is no kernel of NCCL known here"),
        (every_rank(kernel("multimem_all_gather_kernel")), "is no kernel of NCCL known here"),
    ],
)
@pytest.mark.parametrize("arm", ["none", "symm", "symm:ce", "symm:send", "nvls"])
def test_no_proof(arm: str, evidence: list[RankEvidence], words: str) -> None:
    """Whatever was asked for; the rank at fault is named."""
    item = only(prove(arm, evidence))
    assert ("unproven", "unknown", None) == (item.verdict, item.path, item.ctas)
    assert words in item.statement


def test_the_odd_rank_out_of_many_is_named() -> None:
    """Not the others, wherever it stands."""
    case = make_case(num_ranks=4)
    for odd in range(4):
        evidence = [rank(number, LEGACY_ROW if number == odd else SYMMETRIC_ROW) for number in range(4)]
        statement = only(prove("symm", evidence, case=case)).statement
        assert [f"rank {odd}"] == [f"rank {number}" for number in range(4) if f"rank {number} " in statement]


def test_of_many_ranks_at_fault_the_first_are_named() -> None:
    """Three, and how many more."""
    evidence = [rank(number, error="no CUPTI") for number in range(8)]
    statement = only(prove("symm", evidence, case=make_case(num_ranks=8))).statement
    assert "; ".join(f"rank {number} could not look: no CUPTI" for number in range(3)) + "; 5 more" == statement
    three = only(prove("symm", evidence[:3], case=make_case(num_ranks=3))).statement
    assert three.endswith("rank 2 could not look: no CUPTI")


def test_rows_that_move_nothing_between_ranks_are_passed_over() -> None:
    """Memory operations, host nodes, memsets, copies from the host; rows of one kernel add up."""
    other = [
        KernelRow(name="batch_mem_op", kind="batch_mem_op", grid=None, count=K),
        KernelRow(name="host", kind="other", grid=None, count=1),
        KernelRow(name="memset", kind="memset", grid=None, count=1),
        copies(3, name="Memcpy HtoD (Pinned -> Device)"),
    ]
    halves = [kernel(AG.format("ST"), count=32), kernel(mangled(AG.format("ST")), count=32)]
    assert "proved" == prove("symm", every_rank(*halves, *other)).verdict


def test_grids_that_differ() -> None:
    """Are told, and the largest stands."""
    evidence = [rank(0, kernel(AG.format("ST"), grid=8)), rank(1, kernel(AG.format("ST"), grid=9))]
    item = only(prove("symm", evidence))
    assert ("proved", 9) == (item.verdict, item.ctas)
    assert "grids differ, 8 to 9 CTAs" in item.statement
    item = only(prove("symm", every_rank(kernel(AG.format("ST"), grid=None))))
    assert ("proved", None) == (item.verdict, item.ctas)
