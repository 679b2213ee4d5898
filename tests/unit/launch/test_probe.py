"""What a supervisor and a rank tell of machine and software."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from gtpbench.launch import probe
from gtpbench.launch.gpus import Gpus
from gtpbench.launch.which_nccl import LoadedNccl
from gtpbench.record.environment import expandable_segments
from tests.unit.doctor.environments import gpu

TWO = Gpus(driver="580.1", nccl="2.30.7", states=(gpu(0), gpu(1, compute_capability="10.0")))
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NCCL_NVLS_ENABLE")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with two GPUs and no variables."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(probe, "gpus_at_start", lambda: TWO)
    monkeypatch.setattr(probe, "gpus_now", lambda: TWO)
    monkeypatch.setattr(probe, "mps", lambda _: "yes")


def _facts() -> Any:
    return probe.machine_facts(num_nodes=1, world_size=None)


def test_facts_of_a_gpu_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least capability of the visible GPUs, the NCCL to come, and whether MPS runs."""
    facts = _facts()
    assert (2, "2.30.7", "9.0", "yes", "no") == (
        facts.num_gpus,
        facts.nccl,
        facts.compute_capability,
        facts.mps,
        facts.expandable_segments,
    )
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    assert "yes" == _facts().expandable_segments
    unsaid = Gpus(states=(gpu(0, compute_capability=None),))
    monkeypatch.setattr(probe, "gpus_at_start", lambda: unsaid)
    assert (1, None, None) == (_facts().num_gpus, _facts().nccl, _facts().compute_capability)


def test_facts_of_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked about MPS."""
    monkeypatch.setattr(probe, "gpus_at_start", Gpus)
    monkeypatch.setattr(probe, "mps", lambda _: pytest.fail("asked"))
    facts = _facts()
    assert (0, None, None, None) == (facts.num_gpus, facts.nccl, facts.compute_capability, facts.mps)


def test_a_package_that_is_missing_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike a version that is not known."""
    monkeypatch.setattr(probe, "_version", {"nccl4py": "0.6.0"}.get)
    assert ("0.6.0", None) == (_facts().nccl4py, _facts().torch)
    monkeypatch.setattr(probe, "_version", lambda _: None)
    assert "missing" == _facts().nccl4py


def test_host_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GPUs as they are now, shared memory, and NCCL's settings by kind and hash."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"NCCL_ALGO=Ring\n")
    other.write_bytes(b"NCCL_PROTO=LL\n")
    monkeypatch.setattr(probe, "settings_files", lambda _: {"~/.nccl.conf": one, "/etc/nccl.conf": other})
    facts = probe.host_facts()
    assert (("NVIDIA H200",) * 2, TWO.states, "580.1", "yes") == (
        facts["gpus"],
        facts["gpu_states"],
        facts["driver"],
        facts["mps"],
    )
    assert ("~/.nccl.conf", "/etc/nccl.conf") == facts["nccl_conf"]
    assert hashlib.sha256(b"NCCL_ALGO=Ring\nNCCL_PROTO=LL\n").hexdigest() == facts["nccl_conf_sha256"]
    assert 0 <= facts["shm_free_bytes"] <= facts["shm_bytes"]


def test_a_host_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown, not zero."""

    def missing(_: str) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(probe.os, "statvfs", missing)
    monkeypatch.setattr(probe, "settings_files", lambda _: {})
    facts = probe.host_facts()
    assert (None, None, (), None) == (
        facts["shm_bytes"],
        facts["shm_free_bytes"],
        facts["nccl_conf"],
        facts["nccl_conf_sha256"],
    )


def test_a_gpu_rank_names_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the hash that the host's GPUs are listed under; a CPU rank asks nobody."""
    monkeypatch.setattr(probe, "place_of", lambda device, _: (f"GPU-{device}", "00000000:1f:00.0"))
    place = probe.rank_place(rank=5, local_rank=1, node=1, device=3)
    assert (hashlib.sha256(b"GPU-3").hexdigest()[:12], "00000000:1f:00.0") == (place.gpu, place.pci)
    monkeypatch.setattr(probe, "place_of", lambda *_: pytest.fail("asked"))
    place = probe.rank_place(rank=0, local_rank=0, node=0, device=None)
    assert (None, None) == (place.gpu, place.pci)


def _versions(*, with_torch: bool) -> dict[str, str]:
    found = probe.libraries(with_torch=with_torch)
    return {item.name: item.version for item in found if item.name.startswith("nccl")}


def test_libraries_of_a_rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every copy of NCCL with path and hash, and the one torch was built against."""
    import torch

    monkeypatch.setattr(probe, "_version", lambda name: "2.13.0" if name == "torch" else None)
    file, other = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2", tmp_path / "libnccl.so.2"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"library")
    other.write_bytes(b"another")
    copies = (LoadedNccl(path=file, version="2.30.7"), LoadedNccl(path=other, version="2.28.9"))
    monkeypatch.setattr(probe, "nccl_libraries", lambda: copies)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 28, 9))
    assert {"nccl": "2.30.7", "nccl (copy 2)": "2.28.9", "nccl (torch build)": "2.28.9"} == _versions(with_torch=True)
    found = {item.name: (item.path, item.sha256) for item in probe.libraries(with_torch=True)}
    assert ("nvidia/nccl/lib/libnccl.so.2", hashlib.sha256(b"library").hexdigest()) == found["nccl"]
    assert ("libnccl.so.2", hashlib.sha256(b"another").hexdigest()) == found["nccl (copy 2)"]


def test_a_torch_without_cuda_has_no_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither loaded nor built."""
    import torch

    def missing() -> Any:
        raise AttributeError("module 'torch._C' has no attribute '_nccl_version'")

    monkeypatch.setattr(probe, "_version", lambda name: "2.13.0" if name == "torch" else None)
    monkeypatch.setattr(probe, "nccl_libraries", lambda: ())
    monkeypatch.setattr(torch.cuda.nccl, "version", missing)
    assert {} == _versions(with_torch=True)


def test_before_ranks_start_nccl_is_the_one_they_will_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is one to be seen."""
    monkeypatch.setattr(probe, "_version", lambda _: None)
    assert {"nccl": "2.30.7"} == _versions(with_torch=False)
    monkeypatch.setattr(probe, "gpus_at_start", Gpus)
    assert {} == _versions(with_torch=False)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, True),
        ({"PYTORCH_CUDA_ALLOC_CONF": "a:1,expandable_segments:True"}, True),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, False),
        ({}, False),
    ],
)
def test_expandable_segments(variables: dict[str, str], told: bool) -> None:
    """Under the old name and the new."""
    assert told == expandable_segments(variables)
