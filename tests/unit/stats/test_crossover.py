"""Crossover sizes of hand-written sweeps."""

import pytest

from gtpbench.stats.crossover import Crossover, crossovers, faster_from

KIB, MIB = 2**10, 2**20


def test_one_change():
    """The boundary lies between the last slower and the first faster size, past the undecided one."""
    points = [(64 * KIB, "slower"), (256 * KIB, "undecided"), (MIB, "faster"), (4 * MIB, "faster")]
    assert crossovers(points) == [Crossover(from_size=64 * KIB, to_size=MIB, before="slower", after="faster")]
    assert faster_from(points) == MIB


def test_changes_back_and_forth():
    """Each change among slower, same and faster is listed in order of size."""
    points = [(1, "same"), (2, "faster"), (4, "faster"), (8, "same"), (16, "slower")]
    assert [(c.from_size, c.to_size, c.before, c.after) for c in crossovers(points)] == [
        (1, 2, "same", "faster"),
        (4, 8, "faster", "same"),
        (8, 16, "same", "slower"),
    ]
    assert faster_from(points) is None


@pytest.mark.parametrize(
    ("outcomes", "start"),
    [
        ([], None),
        (["undecided", "undecided"], None),
        (["faster", "undecided", "faster", "undecided"], 1),
        (["faster", "same", "undecided", "faster"], 8),
        (["faster", "faster", "faster", "slower"], None),
    ],
)
def test_where_faster_begins(outcomes, start):
    """Faster must hold on every decided size up to the largest; undecided ones say nothing."""
    assert faster_from([(2**i, outcome) for i, outcome in enumerate(outcomes)]) == start


def test_undecided_alone_changes_nothing():
    """Undecided between equal outcomes is no crossover."""
    assert crossovers([(1, "same"), (2, "undecided"), (4, "same")]) == []


@pytest.mark.parametrize("sizes", [(1, 1), (2, 1)])
def test_sizes_must_increase(sizes):
    """Unordered or repeated sizes are refused."""
    with pytest.raises(ValueError, match="increase"):
        crossovers([(sizes[0], "same"), (sizes[1], "faster")])
