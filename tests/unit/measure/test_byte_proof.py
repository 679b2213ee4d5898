"""Proof of path by the bytes that the interfaces carried."""

import pytest

from gtpbench.measure.byte_proof import byte_proof, modelled_proof
from gtpbench.record.model import Proof, RankEvidence
from tests.examples import make_plan

PLAN = make_plan()
CASE, NONE, SYMM = PLAN.cases[0], PLAN.arm("none"), PLAN.arm("symm")
WIRE = 100_000_000
WINDOW_LIMIT = 1_000_000 + 65536
"""1 % of the wire bytes and 64 KiB."""


def _prove(arm: str, sent: int | None, *, mapped: tuple[int, ...] = (0, 0), wire_bytes: int = WIRE) -> Proof:
    """Two ranks on one node; rank 0 reads the counters."""
    evidence = [
        RankEvidence(
            rank=rank,
            source="interface_bytes",
            counters={"peer_mappings": count, **({"sent_bytes": sent} if rank == 0 and sent is not None else {})},
        )
        for rank, count in enumerate(mapped)
    ]
    return byte_proof(CASE, PLAN.arm(arm), evidence, wire_bytes=wire_bytes, num_ranks=len(mapped))


@pytest.mark.parametrize(
    ("arm", "sent", "mapped", "verdict", "path"),
    [
        ("none", WIRE, (0, 0), "by_construction", "socket"),
        ("none", 95_000_000, (0, 0), "by_construction", "socket"),
        ("none", 94_999_999, (0, 0), "unproven", "unknown"),
        ("none", 0, (0, 0), "unproven", "unknown"),
        ("none", 10 * WIRE, (0, 0), "by_construction", "socket"),
        ("none", None, (0, 0), "unproven", "unknown"),
        ("symm", 0, (1, 1), "by_construction", "shared_memory"),
        ("symm", WINDOW_LIMIT, (1, 1), "by_construction", "shared_memory"),
        ("symm", WINDOW_LIMIT + 1, (1, 1), "unproven", "unknown"),
        ("symm", 94_999_999, (1, 1), "unproven", "unknown"),
        ("symm", 95_000_000, (1, 1), "fell_back", "socket"),
        ("symm", WIRE, (0, 0), "fell_back", "socket"),
        ("symm", 0, (1, 0), "unproven", "unknown"),
        ("symm", 0, (0, 0), "unproven", "unknown"),
        ("symm", None, (1, 1), "unproven", "unknown"),
        ("symm", 0, (2, 1, 2), "unproven", "unknown"),
        ("symm", 0, (2, 2, 2), "by_construction", "shared_memory"),
    ],
)
def test_verdict_and_path(arm: str, sent: int | None, mapped: tuple[int, ...], verdict: str, path: str) -> None:
    """Sockets need 95 % of the wire bytes; a window at most 1 % and 64 KiB, and every peer's mapping."""
    proof = _prove(arm, sent, mapped=mapped)
    assert (verdict, path) == (proof.verdict, proof.path)
    assert (verdict, path) == (proof.items[0].verdict, proof.items[0].path)


def test_small_traffic_is_told_apart_by_the_mappings() -> None:
    """Below the slack both byte limits hold: 2000 B on a wire of 1000 B are sockets' unless all peers are mapped."""
    assert "socket" == _prove("none", 2000, mapped=(0, 0), wire_bytes=1000).path
    assert "unproven" == _prove("none", 2000, mapped=(1, 1), wire_bytes=1000).verdict
    assert "shared_memory" == _prove("symm", 2000, mapped=(1, 1), wire_bytes=1000).path
    assert "fell_back" == _prove("symm", 2000, mapped=(0, 0), wire_bytes=1000).verdict


def test_bytes_of_several_nodes_add_up() -> None:
    """One rank a node counts."""
    evidence = [RankEvidence(rank=rank, source="interface_bytes", counters={"sent_bytes": 48}) for rank in range(2)]
    proof = byte_proof(CASE, NONE, evidence, wire_bytes=100, num_ranks=2)
    assert "socket" == proof.path
    assert proof.items[0].statement == "the interfaces carried 96 B for 100 B of traffic"


def test_the_statement_holds_the_evidence() -> None:
    """What was seen, what was asked for, who lacked a peer."""
    assert "a window was asked for, sockets carried it" in _prove("symm", WIRE).items[0].statement
    assert "peers mapped per rank: [1, 0]" in _prove("symm", 0, mapped=(1, 0)).items[0].statement
    assert "every rank maps its 1 peers" in _prove("symm", 0, mapped=(1, 1)).items[0].statement
    assert "no rank could read" in _prove("none", None).items[0].statement
    assert [0, 1] == [item.rank for item in _prove("none", WIRE).evidence]


def test_a_model_has_no_path_to_prove() -> None:
    """By construction, and said so."""
    proof = modelled_proof(CASE, [])
    assert ("by_construction", "modelled") == (proof.verdict, proof.path)
    assert "nothing was measured" in proof.items[0].statement
    assert SYMM.registration == "window"
