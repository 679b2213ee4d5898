"""Where an arm begins to win, on hand-written sweeps."""

import pytest

from gtpbench.stats.crossover import faster_from

KIB, MIB = 2**10, 2**20


def test_one_change():
    """Faster begins at the first faster size, past the undecided one."""
    points = [(64 * KIB, "slower"), (256 * KIB, "undecided"), (MIB, "faster"), (4 * MIB, "faster")]
    assert faster_from(points) == MIB


@pytest.mark.parametrize(
    ("outcomes", "start"),
    [
        ([], None),
        (["undecided", "undecided"], None),
        (["faster", "undecided", "faster", "undecided"], 1),
        (["faster", "same", "undecided", "faster"], 8),
        (["faster", "faster", "faster", "slower"], None),
        (["same", "faster", "faster", "same", "slower"], None),
    ],
)
def test_where_faster_begins(outcomes, start):
    """Faster must hold on every decided size up to the largest; undecided ones say nothing."""
    assert faster_from([(2**i, outcome) for i, outcome in enumerate(outcomes)]) == start


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1)])
def test_sizes_must_increase(sizes):
    """Unordered or repeated sizes are refused."""
    with pytest.raises(ValueError, match="increase"):
        faster_from([(sizes[0], "same"), (sizes[1], "faster")])
