"""Checks of the host: its GPUs, who else uses them, MPS, shared memory."""

from collections import Counter

from gtpbench.record.environment import Environment, Finding, GpuState
from gtpbench.units import format_size

MIN_SHM_BYTES = 2**30
"""NCCL's processes of one host talk through /dev/shm; containers often have 64 MiB."""


def small_shared_memory(environment: Environment) -> Finding | None:
    """/dev/shm may be too small for NCCL."""
    size = environment.shm_bytes
    if size is None or size >= MIN_SHM_BYTES:
        return None
    return Finding(
        code="small_shm",
        severity="warning",
        text=f"/dev/shm has {format_size(size)}, and NCCL's processes share memory there",
        advice=f"give it {format_size(MIN_SHM_BYTES)} or more, for example docker --shm-size=1g or --ipc=host",
    )


def shared_without_mps(environment: Environment) -> Finding | None:
    """Ranks share a GPU by time slices."""
    if environment.mps != "no" or _ranks_share(environment) is not True:
        return None
    return Finding(
        code="no_mps",
        severity="warning",
        text="ranks share a GPU without MPS: every collective waits milliseconds for its time slices",
        advice="nvidia-cuda-mps-control -d lets them run at the same time; paths and correctness stand without it",
    )


def mps_without_sharing(environment: Environment) -> Finding | None:
    """MPS between ranks and GPUs that nobody shares."""
    if environment.mps != "yes" or _ranks_share(environment) is not False:
        return None
    return Finding(
        code="needless_mps",
        severity="note",
        text="an MPS daemon serves this host, and each rank has a GPU of its own",
        advice="compare with runs under MPS only",
    )


def others_on_the_gpu(environment: Environment) -> Finding | None:
    """Processes that were there before the run."""
    busy = {gpu.pci or gpu.name: gpu.num_processes for gpu in _used(environment) if gpu.num_processes}
    if not busy:
        return None
    told = ", ".join(f"{number} on {name}" for name, number in busy.items())
    return Finding(
        code="gpu_in_use",
        severity="warning",
        text=f"other processes compute on the run's GPUs: {told}",
        advice="times include waiting for them",
    )


def clocks_held_down(environment: Environment) -> Finding | None:
    """A GPU is throttled before any work."""
    held = [gpu for gpu in _used(environment) if gpu.throttle_reasons]
    if not held:
        return None
    told = ", ".join(f"{gpu.pci or gpu.name}: {' '.join(gpu.throttle_reasons)}" for gpu in held)
    return Finding(
        code="throttled",
        severity="warning",
        text=f"clocks are held down before the run begins ({told})",
        advice="look at cooling and power; times will be those of a slower GPU",
    )


def _ranks_share(environment: Environment) -> bool | None:
    """Whether two ranks of one set sit on one GPU; None where a rank does not know its own."""
    sets = [Counter(place.gpu for place in places) for places in environment.ranks.values()]
    if not sets or any(None in gpus for gpus in sets):
        return None
    return any(count > 1 for gpus in sets for count in gpus.values())


def _used(environment: Environment) -> list[GpuState]:
    """The GPUs of the ranks, or all visible ones where a rank does not know its own."""
    used = {place.gpu for places in environment.ranks.values() for place in places}
    return [gpu for gpu in environment.gpu_states if None in used or gpu.gpu in used]
