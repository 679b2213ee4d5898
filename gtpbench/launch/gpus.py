"""What the supervisor knows of this host's GPUs, without loading a driver itself, and whether MPS runs."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from gtpbench.record.environment import GpuState

DRIVER_FILE = "/proc/driver/nvidia/version"
DEFAULT_MPS_PIPES = "/tmp/nvidia-mps"
_MPS_CONTROL = "nvidia-cuda-mps-control"
_REPORT_TIMEOUT_S = 60
_MPS_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The visible GPUs at one moment."""

    driver: str | None = None
    nccl: str | None = None
    """Version of the library that rank processes will load."""
    states: tuple[GpuState, ...] = ()


def gpus_now() -> Gpus:
    """Ask NVML and NCCL in a process of its own; nothing without a driver, and where NVML fails."""
    if not Path(DRIVER_FILE).exists():
        return Gpus()
    command = [sys.executable, "-m", "gtpbench.launch.gpu_report"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_REPORT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return Gpus()
    told = json.loads(done.stdout)
    states = [
        GpuState.model_validate(
            gpu | {"gpu": hashed(gpu.pop("uuid")), "throttle_reasons": tuple(gpu["throttle_reasons"])}
        )
        for gpu in told["gpus"]
    ]
    return Gpus(driver=told["driver"], nccl=told["nccl"], states=tuple(states))


@cache
def gpus_at_start() -> Gpus:
    """What `gpus_now` gave first, for what does not change while a command runs."""
    return gpus_now()


def hashed(name: str | None) -> str | None:
    """The first 12 hex digits of a name's SHA-256, in place of the name."""
    return None if name is None else hashlib.sha256(name.encode()).hexdigest()[:12]


def mps(environ: Mapping[str, str]) -> Literal["yes", "no"]:
    """Whether an MPS control daemon serves the processes of this environment."""
    pipes = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or DEFAULT_MPS_PIPES)
    try:
        if not (pipes / "control").exists():
            return "no"
        pid = int((pipes / f"{_MPS_CONTROL}.pid").read_text(encoding="ascii"))
        if _MPS_CONTROL in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8"):
            return "yes"
    except (OSError, ValueError):
        pass  # a daemon outside this container's processes can still answer
    return "yes" if _daemon_answers(environ) else "no"


def _daemon_answers(environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            [_MPS_CONTROL],
            input="get_server_list\n",
            capture_output=True,
            text=True,
            timeout=_MPS_TIMEOUT_S,
            check=False,
            env=dict(environ),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
