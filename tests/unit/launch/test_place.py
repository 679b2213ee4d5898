"""Which ranks a node runs."""

import os

import pytest

from gtpbench.launch.place import Place, builtin_place


def test_without_a_launcher_all_ranks_are_here() -> None:
    """One node, ranks 0 to n - 1, and it decides."""
    place = builtin_place(3)
    assert ("builtin", 0, 1, 3, (0, 1, 2), True) == (
        place.launcher,
        place.node,
        place.num_nodes,
        place.world_size,
        place.global_ranks,
        place.decides,
    )


def test_the_node_with_rank_0_decides() -> None:
    """Whatever its number."""
    assert Place(launcher="slurm", node=1, num_nodes=2, world_size=4, global_ranks=(0, 2)).decides
    assert not Place(launcher="slurm", node=0, num_nodes=2, world_size=4, global_ranks=(1, 3)).decides


def test_ranks_are_pinned_round_the_cores_they_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowed cores only, in order; more ranks than cores share."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7, 3, 5})
    assert [3, 5, 7, 3] == [builtin_place(4).cpu_of(local_rank) for local_rank in range(4)]
