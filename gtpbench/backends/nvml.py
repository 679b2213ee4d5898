"""State of one GPU while a run lasts, from NVML. Never changes a setting."""

from contextlib import suppress
from typing import Any

from gtpbench.backends.base import DeviceState

_HARMLESS = 0x1 | 0x2
"""Clock event reasons that are no throttling: idle, and clocks as the user set them."""
_REASONS = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""NVML's nvmlClocksEventReason bits."""


class Gpu:
    """One GPU by its UUID; every question it cannot answer is None."""

    def __init__(self, uuid: str) -> None:
        """`uuid` as CUDA gives it, with or without the prefix `GPU-`. Local."""
        self._nvml: Any = None
        self._handle: Any = None
        with suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(name)
            self._nvml = pynvml

    def state(self) -> DeviceState:
        """The state now. Local."""
        clock = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))
        power_mw = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu))
        reasons = self._ask(lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
        return DeviceState(
            sm_clock_mhz=clock,
            power_w=None if power_mw is None else power_mw / 1000.0,
            throttle_reasons=throttle_names(reasons or 0),
        )

    def _ask(self, question: Any) -> Any:
        if self._nvml is None:
            return None
        try:
            return question(self._nvml, self._handle)
        except self._nvml.NVMLError:
            return None


def throttle_names(reasons: int) -> tuple[str, ...]:
    """The names of the set bits that mean throttling."""
    left = reasons & ~_HARMLESS
    return tuple(name for bit, name in _REASONS.items() if left & bit)
