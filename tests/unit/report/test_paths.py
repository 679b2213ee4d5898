"""What a row says of its paths: both clocks, legacy kernels without a TUNING log, several launches."""

from typing import Any

import pytest

from gtpbench.record import Proof
from gtpbench.report.model import Row
from gtpbench.report.view import build_view
from gtpbench.report.words import path_cell, path_text
from tests.unit.report.factory import make_case, make_record, make_samples

RING = "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE"
STORE = "_Z30ncclSymkDevKernel_AllGather_ST21ncclSymkDevWorkArgs4K"
STORE_FROM_CUPTI = "ncclSymkDevKernel_AllGather_ST(ncclSymkDevWorkArgs4K)"


def _item(clock: str | None, **fields: Any) -> dict[str, Any]:
    case = make_case()
    shared = {"role": "collective", "collective": case.collective, "size_bytes": case.size_bytes}
    default = {"verdict": "proved", "path": "symm_lsa", "algorithm": "ST", "ctas": 9, "statement": f"{clock} saw it"}
    return {**shared, **default, "clock": clock, **fields}


def _evidence(clock: str | None, name: str, *, rank: int = 0, grid: int | None = 9, **fields: Any) -> dict[str, Any]:
    kernels = ({"name": name, "kind": "kernel", "grid": grid, "count": 64},)
    return {"rank": rank, "source": "graph_nodes", "clock": clock, "calls": 64, "kernels": kernels, **fields}


def _proof(items: list[dict[str, Any]], evidence: list[dict[str, Any]] | None = None) -> Proof:
    worst = items[0]
    document = {"verdict": worst["verdict"], "path": worst["path"], "items": items, "evidence": evidence or ()}
    return Proof.model_validate(
        {key: tuple(value) if isinstance(value, list) else value for key, value in document.items()}
    )


def _row(*proofs: Proof) -> Row:
    both = {clock: make_samples(50.0, clock=clock) for clock in ("graph", "stream")}
    samples = {f"step.{clock}": series for clock, series in both.items()}
    records = [
        make_record("symm", origin="measured", samples=samples, proof=proof, launch=launch)
        for launch, proof in enumerate(proofs)
    ]
    (row,) = build_view(records, {}).rows
    return row


def _codes(row: Row) -> list[str]:
    return [note.code for note in row.notes]


def test_the_headline_clock_decides_what_is_shown() -> None:
    """Items may come in any order: path, algorithm and CTAs are the graph's, the stream's stay in `proofs`."""
    row = _row(_proof([_item("stream", algorithm="LL", ctas=4), _item("graph")]))
    assert (row.path, row.algorithm, row.ctas) == ("symm_lsa", "ST", 9)
    assert [(proof.clock, proof.algorithm) for proof in row.proofs] == [("graph", "ST"), ("stream", "LL")]


def test_the_worst_clock_decides_the_verdict() -> None:
    """Even if the record's own verdict were kinder; the statement is the worst item's, and a note tells them apart."""
    fallen = _item("stream", verdict="fell_back", path="ring", algorithm="RING", ctas=24, statement="a ring ran")
    row = _row(_proof([_item("graph"), fallen]))
    assert (row.proof, row.statement, row.path) == ("fell_back", "a ring ran", "symm_lsa")
    assert _codes(row) == ["clocks_differ"]
    assert row.notes[0].text == "graph symm_lsa ST ✓ proved; stream ring ✗ fell back"


@pytest.mark.parametrize(
    ("stream", "differ"),
    [
        ({}, False),
        ({"statement": "in other words"}, False),
        ({"ctas": 16}, True),
        ({"ctas": None}, False),
        ({"algorithm": "LL"}, True),
        ({"verdict": "unproven", "path": "unknown", "algorithm": None, "ctas": None}, True),
        ({"path": "unknown", "algorithm": None, "ctas": None}, False),
    ],
)
def test_clocks_differ(stream: dict[str, Any], differ: bool) -> None:
    """Any fact that both know and do not share; what one does not know is no difference."""
    row = _row(_proof([_item("graph"), _item("stream", **stream)]))
    assert ("clocks_differ" in _codes(row)) == differ


