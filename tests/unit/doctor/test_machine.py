"""The host and who else is on it."""

from typing import Any

import pytest

from gtpbench.doctor.machine import (
    clocks_held_down,
    mps_without_sharing,
    others_on_the_gpu,
    shared_without_mps,
    small_shared_memory,
)
from tests.unit.doctor.environments import gpu, healthy, places

MIB = 2**20


@pytest.mark.parametrize(("size", "found"), [(64 * MIB, True), (1023 * MIB, True), (1024 * MIB, False), (None, False)])
def test_shared_memory(size: int | None, found: bool) -> None:
    """Under 1 GiB is told with the size; a host that does not say is left alone."""
    finding = small_shared_memory(healthy(shm_bytes=size))
    assert found == (finding is not None)
    assert finding is None or f"/dev/shm has {(size or 0) // MIB}MiB" in finding.text


@pytest.mark.parametrize(
    ("mps", "gpus", "missing", "needless"),
    [
        ("no", ("gpu0", "gpu1"), False, False),
        ("yes", ("gpu0", "gpu1"), False, True),
        ("no", ("gpu0", "gpu0"), True, False),
        ("yes", ("gpu0", "gpu0"), False, False),
        (None, ("gpu0", "gpu0"), False, False),
        ("no", (None, None), False, False),
        ("yes", (None, None), False, False),
        ("yes", (), False, False),
    ],
)
def test_mps(mps: str | None, gpus: tuple[str | None, ...], missing: bool, needless: bool) -> None:
    """Ranks on one GPU want it, ranks on their own do not; unknown GPUs and an unknown daemon say nothing."""
    environment = healthy(mps=mps, ranks={"0": places(*gpus)} if gpus else {})
    assert missing == (shared_without_mps(environment) is not None)
    assert needless == (mps_without_sharing(environment) is not None)


def test_sets_take_turns_and_do_not_share() -> None:
    """A rank of each of two sets on one GPU is no sharing: one set is idle."""
    environment = healthy(ranks={"0": places("gpu0", "gpu1"), "1": places("gpu0", "gpu1")})
    assert shared_without_mps(environment) is None


def _with(changed: dict[str, Any], *, ranks_on: tuple[str | None, ...]) -> Any:
    return healthy(gpu_states=(gpu(0), gpu(1, **changed)), ranks={"0": places(*ranks_on)})


def test_other_processes() -> None:
    """Of the GPUs that the ranks use, or of all where a rank does not know."""
    busy = {"num_processes": 3}
    finding = others_on_the_gpu(_with(busy, ranks_on=("gpu0", "gpu1")))
    assert finding is not None
    assert finding.text == "other processes compute on the run's GPUs: 3 on 00000000:10:00.0"
    assert others_on_the_gpu(_with(busy, ranks_on=("gpu0",))) is None
    assert others_on_the_gpu(_with(busy, ranks_on=(None,))) is not None


def test_throttling() -> None:
    """With the reasons, of the GPUs in use."""
    held = {"throttle_reasons": ("hw_slowdown", "hw_thermal")}
    finding = clocks_held_down(_with(held, ranks_on=("gpu0", "gpu1")))
    assert finding is not None
    assert "00000000:10:00.0: hw_slowdown hw_thermal" in finding.text
    assert clocks_held_down(_with(held, ranks_on=("gpu0",))) is None
    assert clocks_held_down(healthy()) is None
