"""What the machine and its software are. The host part needs nothing but the standard library and psutil."""

import hashlib
import os
import platform
import socket
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from gtpbench import __version__
from gtpbench.backends.interfaces import interfaces_used
from gtpbench.launch.faults import VARIABLE as FAULT_VARIABLE
from gtpbench.launch.gpu_report import place_of
from gtpbench.launch.gpus import gpus_at_start, gpus_now, hashed, mps
from gtpbench.launch.which_nccl import nccl_libraries, settings_files
from gtpbench.record.environment import NCCL, NCCL_OF_TORCH, Library, RankPlace, expandable_segments
from gtpbench.scenario.resolve import MachineFacts
from gtpbench.versions import parse_version

ALLOWED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_SYMM", "NVSHMEM_", "CUDA_", "GLOO_", "OMP_", "PYTORCH_")
ALLOWED_NAMES = frozenset({"KMP_AFFINITY", "MKL_NUM_THREADS", "TORCH_DISTRIBUTED_DEBUG", FAULT_VARIABLE})
"""Environment variables that are recorded; everything else stays private."""

_PACKAGES = ("torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nccl4py", "nccl-extensions", "numpy")


def machine_facts(*, num_nodes: int, world_size: int | None) -> MachineFacts:
    """What resolution and the skip rules ask about this machine, without importing torch or CUDA."""
    gpus = gpus_at_start()
    capabilities = [gpu.compute_capability for gpu in gpus.states if gpu.compute_capability]
    return MachineFacts(
        num_gpus=num_gpus(),
        num_nodes=num_nodes,
        machine=platform.machine(),
        torch=_version("torch"),
        nvls_enable=os.environ.get("NCCL_NVLS_ENABLE"),
        world_size=world_size,
        nccl=gpus.nccl,
        compute_capability=min(capabilities, key=parse_version, default=None),
        mps=mps(os.environ) if gpus.states else None,
        expandable_segments="yes" if expandable_segments(os.environ) else "no",
        nccl4py=_version("nccl4py") or "missing",
    )


def num_gpus() -> int:
    """Visible NVIDIA GPUs; 0 without a driver."""
    return len(gpus_at_start().states)


