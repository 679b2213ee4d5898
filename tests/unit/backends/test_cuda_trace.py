"""What the profiler's trace file says of a device, on events written by hand."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from gtpbench.backends import cuda_trace
from gtpbench.backends.base import KernelSeen
from gtpbench.backends.cuda_trace import rows
from tests.unit.backends.fake_cuda import FakeTorch

RING = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPY = "Memcpy DtoD (Device -> Device)"


def kernel(name: str, grid: list[int]) -> dict[str, Any]:
    """A kernel as the trace file has it."""
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1.0, "dur": 9.0, "args": {"stream": 7, "grid": grid}}


EVENTS: list[dict[str, Any]] = [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "args": {"grid": [1, 1, 1]}},
    kernel(RING, [16, 1, 1]),
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3},
    kernel(RING, [16, 1, 1]),
    {"ph": "X", "cat": "gpu_memcpy", "name": COPY, "args": {"bytes": 4096}},
    kernel(RING, [4, 3, 2]),
    {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "args": {}},
    {"ph": "X", "cat": "cpu_op", "name": "nccl:all_gather"},
    {"ph": "X", "cat": "gpu_memcpy", "name": COPY, "args": {"bytes": 4096}},
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
    kernel(RING, [16, 1, 1]),
    {"ph": "X", "cat": "gpu_user_annotation", "name": "nccl:all_gather"},
    {"ph": "X", "cat": "cuda_sync", "name": "Stream Synchronize"},
]
SEEN = (
    KernelSeen(name=RING, grid=16, count=3),
    KernelSeen(name=COPY, grid=None, count=2, kind="memcpy"),
    KernelSeen(name=RING, grid=24, count=1),
    KernelSeen(name="Memset (Device)", grid=None, count=1, kind="memset"),
)


def test_rows_are_what_ran_on_the_device() -> None:
    """Counted by name and CTAs in order of their first; what the host did, and annotations, are not among them."""
    assert rows(EVENTS) == SEEN


def test_a_trace_without_a_device_has_no_rows() -> None:
    """Nothing ran, or CUPTI saw nothing."""
    assert () == rows([]) == rows([event for event in EVENTS if event.get("cat") == "cpu_op"])


def test_only_the_work_is_in_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is idle when tracing begins, and the work has run when it ends; the file does not stay."""
    log: list[str] = []
    written: list[Path] = []

    class Profile:
        def __init__(self, **_: Any) -> None:
            pass

        def __enter__(self) -> "Profile":
            log.append("begin")
            return self

        def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
            log.append("end")

        def export_chrome_trace(self, path: str) -> None:
            written.append(Path(path))
            written[0].write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}), encoding="utf-8")

    monkeypatch.setattr(cuda_trace, "torch", FakeTorch(log))
    monkeypatch.setattr(cuda_trace, "profile", Profile)
    assert cuda_trace.trace(lambda: log.append("work")) == SEEN
    assert ["synchronize", "begin", "work", "synchronize", "end"] == log
    assert not written[0].parent.exists()
