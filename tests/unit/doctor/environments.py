"""Environments of GPU hosts made by hand: eight H200, nothing the matter with them."""

from typing import Any

from gtpbench.record.environment import NCCL, NCCL_OF_TORCH, Environment, GpuState, Library, RankPlace
from tests.examples import make_environment


def library(name: str, version: str, path: str | None = None) -> Library:
    """A library without a file's hash."""
    return Library(name=name, version=version, path=path, sha256=None)


def nccl(loaded: str, built: str | None = None, torch: str = "2.14.0") -> tuple[Library, ...]:
    """Torch with the NCCL that is loaded and the one it was built against."""
    libraries = (library("torch", torch), library(NCCL, loaded))
    return (*libraries, library(NCCL_OF_TORCH, built)) if built else libraries


def gpu(number: int, **changed: Any) -> GpuState:
    """An idle H200; its hash is `gpuN`."""
    fields: dict[str, Any] = {
        "name": "NVIDIA H200",
        "gpu": f"gpu{number}",
        "pci": f"00000000:{number}0:00.0",
        "memory_bytes": 141 * 2**30,
        "compute_capability": "9.0",
        "mig": False,
        "num_processes": 0,
        "throttle_reasons": (),
    }
    return GpuState(**{**fields, **changed})


def places(*gpus: str | None) -> tuple[RankPlace, ...]:
    """One rank on each GPU named."""
    return tuple(
        RankPlace(
            rank=rank,
            local_rank=rank,
            node=0,
            host="host",
            pid=100 + rank,
            cpus=(rank,),
            numa=0,
            gpu=name,
            pci=None,
            lsa_domain=0,
        )
        for rank, name in enumerate(gpus)
    )


def healthy(**changed: Any) -> Environment:
    """Two ranks on two of eight H200, torch 2.14 with the NCCL it pins."""
    fields: dict[str, Any] = {
        "gpus": ("NVIDIA H200",) * 8,
        "gpu_states": tuple(gpu(number) for number in range(8)),
        "driver": "580.159.04",
        "mps": "no",
        "shm_bytes": 2**36,
        "shm_free_bytes": 2**36,
        "libraries": nccl("2.30.7", "2.30.7"),
        "ranks": {"0": places("gpu0", "gpu1")},
    }
    return make_environment(**{**fields, **changed})
