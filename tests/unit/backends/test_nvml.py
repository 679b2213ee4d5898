"""A GPU's state, and the names of what holds its clocks down."""

import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gtpbench.backends.base import DeviceState
from gtpbench.backends.nvml import Gpu, throttle_names

IDLE, BY_USER, DISPLAY = (
    pynvml.nvmlClocksEventReasonGpuIdle,
    pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    pynvml.nvmlClocksEventReasonDisplayClockSetting,
)


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("SwPowerCap", "sw_power_cap"),
        ("HwSlowdown", "hw_slowdown"),
        ("SyncBoost", "sync_boost"),
        ("SwThermalSlowdown", "sw_thermal"),
        ("HwThermalSlowdown", "hw_thermal"),
        ("HwPowerBrakeSlowdown", "hw_power_brake"),
    ],
)
def test_every_reason_has_a_name(reason: str, name: str) -> None:
    """By NVML's own bit, also beside bits that mean nothing."""
    bit = getattr(pynvml, f"nvmlClocksEventReason{reason}")
    assert (name,) == throttle_names(bit) == throttle_names(bit | IDLE | BY_USER | DISPLAY)


@pytest.mark.parametrize("reasons", [0, IDLE, BY_USER, IDLE | BY_USER, DISPLAY])
def test_an_idle_gpu_or_chosen_clocks_are_no_throttling(reasons: int) -> None:
    """Nothing holds the GPU below what it was asked for."""
    assert () == throttle_names(reasons)


def test_several_reasons_are_all_named() -> None:
    """In the order of their bits."""
    every = pynvml.nvmlClocksEventReasonAll
    named = ("sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake")
    assert named == throttle_names(every)


class FakeNvml(SimpleNamespace):
    """pynvml with one GPU; what it lacks raises."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self.answers = answers
        self.asked: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own name, as all below
        if "broken" in self.answers:
            raise self.NVMLError("no driver")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.asked.append(uuid)
        return "the gpu"

    def nvmlDeviceGetClockInfo(self, gpu: str, clock: int) -> int:  # noqa: N802
        assert ("the gpu", self.NVML_CLOCK_SM) == (gpu, clock)
        return self._answer("clock")

    def nvmlDeviceGetPowerUsage(self, gpu: str) -> int:  # noqa: N802
        return self._answer("power")

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: str) -> int:  # noqa: N802
        return self._answer("reasons")

    def _answer(self, what: str) -> int:
        if what not in self.answers:
            raise self.NVMLError("not supported")
        answer: int = self.answers[what]
        return answer


def _gpu(monkeypatch: pytest.MonkeyPatch, uuid: str = "1a2b", **answers: Any) -> tuple[Gpu, FakeNvml]:
    fake = FakeNvml(**answers)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return Gpu(uuid), fake


def test_a_state_in_the_records_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """MHz, and watts from NVML's milliwatts."""
    gpu, _ = _gpu(monkeypatch, clock=1980, power=651_500, reasons=0x4 | 0x1)
    assert DeviceState(sm_clock_mhz=1980, power_w=651.5, throttle_reasons=("sw_power_cap",)) == gpu.state()


@pytest.mark.parametrize(("uuid", "name"), [("1a2b", "GPU-1a2b"), ("GPU-1a2b", "GPU-1a2b"), ("MIG-7", "MIG-7")])
def test_the_gpu_is_found_by_its_uuid(monkeypatch: pytest.MonkeyPatch, uuid: str, name: str) -> None:
    """CUDA's has no prefix, NVML's has one; an instance has one of its own."""
    _, fake = _gpu(monkeypatch, uuid)
    assert [name] == fake.asked


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ({"clock": 1980}, DeviceState(sm_clock_mhz=1980, power_w=None, throttle_reasons=())),
        ({"power": 100_000}, DeviceState(sm_clock_mhz=None, power_w=100.0, throttle_reasons=())),
        ({"broken": True}, DeviceState(sm_clock_mhz=None, power_w=None, throttle_reasons=())),
    ],
)
def test_what_nvml_does_not_tell_is_unknown(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], state: DeviceState
) -> None:
    """Each question by itself; a run never ends for want of a driver that answers."""
    gpu, _ = _gpu(monkeypatch, **answers)
    assert state == gpu.state()