def test_a_legacy_kernel_against_a_symmetric_one_differs() -> None:
    """Though nothing says which legacy path it is."""
    legacy = _item("stream", path="unknown", algorithm=None, ctas=None)
    row = _row(_proof([_item("graph", ctas=None), legacy], [_evidence("graph", STORE), _evidence("stream", RING)]))
    assert _codes(row) == ["clocks_differ"]


def test_one_clock_has_nothing_to_differ_from() -> None:
    """Nor has a proof that is about all clocks."""
    assert _codes(_row(_proof([_item(None)]))) == []


def test_legacy_kernels_without_tuning() -> None:
    """Their name stands for ring, NVLS and PAT; `unknown` would sound as if nothing was seen."""
    item = _item("graph", path="unknown", algorithm=None, ctas=64)
    row = _row(_proof([item], [_evidence("graph", RING, grid=64)]))
    assert (row.path, path_text(row.proofs[0])) == ("unknown", "legacy (ring, NVLS or PAT)")
    assert path_cell(row) == path_cell(row, full=False) == "legacy"


@pytest.mark.parametrize("name", ["_Z9my_kernelPf", STORE])
def test_other_kernels_of_an_unknown_path_stay_unknown(name: str) -> None:
    """Only a legacy name of NCCL's reads as legacy."""
    row = _row(_proof([_item("graph", path="unknown", algorithm=None)], [_evidence("graph", name)]))
    assert path_cell(row) == "unknown"


def test_legacy_kernels_with_tuning() -> None:
    """A log of another launch names algorithm and protocol; its lines stay with the proof."""
    line = "AllGather: 8388608 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..15}"
    log = {"rank": 0, "source": "tuning_log", "lines": (line, line)}
    item = _item("graph", path="pat", algorithm="PAT", protocol="SIMPLE")
    row = _row(_proof([item], [_evidence("graph", RING), log]))
    assert path_cell(row) == "pat SIMPLE" and path_cell(row, full=False) == "pat"
    assert row.proofs[0].log == (line,)
    assert [seen.source for seen in row.proofs[0].seen] == ["graph_nodes"]


def test_ranks_that_saw_the_same_are_one() -> None:
    """Whatever the order of the evidence; names are without mangling and arguments."""
    evidence = [_evidence("graph", STORE_FROM_CUPTI, rank=1), _evidence("graph", STORE, rank=0)]
    (seen,) = _row(_proof([_item("graph")], evidence)).proofs[0].seen
    assert (seen.ranks, seen.calls) == ((0, 1), 64)
    assert [(use.name, use.ctas, use.count) for use in seen.kernels] == [("ncclSymkDevKernel_AllGather_ST", 9, 64)]


def test_copies_are_named_by_their_kind() -> None:
    """Whatever the driver calls them, and copies to different places count together."""
    rows = (
        {"name": "Memcpy DtoD (Device -> Device)", "kind": "memcpy", "grid": None, "count": 64},
        {"name": "Memcpy PtoP (Device -> Device)", "kind": "memcpy", "grid": None, "count": 64},
        {"name": "batch_mem_op", "kind": "batch_mem_op", "grid": None, "count": 32},
    )
    item = _item("graph", path="copy_engine", algorithm=None, ctas=None)
    (seen,) = _row(_proof([item], [_evidence("graph", STORE, kernels=rows)])).proofs[0].seen
    assert [(use.name, use.count) for use in seen.kernels] == [("memcpy", 128), ("batch_mem_op", 32)]


def test_evidence_belongs_to_its_clock() -> None:
    """An item sees its own clock's evidence and what is about the whole case."""
    evidence = [_evidence("graph", STORE), _evidence("stream", RING), _evidence(None, "_Z1xv", rank=1)]
    row = _row(_proof([_item("graph"), _item(None)], evidence))
    by_clock = {proof.clock: proof.seen for proof in row.proofs}
    assert len(by_clock["graph"]) == 2 and len(by_clock[None]) == 3


def test_launches_that_saw_the_same_are_one() -> None:
    """A third launch with other CTAs is an entry of its own; tables name both paths."""
    same, other = _proof([_item("graph")]), _proof([_item("graph", algorithm="LL", ctas=4)])
    row = _row(same, other, same)
    assert [(proof.launches, proof.ctas) for proof in row.proofs] == [((0, 2), 9), ((1,), 4)]
    assert path_cell(row) == "symm_lsa ST + symm_lsa LL"
    assert _codes(row) == []
