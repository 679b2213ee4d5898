"""What NVML says of the GPUs. Loads the driver's library, so it runs in a rank process or in one of its own:

python -m gtpbench.launch.gpu_report      prints `report()` as JSON
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gtpbench.backends.nvml import throttle_names
from gtpbench.launch.which_nccl import library_to_load, version_of

MPS_SERVER = "nvidia-cuda-mps-server"


def report(environ: Mapping[str, str]) -> dict[str, Any]:
    """Driver, the NCCL that ranks will load, and the visible GPUs in CUDA's order."""
    with _library() as nvml:
        return {
            "driver": _known(nvml, nvml.nvmlSystemGetDriverVersion),
            "nccl": version_of(library_to_load(environ)),
            "gpus": [_gpu(nvml, handle) for handle in _visible(nvml, environ)],
        }


def place_of(device: int, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """UUID and PCI id of CUDA device number `device` of this process; None where NVML does not say."""
    import pynvml

    try:
        with _library() as nvml:
            handle = _visible(nvml, environ)[device]
            return _known(nvml, nvml.nvmlDeviceGetUUID, handle), _pci(nvml, handle)
    except (pynvml.NVMLError, IndexError):
        return None, None


@contextmanager
def _library() -> Iterator[Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _visible(nvml: Any, environ: Mapping[str, str]) -> list[Any]:
    """Handles in CUDA's order. Numbers are taken in PCI order, which is CUDA's own where all GPUs are alike."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return handles
    found: list[Any] = []
    for item in chosen.split(","):
        handle = _named(nvml, item.strip(), handles)
        if handle is None:  # CUDA ignores everything from the first bad entry on
            break
        found.append(handle)
    return found


def _named(nvml: Any, item: str, handles: list[Any]) -> Any:
    """The handle that an entry of CUDA_VISIBLE_DEVICES names: a number, a UUID or its beginning, a MIG instance."""
    if item.isdecimal():
        return handles[int(item)] if int(item) < len(handles) else None
    if item.startswith("MIG-"):
        return _known(nvml, nvml.nvmlDeviceGetHandleByUUID, item)
    matching = [h for h in handles if item.startswith("GPU-") and nvml.nvmlDeviceGetUUID(h).startswith(item)]
    return matching[0] if len(matching) == 1 else None


def _gpu(nvml: Any, handle: Any) -> dict[str, Any]:
    capability = _known(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _known(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    mig = _known(nvml, nvml.nvmlDeviceGetMigMode, handle)
    reasons = _known(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle) or 0
    return {
        "name": _known(nvml, nvml.nvmlDeviceGetName, handle) or "unknown",
        "uuid": _known(nvml, nvml.nvmlDeviceGetUUID, handle),
        "pci": _pci(nvml, handle),
        "memory_bytes": memory.total if memory else None,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "mig": bool(mig and mig[0]),
        "num_processes": len(_processes(nvml, handle)),
        "throttle_reasons": throttle_names(reasons),
    }


def _pci(nvml: Any, handle: Any) -> str | None:
    """As in 00000000:17:00.0; of a MIG instance its GPU's."""
    found = _known(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    if found is None:
        whole = _known(nvml, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)
        found = _known(nvml, nvml.nvmlDeviceGetPciInfo, whole) if whole is not None else None
    return str(found.busId).lower() if found is not None else None


def _processes(nvml: Any, handle: Any) -> set[int]:
    """Processes that compute on the GPU, the server of MPS apart."""
    running = [
        *(_known(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []),
        *(_known(nvml, nvml.nvmlDeviceGetMPSComputeRunningProcesses, handle) or []),
    ]
    pids = {int(process.pid) for process in running}
    return {pid for pid in pids if not str(_known(nvml, nvml.nvmlSystemGetProcessName, pid)).endswith(MPS_SERVER)}


def _known(nvml: Any, ask: Any, *arguments: Any) -> Any:
    """The answer, or None where this GPU, driver or container does not give one."""
    try:
        return ask(*arguments)
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError):
        return None


if __name__ == "__main__":
    print(json.dumps(report(os.environ)))
