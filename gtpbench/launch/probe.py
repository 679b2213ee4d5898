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
from gtpbench.record.environment import Library, RankPlace
from gtpbench.scenario.resolve import MachineFacts

ALLOWED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_SYMM", "NVSHMEM_", "CUDA_", "GLOO_", "OMP_", "PYTORCH_")
ALLOWED_NAMES = frozenset({"KMP_AFFINITY", "MKL_NUM_THREADS", "TORCH_DISTRIBUTED_DEBUG", FAULT_VARIABLE})
"""Environment variables that are recorded; everything else stays private."""

_PACKAGES = ("torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nccl4py", "nccl-extensions", "numpy")


def machine_facts(*, num_nodes: int, world_size: int | None) -> MachineFacts:
    """What resolution and the skip rules ask about this machine, without importing torch or CUDA."""
    return MachineFacts(
        num_gpus=num_gpus(),
        num_nodes=num_nodes,
        machine=platform.machine(),
        torch=_version("torch"),
        nvls_enable=os.environ.get("NCCL_NVLS_ENABLE"),
        world_size=world_size,
    )


def num_gpus() -> int:
    """Visible NVIDIA GPUs, counted by NVML in a process of its own; 0 without a driver."""
    if not Path("/proc/driver/nvidia/version").exists():
        return 0
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([item for item in visible.split(",") if item.strip() and item.strip() != "-1"])
    code = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return int(done.stdout) if done.returncode == 0 else 0


def host_facts() -> dict[str, Any]:
    """The fields of `Environment` that describe this host."""
    import psutil

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
        "driver": _driver(),
        "gpus": (),
        "container": _container(),
        "nccl_conf_sha256": _sha256(Path("/etc/nccl.conf")),
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


def rank_place(*, rank: int, local_rank: int, node: int, on_gpu: bool) -> RankPlace:
    """Where this rank process runs; host names are hashed."""
    assert not on_gpu, "GPU ranks describe their device themselves"
    return RankPlace(
        rank=rank,
        local_rank=local_rank,
        node=node,
        host=hashlib.sha256(host_name().encode()).hexdigest()[:12],
        pid=os.getpid(),
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        numa=_numa_node(min(os.sched_getaffinity(0))),
        gpu=None,
        pci=None,
        lsa_domain=node,
    )


def libraries(*, with_torch: bool) -> tuple[Library, ...]:
    """Packages that decide what runs; in a rank process with the loaded torch's own path and build."""
    found = []
    for name in _PACKAGES:
        version = _version(name)
        if version is None:
            continue
        loaded = None
        if name == "torch" and with_torch:
            version = str(sys.modules["torch"].__version__)
            loaded = _mapped_file("libtorch_cpu.so")
        found.append(
            Library(
                name=name,
                version=version,
                path="/".join(loaded.parts[-3:]) if loaded else None,
                sha256=_sha256(loaded) if loaded else None,
            )
        )
    return tuple(found)


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


def _sha256(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _numa_node(cpu: int) -> int | None:
    """The NUMA node of a core, as the kernel links it; None where it does not."""
    nodes = [entry.name.removeprefix("node") for entry in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*")]
    return int(nodes[0]) if nodes else None
