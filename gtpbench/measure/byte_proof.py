"""Proof of path on CPU ranks: bytes the network interfaces carried over all blocks of a case. Pure.

gloo sends through sockets, so at least its wire bytes must show there. Windows are shared memory, so next to nothing
may show, while the peers' mappings must be there.
"""

from collections.abc import Sequence

from gtpbench.plan import Arm, Case
from gtpbench.record.model import PathName, Proof, ProofItem, ProofVerdict, RankEvidence

SOCKET_SHARE = 0.95
"""Of the wire bytes, what must have crossed the interfaces for `socket`."""
WINDOW_SHARE = 0.01
WINDOW_SLACK_BYTES = 64 * 1024
"""What may cross beside a window: a share of the wire bytes plus the turn-taking of the worker sets."""


def byte_proof(case: Case, arm: Arm, evidence: Sequence[RankEvidence], *, wire_bytes: int, num_ranks: int) -> Proof:
    """The proof of one cell.

    Args:
        evidence: of every rank; `sent_bytes` on one rank a node, `peer_mappings` where the backend maps peers.
        wire_bytes: what all ranks together had to send over all operations between the witnesses.
    """
    sent = [item.counters["sent_bytes"] for item in evidence if "sent_bytes" in item.counters]
    mapped = [item.counters.get("peer_mappings", 0) for item in evidence]
    verdict, path, statement = _decide(arm, sent, mapped, wire_bytes=wire_bytes, num_ranks=num_ranks)
    item = ProofItem(
        role="collective",
        collective=case.collective,
        size_bytes=case.size_bytes,
        verdict=verdict,
        path=path,
        statement=statement,
    )
    return Proof(verdict=verdict, path=path, items=(item,), evidence=tuple(evidence))


def modelled_proof(case: Case, evidence: Sequence[RankEvidence]) -> Proof:
    """The proof of a backend that models time: there is no path to prove."""
    item = ProofItem(
        role="collective",
        collective=case.collective,
        size_bytes=case.size_bytes,
        verdict="by_construction",
        path="modelled",
        statement="time is modelled; nothing was measured",
    )
    return Proof(verdict="by_construction", path="modelled", items=(item,), evidence=tuple(evidence))


def _decide(
    arm: Arm, sent: list[int], mapped: list[int], *, wire_bytes: int, num_ranks: int
) -> tuple[ProofVerdict, PathName, str]:
    if not sent:
        return "unproven", "unknown", "no rank could read the interfaces' byte counters"
    total = sum(sent)
    seen = f"the interfaces carried {total} B for {wire_bytes} B of traffic"
    by_socket = total >= SOCKET_SHARE * wire_bytes
    by_memory = total <= WINDOW_SHARE * wire_bytes + WINDOW_SLACK_BYTES
    all_mapped = all(count == num_ranks - 1 for count in mapped)
    if arm.registration == "window":
        if by_memory and all_mapped:
            return "by_construction", "shared_memory", f"{seen}; every rank maps its {num_ranks - 1} peers"
        if by_socket:
            return "fell_back", "socket", f"{seen}: a window was asked for, sockets carried it"
        missing = f"; peers mapped per rank: {mapped}" if not all_mapped else ""
        return "unproven", "unknown", f"{seen}{missing}"
    if by_socket and not (by_memory and all_mapped):
        return "by_construction", "socket", seen
    return "unproven", "unknown", f"{seen}: too little for sockets"
