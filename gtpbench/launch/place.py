"""Which ranks this node runs, and how they meet the others."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One node's part of a run."""

    launcher: str
    """`builtin`, `torchrun`, `slurm` or `env`."""
    node: int
    num_nodes: int
    world_size: int
    global_ranks: tuple[int, ...]
    """Rank of each local rank."""
    master_address: str = "127.0.0.1"
    master_port: int = 0
    agent_store: bool = False
    """The launcher's agent serves a store at the master's address; else global rank 0 does."""
    store_prefix: str = "gtpbench"

    @property
    def decides(self) -> bool:
        """Whether this node plans, writes and decides the exit code."""
        return 0 in self.global_ranks

    def cpu_of(self, local_rank: int) -> int:
        """The core a CPU rank is pinned to; ranks share cores where there are more ranks than cores."""
        cpus = sorted(os.sched_getaffinity(0))
        return cpus[local_rank % len(cpus)]


def builtin_place(num_ranks: int) -> Place:
    """All ranks on this node, started by gtpbench itself."""
    return Place(launcher="builtin", node=0, num_nodes=1, world_size=num_ranks, global_ranks=tuple(range(num_ranks)))
