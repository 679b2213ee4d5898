"""What ran on a device while some work was enqueued, told by CUPTI through torch's profiler."""

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile

from gtpbench.backends.base import KernelSeen

_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


def trace(work: Callable[[], None]) -> tuple[KernelSeen, ...]:
    """Run `work` and wait for it; the kernels, by demangled name and number of CTAs, and copies that ran meanwhile."""
    torch.cuda.synchronize()
    # torch.profiler.profile would import the compiler first, which takes seconds.
    with profile(use_device="cuda", use_cpu=False, use_kineto=True, acc_events=True) as profiler:
        work()
        torch.cuda.synchronize()
    # The exported trace is the public place that tells the grid.
    with tempfile.TemporaryDirectory(prefix="gtpbench-trace-") as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return rows(events)


def rows(events: list[dict[str, Any]]) -> tuple[KernelSeen, ...]:
    """The device's rows among the events of a trace file."""
    seen: Counter[tuple[str, int | None, Any]] = Counter()
    for event in events:
        kind = _KINDS.get(event.get("cat", ""))
        if kind is None:
            continue
        x, y, z = event.get("args", {}).get("grid", (0, 0, 0))
        seen[event["name"], x * y * z if kind == "kernel" else None, kind] += 1
    return tuple(
        KernelSeen(name=name, grid=grid, count=number, kind=kind) for (name, grid, kind), number in seen.items()
    )
