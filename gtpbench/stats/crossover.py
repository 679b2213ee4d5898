"""The size from which an arm wins."""

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gtpbench.stats.compare import Outcome


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
