"""A module like pynvml over GPUs made by hand; it can be put on a child's path as pynvml.py too."""

from types import SimpleNamespace
from typing import Any


class FakeNvml:
    """The calls that gtpbench makes. A GPU is a dict; what it lacks raises, as NVML does on other hardware."""

    class NVMLError(Exception):
        """What NVML raises."""

    class NVMLLibraryMismatchError(Exception):
        """What pynvml raises in place of a missing function."""

    def __init__(self, *gpus: dict[str, Any], names: dict[int, str] | None = None, broken: bool = False) -> None:
        self.gpus, self.names, self.broken = list(gpus), names or {}, broken
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own name, as all below
        if self.broken:
            raise self.NVMLError("no driver")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> dict[str, Any]:  # noqa: N802
        for gpu in self.gpus:
            for instance in gpu.get("instances", ()):
                if instance["uuid"] == uuid:
                    return {**instance, "parent": gpu}
        raise self.NVMLError("not found")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.159.04"

    def nvmlSystemGetProcessName(self, pid: int) -> str:  # noqa: N802
        if pid not in self.names:
            raise self.NVMLError("not found")
        return self.names[pid]

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        if "pids" not in gpu:
            raise self.NVMLLibraryMismatchError("an old driver")
        return [SimpleNamespace(pid=pid) for pid in gpu["pids"]]

    def nvmlDeviceGetMPSComputeRunningProcesses(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self._of(gpu, "mps_pids")]

    def nvmlDeviceGetPciInfo(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(busId=self._of(gpu, "pci"))

    def nvmlDeviceGetMemoryInfo(self, gpu: dict[str, Any]) -> Any:  # noqa: N802
        return SimpleNamespace(total=self._of(gpu, "memory"))

    def __getattr__(self, name: str) -> Any:
        keys = {
            "nvmlDeviceGetUUID": "uuid",
            "nvmlDeviceGetName": "name",
            "nvmlDeviceGetCudaComputeCapability": "capability",
            "nvmlDeviceGetMigMode": "mig",
            "nvmlDeviceGetCurrentClocksEventReasons": "reasons",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "parent",
        }
        return lambda gpu: self._of(gpu, keys[name])

    def _of(self, gpu: dict[str, Any], key: str) -> Any:
        if key not in gpu:
            raise self.NVMLError("not supported")
        return gpu[key]


def h200(number: int, **changed: Any) -> dict[str, Any]:
    """An idle H200."""
    return {
        "uuid": f"GPU-{number}a2b-33",
        "name": "NVIDIA H200",
        "pci": f"00000000:{number}F:00.0",
        "memory": 150754820096,
        "capability": (9, 0),
        "mig": [0, 0],
        "pids": [],
        "mps_pids": [],
        "reasons": 0x1,
        **changed,
    }
