"""Bytes sent by the node's network interfaces: the evidence that data took the network, or did not."""

import os
from pathlib import Path

from gtpbench.backends.base import RankContext


def interfaces_used(num_nodes: int) -> tuple[str, ...]:
    """Names of the interfaces gloo sends through: loopback and, on several nodes, those of `GLOO_SOCKET_IFNAME`.

    Without that variable gloo takes the address of the host's name, which may be on any interface: all are counted.
    """
    if num_nodes == 1:
        return ("lo",)
    named = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
    return tuple(sorted({"lo", *(named or _sent_bytes())}))


def witness_counters(context: RankContext) -> dict[str, int]:
    """`sent_bytes` of this node since it booted, on the node's local rank 0 only; nothing on the others. Local."""
    if context.local_rank != 0:
        return {}
    sent = _sent_bytes()
    return {"sent_bytes": sum(sent.get(name, 0) for name in interfaces_used(context.num_nodes))}


def _sent_bytes() -> dict[str, int]:
    """Bytes sent by each interface of this network namespace (sysfs may show those of another)."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    rows = (line.partition(":") for line in lines)
    return {name.strip(): int(fields.split()[8]) for name, _, fields in rows}
