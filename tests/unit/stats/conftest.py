"""Builders of samples and pairs."""

from collections.abc import Callable, Sequence

import pytest

from gtpbench.record.model import Samples
from gtpbench.stats.pairs import PairedLaunch

MakeSamples = Callable[..., Samples]
MakePair = Callable[..., PairedLaunch]


def _samples(
    time_us: Sequence[Sequence[Sequence[float]]], *, k: int = 1, clock: str = "graph", wall_us: float = 1e6
) -> Samples:
    """Samples from nested lists [rank][block][iteration]; every block takes `wall_us`."""
    walls = tuple(tuple(wall_us for _ in rank) for rank in time_us)
    return Samples(
        clock=clock,
        k=k,
        alignment="device",
        time_us=tuple(tuple(tuple(map(float, block)) for block in rank) for rank in time_us),
        block_start_us=walls,
        block_wall_us=walls,
    )


def _pair(ratios: Sequence[float], *, baseline_us: float = 100.0, baseline_first: Sequence[bool] | None = None):
    """One launch on one rank with one iteration a block: block b of the candidate takes ratios[b] x the baseline."""
    return PairedLaunch(
        baseline=_samples([[[baseline_us]] * len(ratios)]),
        candidate=_samples([[[baseline_us * ratio] for ratio in ratios]]),
        baseline_first=[b % 2 == 0 for b in range(len(ratios))] if baseline_first is None else baseline_first,
    )


@pytest.fixture(scope="session")
def make_samples() -> MakeSamples:
    return _samples


@pytest.fixture(scope="session")
def make_pair() -> MakePair:
    return _pair
