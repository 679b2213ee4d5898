"""Registration cases on a real GPU: times, proof of the windows, memory that comes back. Run by scripts/test-gpu."""

import importlib.util
import os
from typing import Any

import pytest

from gtpbench.measure.registration import RankRegistration
from tests.contract.ranks import run_ranks
from tests.contract.registering import whole_case
from tests.markers import gpu

MIB = 2**20
SIZES = (8 * MIB, 64 * 2**10, 32 * MIB)
BOTH = [
    "nccl_torch",
    pytest.param(
        "nccl_direct",
        marks=pytest.mark.skipif(importlib.util.find_spec("nccl") is None, reason="nccl4py is not installed"),
    ),
]


@gpu(1)
@pytest.mark.parametrize("backend", BOTH)
@pytest.mark.parametrize(("arm", "family"), [("symm", "ncclSym"), ("registered", "ncclDevKernel")])
def test_a_set_is_registered_used_and_gone(
    backend: str, arm: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block has times, the data are right, the kernel is of the arm's kind, and memory comes back."""
    import torch  # noqa: F401  # loads NCCL

    from gtpbench.backends.nccl_library import version

    if version() < (2, 30, 0):
        pytest.skip("two ranks share a GPU from NCCL 2.30 on")
    monkeypatch.setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1")
    monkeypatch.setenv("NCCL_NVLS_ENABLE", os.environ.get("NCCL_NVLS_ENABLE", "0"))
    options: dict[str, Any] = {"timeout_s": 20.0, "kill_after_s": 60.0, "device": 0}
    (told, left), *_ = run_ranks(2, whole_case, arm, SIZES, False, backend=backend, **options)
    assert (0, 0, 0) == left
    for text in told:
        cell = RankRegistration.model_validate_json(text)
        assert all(min(times.time_us) > 0.0 for times in cell.phases.values())
        assert 0 == cell.verification.num_wrong
        (piece,) = cell.evidence
        assert 2 == piece.calls == sum(row.count for row in piece.kernels if family in row.name)
        memory = cell.memory
        assert memory.free_before_bytes is not None and memory.free_after_bytes is not None
        assert memory.free_released_bytes is not None
        assert memory.free_before_bytes - memory.free_after_bytes >= sum(SIZES)
        assert memory.free_released_bytes > memory.free_after_bytes
