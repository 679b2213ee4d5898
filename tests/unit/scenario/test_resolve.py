"""Turning `auto` into values."""

import pytest

from gtpbench.errors import UsageError
from gtpbench.scenario.load import build_scenario
from gtpbench.scenario.resolve import resolve, sweep
from tests.examples import make_facts, make_scenario

KIB, MIB = 2**10, 2**20
AUTO = build_scenario({"name": "x", "workload": {"collectives": ["all_gather"]}, "arms": ["none"]}, origin="test")


def test_without_gpus_everything_is_for_cpu_ranks() -> None:
    """Two ranks, 64 KiB to 16 MiB by 4, the host's clock."""
    resolved = resolve(AUTO, make_facts())
    assert ("cpu", 2, "host") == (resolved.backend, resolved.num_ranks, resolved.measure.clock)
    assert (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB) == resolved.workload.sizes


def test_with_gpus_everything_is_for_nccl() -> None:
    """All visible GPUs, 64 KiB to 256 MiB by 4, both clocks."""
    resolved = resolve(AUTO, make_facts(num_gpus=8))
    assert ("nccl_torch", 8, "both") == (resolved.backend, resolved.num_ranks, resolved.measure.clock)
    assert (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB) == resolved.workload.sizes


def test_cpu_ranks_on_a_gpu_machine() -> None:
    """A named backend decides, not the machine."""
    resolved = resolve(AUTO.model_copy(update={"backend": "cpu"}), make_facts(num_gpus=8))
    assert ("cpu", 2, "host") == (resolved.backend, resolved.num_ranks, resolved.measure.clock)
    assert 16 * MIB == max(resolved.workload.sizes)


def test_nccl_without_gpus_still_resolves() -> None:
    """One rank, so that planning can say why nothing runs."""
    assert 1 == resolve(AUTO.model_copy(update={"backend": "nccl_torch"}), make_facts()).num_ranks


def test_ranks_that_share_a_gpu_fill_all_gpus() -> None:
    """Unless a number of ranks is given, or a launcher's decides."""
    shared = AUTO.model_copy(update={"ranks_per_gpu": 2})
    assert 16 == resolve(shared, make_facts(num_gpus=8)).num_ranks
    assert 2 == resolve(shared.model_copy(update={"backend": "nccl_direct"}), make_facts()).num_ranks
    assert 3 == resolve(shared.model_copy(update={"num_ranks": 3}), make_facts(num_gpus=8)).num_ranks
    assert 4 == resolve(shared, make_facts(num_gpus=8, world_size=4)).num_ranks


@pytest.mark.parametrize(("backend", "num_gpus"), [("auto", 0), ("cpu", 8), ("gloo", 0), ("standin", 8)])
def test_cpu_ranks_share_no_gpu(backend: str, num_gpus: int) -> None:
    """Asking for it is a mistake, and the resolved backend is named."""
    asked = AUTO.model_copy(update={"backend": backend, "ranks_per_gpu": 2})
    named = "cpu" if backend == "auto" else backend
    with pytest.raises(UsageError, match=f"ranks_per_gpu = 2: {named} ranks use no GPU"):
        resolve(asked, make_facts(num_gpus=num_gpus))


def test_values_that_were_given_stay() -> None:
    """Resolution touches `auto` only."""
    scenario = make_scenario(num_ranks=3)
    assert scenario == resolve(scenario, make_facts(num_gpus=8))


def test_resolving_twice_changes_nothing() -> None:
    """A resolved scenario is resolved."""
    once = resolve(AUTO, make_facts(num_gpus=4))
    assert once == resolve(once, make_facts())


@pytest.mark.parametrize("num_gpus", [0, 8])
def test_a_launcher_decides_the_number_of_ranks(num_gpus: int) -> None:
    """Whatever this host shows."""
    assert 16 == resolve(AUTO, make_facts(num_gpus=num_gpus, world_size=16)).num_ranks


def test_a_launcher_may_agree_but_not_be_contradicted() -> None:
    """The message names both numbers."""
    asked = AUTO.model_copy(update={"num_ranks": 4})
    assert 4 == resolve(asked, make_facts(world_size=4)).num_ranks
    with pytest.raises(UsageError, match="num_ranks = 4, but the launcher started 8 ranks"):
        resolve(asked, make_facts(world_size=8))


@pytest.mark.parametrize(
    ("low", "high", "factor", "sizes"),
    [
        (8, 128, 2, (8, 16, 32, 64, 128)),
        (64 * KIB, 64 * KIB, 4, (64 * KIB,)),
        (64 * KIB, MIB - 1, 4, (64 * KIB, 256 * KIB)),
        (1, 1000, 10, (1, 10, 100, 1000)),
    ],
)
def test_sweep(low: int, high: int, factor: int, sizes: tuple[int, ...]) -> None:
    """From -b to at most -e, each -f times the one before."""
    assert sizes == sweep(low, high, factor=factor)


@pytest.mark.parametrize(("low", "high", "factor"), [(8, 16, 1), (8, 16, 0), (8, 16, -2), (0, 16, 2), (17, 16, 2)])
def test_empty_and_endless_sweeps_are_refused(low: int, high: int, factor: int) -> None:
    """Named by nccl-tests' letters."""
    with pytest.raises(UsageError, match=r"^-[bf] "):
        sweep(low, high, factor=factor)


@pytest.mark.parametrize(
    ("backend", "clock"),
    [("cpu", "graph"), ("gloo", "stream"), ("standin", "both"), ("nccl_torch", "host"), ("nccl_direct", "host")],
)
def test_a_clock_that_the_ranks_lack_is_refused(backend: str, clock: str) -> None:
    """CPU ranks have the host's clock, GPUs graph and stream: another would be recorded under a wrong name."""
    with pytest.raises(UsageError, match=f"measure.clock = {clock}: {backend} ranks have the clock "):
        resolve(make_scenario(backend=backend, measure={"clock": clock}), make_facts(num_gpus=8))


@pytest.mark.parametrize(
    ("backend", "clock"), [("cpu", "host"), ("nccl_torch", "graph"), ("nccl_torch", "stream"), ("nccl_direct", "both")]
)
def test_a_clock_that_the_ranks_have_stays(backend: str, clock: str) -> None:
    """As it was asked for."""
    resolved = resolve(make_scenario(backend=backend, measure={"clock": clock}), make_facts(num_gpus=8))
    assert clock == resolved.measure.clock
