"""All marks in one file, as objects: a test that needs something says so, and is skipped with the reason."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

_Test = TypeVar("_Test", bound=Callable[..., Any])

ranks = pytest.mark.ranks
slow = pytest.mark.slow
_no_root = "needs root and iproute2's `ip`"


def root(test: _Test) -> _Test:
    """Needs root and `ip`: network namespaces, small file systems."""
    may_not = os.geteuid() != 0 or shutil.which("ip") is None
    marked: _Test = pytest.mark.root(pytest.mark.skipif(may_not, reason=_no_root)(test))
    return marked


def gpu(num_gpus: int) -> Callable[[_Test], _Test]:
    """Needs `num_gpus` visible NVIDIA GPUs."""
    visible = num_visible_gpus()
    reason = f"needs {num_gpus} visible NVIDIA GPUs, found {visible}"

    def mark(test: _Test) -> _Test:
        marked: _Test = pytest.mark.gpu(num_gpus)(pytest.mark.skipif(visible < num_gpus, reason=reason)(test))
        return marked

    return mark


def num_visible_gpus() -> int:
    """GPUs that the driver lists and CUDA_VISIBLE_DEVICES leaves, without loading CUDA."""
    folder = Path("/proc/driver/nvidia/gpus")
    present = sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return present
    named = 0
    for item in chosen.split(","):
        if item.strip() in {"", "-1"}:  # CUDA ignores everything from the first bad entry on
            break
        named += 1
    return min(present, named)
