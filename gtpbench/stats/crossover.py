"""Sizes between which the winner changes."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gtpbench.stats.compare import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """The outcome changed somewhere above `from_size`, and at `to_size` it had."""

    from_size: int
    """Largest decided size with the outcome before, bytes."""
    to_size: int
    """Smallest decided size with the outcome after, bytes; between the two lie undecided sizes only."""
    before: "Outcome"
    after: "Outcome"


def crossovers(points: "Sequence[tuple[int, Outcome]]") -> list[Crossover]:
    """Every change among slower, same and faster along the sizes; undecided points are passed over.

    Args:
        points: (size_bytes, outcome) by increasing size.

    Raises:
        ValueError: the sizes do not increase.
    """
    decided = _decided(points)
    return [
        Crossover(from_size=size, to_size=next_size, before=before, after=after)
        for (size, before), (next_size, after) in pairwise(decided)
        if before != after
    ]


def faster_from(points: "Sequence[tuple[int, Outcome]]") -> int | None:
    """Smallest size from which on every decided point is faster, bytes; None where the largest decided one is not.

    Raises:
        ValueError: the sizes do not increase.
    """
    found: int | None = None
    for size, outcome in reversed(_decided(points)):
        if outcome != "faster":
            break
        found = size
    return found


def _decided(points: "Sequence[tuple[int, Outcome]]") -> "list[tuple[int, Outcome]]":
    for (size, _), (next_size, _) in pairwise(points):
        if next_size <= size:
            raise ValueError(f"sizes must increase, given {next_size} after {size}")
    return [point for point in points if point[1] != "undecided"]
