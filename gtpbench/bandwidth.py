"""Bandwidths and bytes of a collective; pure. Names and formulas are nccl-tests'."""

from gtpbench.collectives import Collective
from gtpbench.units import gb_per_s


def algbw_gb_per_s(total_bytes: int, time_us: float) -> float:
    """Algorithm bandwidth S / time in GB/s."""
    return gb_per_s(total_bytes, time_us)


def busbw_gb_per_s(collective: Collective, total_bytes: int, time_us: float, *, num_ranks: int) -> float:
    """Bus bandwidth: algbw times the collective's factor, comparable with the link's own rate, in GB/s."""
    return algbw_gb_per_s(total_bytes, time_us) * float(collective.busbw_factor(num_ranks))


def wire_bytes_per_rank(total_bytes: int, *, num_ranks: int) -> int:
    """Bytes one rank must send (and receive) at least: (G-1)/G of S, for all-gather and reduce-scatter alike.

    Each rank's share of S goes to, or comes from, every other rank exactly once.
    """
    return total_bytes // num_ranks * (num_ranks - 1)
