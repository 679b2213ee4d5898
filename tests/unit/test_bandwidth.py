"""Bandwidths of nccl-tests' formulas, worked by hand."""

import pytest

from gtpbench.bandwidth import algbw_gb_per_s, busbw_gb_per_s, wire_bytes_per_rank
from gtpbench.collectives import COLLECTIVES

MIB, GIB = 2**20, 2**30


def test_all_gather_of_a_gibibyte_on_eight_ranks() -> None:
    """1073741824 B in 3000 us are 357.9 GB/s; 7/8 of that crosses each rank's link: 313.2."""
    assert 357.9 == pytest.approx(algbw_gb_per_s(GIB, 3000.0), abs=0.05)
    assert 313.2 == pytest.approx(busbw_gb_per_s(COLLECTIVES["all_gather"], GIB, 3000.0, num_ranks=8), abs=0.05)


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
@pytest.mark.parametrize(("num_ranks", "busbw"), [(1, 0.0), (2, 0.5), (4, 0.75), (8, 0.875), (72, 71 / 72)])
def test_busbw_factor(name: str, num_ranks: int, busbw: float) -> None:
    """(G-1)/G for all-gather and reduce-scatter: 10^6 B in 1000 us are an algbw of 1 GB/s."""
    assert busbw == pytest.approx(busbw_gb_per_s(COLLECTIVES[name], 10**6, 1000.0, num_ranks=num_ranks))


@pytest.mark.parametrize(
    ("total_bytes", "num_ranks", "wire"), [(16 * MIB, 2, 8 * MIB), (16 * MIB, 8, 14 * MIB), (12, 3, 8), (64, 1, 0)]
)
def test_wire_bytes(total_bytes: int, num_ranks: int, wire: int) -> None:
    """Each rank's share goes to every other rank once."""
    assert wire == wire_bytes_per_rank(total_bytes, num_ranks=num_ranks)
