"""NCCL's own rules: which calls they keep off the path that was asked for, and which they do not."""

from typing import Any

import pytest

from tests.unit.measure.kernels import (
    AG,
    AG_RING,
    GIB,
    KIB,
    MIB,
    RS,
    RS_RING,
    K,
    copies,
    every_rank,
    kernel,
    legacy_line,
    make_case,
    only,
    prove,
    tuning,
)


@pytest.mark.parametrize(
    ("arm", "collective", "name", "words"),
    [
        ("symm:send", "all_gather", AG_RING, "the all-gather kernels for large messages need a window around the recv"),
        ("symm:recv", "reduce_scatter", RS_RING, "the reduce-scatter kernels for large messages need a window around"),
    ],
)
@pytest.mark.parametrize("size_bytes", [64 * KIB, 4 * MIB, 64 * MIB])
def test_the_side_that_large_messages_need(arm: str, collective: Any, name: str, words: str, size_bytes: int) -> None:
    """All-gather the receive window, reduce-scatter the send window, from 2.29.2; before, both."""
    case = make_case(collective, size_bytes)
    for version in ("2.29.2", "2.29.7", "2.30.7", None):
        item = only(prove(arm, every_rank(kernel(name)), case=case, version=version))
        assert ("not_eligible", True) == (item.verdict, words in item.statement)
    item = only(prove(arm, every_rank(kernel(name)), case=case, version="2.28.9"))
    assert ("not_eligible", True) == (item.verdict, "NCCL 2.28.9: before 2.29.2 both buffers" in item.statement)
    log = tuning(legacy_line(collective, size_bytes // 2, protocol="LL"))
    assert "fell_back" == prove(arm, [*every_rank(kernel(name)), log], case=case).verdict


@pytest.mark.parametrize(
    ("arm", "collective", "name"), [("symm:recv", "all_gather", AG_RING), ("symm:send", "reduce_scatter", RS_RING)]
)
@pytest.mark.parametrize(
    ("version", "size_bytes", "protocol", "verdict"),
    [
        ("2.28.9", 64 * MIB, None, "not_eligible"),
        ("2.27.5", 64 * KIB, "LL", "not_eligible"),
        ("2.29.2", 512 * KIB, None, "not_eligible"),
        ("2.30.7", 512 * KIB, None, "not_eligible"),
        ("2.30.7", 512 * KIB, "SIMPLE", "not_eligible"),
        ("2.30.7", 512 * KIB, "LL", "fell_back"),
        ("2.30.7", 16 * MIB, "SIMPLE", "fell_back"),
        ("2.30.7", 64 * MIB, None, "fell_back"),
        (None, 512 * KIB, None, "fell_back"),
    ],
)
def test_the_side_that_suffices(
    arm: str, collective: Any, name: str, version: str | None, size_bytes: int, protocol: str | None, verdict: str
) -> None:
    """Before 2.29.2 it does not; after, NCCL may want its LL kernel, and takes it only if the legacy model wants LL."""
    log = [tuning(legacy_line(collective, size_bytes // 2, protocol=protocol))] if protocol else []
    case = make_case(collective, size_bytes)
    assert verdict == prove(arm, [*every_rank(kernel(name)), *log], case=case, version=version).verdict


@pytest.mark.parametrize(
    ("version", "size_bytes", "protocol", "verdict"),
    [
        ("2.29.2", 512 * KIB, "SIMPLE", "not_eligible"),
        ("2.29.3", 512 * KIB, None, "not_eligible"),
        ("2.29.3", 512 * KIB, "LL", "fell_back"),
        ("2.29.3", 64 * MIB, "SIMPLE", "fell_back"),
        ("2.29.7", 512 * KIB, "SIMPLE", "fell_back"),
        ("2.28.9", 512 * KIB, "SIMPLE", "fell_back"),
    ],
)
def test_two_versions_drop_ll_with_both_windows(
    version: str, size_bytes: int, protocol: str | None, verdict: str
) -> None:
    """2.29.2 and 2.29.3 only, where the legacy model does not pick LL."""
    log = [tuning(legacy_line("all_gather", size_bytes // 2, protocol=protocol))] if protocol else []
    case = make_case(size_bytes=size_bytes)
    item = only(prove("symm", [*every_rank(kernel(AG_RING)), *log], case=case, version=version))
    assert verdict == item.verdict
    assert (verdict == "not_eligible") is ("LL symmetric kernels run with these windows only" in item.statement)


@pytest.mark.parametrize(
    ("changed", "version", "words"),
    [
        ({"dtype": "fp64"}, "2.30.7", "no symmetric kernel reduces fp64"),
        ({"dtype": "int32"}, None, "no symmetric kernel reduces int32"),
        ({"op": "avg"}, "2.29.7", "symmetric kernels average from 2.30.3 on"),
        ({"op": "avg"}, "2.30.3", None),
        ({"op": "avg"}, None, None),
        ({"dtype": "fp8_e4m3"}, "2.30.7", None),
        ({"size_bytes": 64 * GIB}, "2.30.7", "symmetric kernels stop below 64 GiB"),
        ({"size_bytes": 64 * GIB - 4}, "2.30.7", None),
    ],
)
def test_what_no_symmetric_kernel_does(changed: dict[str, Any], version: str | None, words: str | None) -> None:
    """Types, averages and sizes, whatever the windows."""
    case = make_case(**{"collective": "reduce_scatter", **changed})
    item = only(prove("symm", every_rank(kernel("ncclDevKernel_ReduceScatter_f64_RING")), case=case, version=version))
    assert ("not_eligible" if words else "fell_back") == item.verdict
    assert words is None or words in item.statement


def test_what_has_no_multicast_kernel() -> None:
    """Two ranks from 2.29.7 on; small reduce-scatters always."""
    two = every_rank(kernel(AG.format("ST")))
    item = only(prove("symm:nvls", two, version="2.29.7"))
    assert ("not_eligible", True) == (item.verdict, "multicast kernels need more than 2 ranks" in item.statement)
    assert ["fell_back"] * 2 == [prove("symm:nvls", two, version=version).verdict for version in ("2.29.3", None)]
    case = make_case("reduce_scatter", 64 * KIB, num_ranks=8)
    small = every_rank(kernel(RS.format("LL")), num_ranks=8)
    assert "not_eligible" == prove("symm:nvls", small, case=case).verdict
    large = every_rank(kernel(RS.format("LD")), num_ranks=8)
    assert "fell_back" == prove("symm:nvls", large, case=case).verdict


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"op": "avg"}, "not_eligible"),
        ({"dtype": "fp8_e4m3"}, "not_eligible"),
        ({"dtype": "uint8"}, "not_eligible"),
        ({"dtype": "bf16"}, "fell_back"),
        ({"dtype": "fp64"}, "fell_back"),
    ],
)
def test_what_legacy_nvls_does_not_reduce(changed: dict[str, Any], verdict: str) -> None:
    """Averages, fp8 and bytes."""
    evidence = [*every_rank(kernel(RS_RING)), tuning(legacy_line("reduce_scatter", 2 * MIB))]
    assert verdict == prove("nvls", evidence, case=make_case("reduce_scatter", **changed)).verdict


def test_kernels_where_copy_engines_were_asked_for() -> None:
    """A fall-back, except where NCCL has no copy-engine collective."""
    evidence = every_rank(kernel(AG.format("ST")))
    item = only(prove("symm:ce", evidence))
    assert ("fell_back", "symm_lsa") == (item.verdict, item.path)
    item = only(prove("symm:ce", evidence, version="2.27.7"))
    assert ("not_eligible", True) == (item.verdict, "copy-engine collectives came with 2.28" in item.statement)
    assert "fell_back" == prove("symm:ce", evidence, version="2.28.3").verdict
    assert "fell_back" == prove("symm:ce", every_rank(kernel(AG_RING))).verdict
    case = make_case("reduce_scatter")
    item = only(prove("symm:ce", every_rank(kernel(RS.format("LD"))), case=case))
    assert ("not_eligible", True) == (item.verdict, "no copy-engine reduce-scatter" in item.statement)
    assert "fell_back" == prove("symm:ce", every_rank(kernel(RS_RING)), case=case).verdict


def test_copies_where_kernels_were_asked_for() -> None:
    """Only for large gathers into a window, which Blackwell does by itself."""
    few, many = make_case(size_bytes=2 * 8 * MIB * 2), make_case(size_bytes=2 * 8 * MIB * 2 + 4)
    evidence = every_rank(copies(K))
    assert ("proved", "copy_engine") == (
        prove("symm", evidence, case=many).verdict,
        prove("symm", evidence, case=many).path,
    )
    assert "proved" == prove("symm:recv", evidence, case=many, version="2.29.2").verdict
    assert ["not_eligible"] * 2 == [prove(arm, evidence, case=many).verdict for arm in ("symm:nvls", "symm:nonvls")]
    unproven = [
        prove("symm", evidence, case=few),
        prove("symm", evidence, case=many, version="2.28.9"),
        prove("symm", evidence, case=many, version=None),
        prove("symm:send", evidence, case=many),
        prove("none", evidence, case=many),
        prove("registered", evidence, case=many),
        prove("symm", evidence, case=make_case("reduce_scatter", 64 * MIB)),
        prove("symm:ce", evidence, case=make_case("reduce_scatter", 64 * MIB)),
    ]
    assert ["unproven"] * 8 == [proof.verdict for proof in unproven]