def host_facts() -> dict[str, Any]:
    """The fields of `Environment` that describe this host, as it is now."""
    import psutil

    gpus, shm, nccl_conf = gpus_now(), _shared_memory(), settings_files(os.environ)
    return {
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "num_cpus": os.cpu_count() or 1,
        "memory_bytes": psutil.virtual_memory().total,
        "last_level_cache_bytes": last_level_cache_bytes(),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "kernel": platform.release(),
        "os": _os_name(),
        "python": platform.python_version(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": os.getloadavg()[0],
        "driver": gpus.driver or _driver(),
        "gpus": tuple(gpu.name for gpu in gpus.states),
        "gpu_states": gpus.states,
        "mps": mps(os.environ) if gpus.states else None,
        "shm_bytes": shm[0],
        "shm_free_bytes": shm[1],
        "container": _container(),
        "nccl_conf": tuple(nccl_conf),
        "nccl_conf_sha256": _sha256(*nccl_conf.values()),
        "variables": allowed_variables(os.environ),
        "commit": commit(),
        "tool_version": __version__,
    }


def allowed_variables(environ: Any) -> dict[str, str]:
    """The environment variables that may be recorded, sorted by name."""
    return {
        name: value
        for name, value in sorted(environ.items())
        if name.startswith(ALLOWED_PREFIXES) or name in ALLOWED_NAMES
    }


def rank_place(*, rank: int, local_rank: int, node: int, device: int | None) -> RankPlace:
    """Where this rank process runs; names of hosts and GPUs are hashed. `device` is a GPU rank's CUDA device."""
    uuid, pci = (None, None) if device is None else place_of(device, os.environ)
    return RankPlace(
        rank=rank,
        local_rank=local_rank,
        node=node,
        host=hashlib.sha256(host_name().encode()).hexdigest()[:12],
        pid=os.getpid(),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        numa=_numa_node(min(os.sched_getaffinity(0))),
        gpu=hashed(uuid),
        pci=pci,
        lsa_domain=node,
    )


def libraries(*, with_torch: bool) -> tuple[Library, ...]:
    """Packages that decide what runs.

    In a rank process (`with_torch`) also torch's own path and build, every NCCL it has loaded, `nccl` being the one
    that torch uses, and the NCCL it was built against. Elsewhere `nccl` is what rank processes will load.
    """
    found = []
    for name in _PACKAGES:
        version = _version(name)
        if version is None:
            continue
        loaded = None
        if name == "torch" and with_torch:
            version = str(sys.modules["torch"].__version__)
            loaded = _mapped_file("libtorch_cpu.so")
        found.append(_library(name, version, loaded, package="torch"))
    return (*found, *(_nccl_in_rank() if with_torch else _nccl_to_load()))


def _nccl_in_rank() -> list[Library]:
    copies = nccl_libraries()
    names = [NCCL, *(f"{NCCL} (copy {number})" for number in range(2, len(copies) + 1))]
    found = [
        _library(name, copy.version, copy.path, package="nvidia") for name, copy in zip(names, copies, strict=False)
    ]
    built = _nccl_torch_was_built_against()
    return found + ([_library(NCCL_OF_TORCH, built)] if built else [])


def _nccl_to_load() -> list[Library]:
    version = gpus_at_start().nccl
    return [_library(NCCL, version)] if version else []


def _library(name: str, version: str, file: Path | None = None, *, package: str = "") -> Library:
    """With the file's path from its package's folder on; elsewhere it may show a user's folder, so its name alone."""
    if file is None:
        return Library(name=name, version=version, path=None, sha256=None)
    *folders, inside = file.parts
    for folder in reversed(folders if package in folders else []):
        inside = f"{folder}/{inside}"
        if folder == package:
            break
    return Library(name=name, version=version, path=inside, sha256=_sha256(file))


def _nccl_torch_was_built_against() -> str | None:
    """The version that the loaded torch was compiled with; None where it has no CUDA."""
    import torch.cuda.nccl

    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except AttributeError:
        return None


def _mapped_file(name: str) -> Path | None:
    """The file of this name that is mapped into this process, as the kernel lists it."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.endswith(f"/{name}"):
            return Path(line[line.index("/") :])
    return None


def interfaces(num_nodes: int) -> list[str]:
    """The network interfaces whose bytes are counted."""
    return list(interfaces_used(num_nodes))


def load_torch(*, threads: int | None) -> None:
    """Import torch and its distributed package; with `threads` also limit intra-operation threads."""
    import torch
    import torch.distributed

    if threads is not None:
        torch.set_num_threads(threads)


def host_name() -> str:
    """This host's name."""
    return socket.gethostname()


@cache
def last_level_cache_bytes() -> int | None:
    """Size of core 0's last-level cache, None where the kernel does not say."""
    sizes = []
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = index.read_text(encoding="ascii").strip()
        sizes.append(int(text.removesuffix("K")) * 1024 if text.endswith("K") else int(text))
    return max(sizes, default=None)


def commit() -> str | None:
    """Commit of the checkout that gtpbench runs from, `+dirty` with uncommitted changes; None elsewhere."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+dirty" if changed else "")


def interface_to(address: str) -> str | None:
    """The network interface whose address this host uses to reach `address`, for gloo across hosts."""
    import psutil

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            own = probe.getsockname()[0]
    except OSError:
        return None
    for name, addresses in psutil.net_if_addrs().items():
        if any(item.address == own for item in addresses):
            return name
    return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.processor() or "unknown"


def _os_name() -> str:
    text = _read("/etc/os-release") or ""
    names = [line.split("=", 1)[1].strip('"') for line in text.splitlines() if line.startswith("PRETTY_NAME=")]
    return names[0] if names else platform.system()


def _driver() -> str | None:
    text = _read("/proc/driver/nvidia/version")
    return text.splitlines()[0] if text else None


def _container() -> str | None:
    if Path("/.dockerenv").exists():
        return "docker"
    return os.environ.get("SINGULARITY_NAME") or os.environ.get("APPTAINER_NAME")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _sha256(*paths: Path) -> str | None:
    """Of the contents of these files, one after the other; None where there is no file."""
    files = [path for path in paths if path.is_file()]
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)  # goes on with the same digest
    return digest.hexdigest() if files else None


def _shared_memory() -> tuple[int, int] | tuple[None, None]:
    """Size of /dev/shm and what is free, in bytes."""
    try:
        state = os.statvfs("/dev/shm")
    except OSError:
        return None, None
    return state.f_frsize * state.f_blocks, state.f_frsize * state.f_bavail


def _numa_node(cpu: int) -> int | None:
    """The NUMA node of a core, as the kernel links it; None where it does not."""
    nodes = [entry.name.removeprefix("node") for entry in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")]
    return int(nodes[0]) if nodes else None
