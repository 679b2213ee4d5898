"""What NVML is asked, and how devices are told apart."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gtpbench.launch import gpu_report, gpus
from gtpbench.launch.gpu_report import place_of, report
from gtpbench.launch.gpus import Gpus, gpus_now, hashed
from gtpbench.record.environment import GpuState
from tests.cli.command import ROOT
from tests.unit.launch.fake_nvml import FakeNvml, h200


@pytest.fixture(autouse=True)
def no_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NCCL is loaded."""
    monkeypatch.setattr(gpu_report, "version_of", lambda library: f"version of {library}")


def _use(monkeypatch: pytest.MonkeyPatch, *devices: dict[str, Any], **other: Any) -> FakeNvml:
    fake = FakeNvml(*devices, **other)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_report_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything the record needs; NVML is closed again."""
    device = h200(1, pids=[7, 8], mps_pids=[8, 9], reasons=0x1 | 0x4 | 0x40, mig=[1, 1])
    fake = _use(monkeypatch, device, names={8: "/usr/bin/nvidia-cuda-mps-server", 7: "python"})
    assert report({"LD_PRELOAD": "/x/libnccl.so.2"}) == {
        "driver": "580.159.04",
        "nccl": "version of /x/libnccl.so.2",
        "gpus": [
            {
                "name": "NVIDIA H200",
                "uuid": "GPU-1a2b-33",
                "pci": "00000000:1f:00.0",
                "memory_bytes": 150754820096,
                "compute_capability": "9.0",
                "mig": True,
                "num_processes": 2,
                "throttle_reasons": ("sw_power_cap", "hw_thermal"),
            }
        ],
    }
    assert fake.open == 0


def test_what_a_gpu_does_not_say_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question by itself."""
    _use(monkeypatch, {})
    assert report({})["gpus"] == [
        {
            "name": "unknown",
            "uuid": None,
            "pci": None,
            "memory_bytes": None,
            "compute_capability": None,
            "mig": False,
            "num_processes": 0,
            "throttle_reasons": (),
        }
    ]


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("-1", []),
        ("0,-1,2", [0]),
        ("0,7,2", [0]),
        ("GPU-1a2b-33", [1]),
        ("GPU-1,GPU-2a", [1, 2]),
        ("GPU-", []),
        ("GPU-9", []),
        ("1a2b", []),
        ("MIG-5,0", [2, 0]),
        ("MIG-6", []),
    ],
)
def test_visible_devices(monkeypatch: pytest.MonkeyPatch, chosen: str | None, numbers: list[int]) -> None:
    """Numbers, UUIDs, their beginnings if only one fits, MIG instances; the first bad entry ends the list."""
    instance = {"uuid": "MIG-5", "name": "NVIDIA H200 MIG 1g.18gb"}
    _use(monkeypatch, h200(0), h200(1), h200(2, instances=[instance]))
    environ = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert [f"00000000:{number}f:00.0" for number in numbers] == [gpu["pci"] for gpu in report(environ)["gpus"]]
    for device, number in enumerate(numbers):
        uuid, pci = place_of(device, environ)
        assert uuid in {f"GPU-{number}a2b-33", "MIG-5"}
        assert f"00000000:{number}f:00.0" == pci
    assert (None, None) == place_of(len(numbers), environ)


def test_a_rank_without_nvml_does_not_know_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs all the same."""
    _use(monkeypatch, broken=True)
    assert (None, None) == place_of(0, {})


def test_without_a_driver_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No process is started."""
    monkeypatch.setattr(gpus, "DRIVER_FILE", str(tmp_path / "missing"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    assert Gpus() == gpus_now()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A host with a driver, whose pynvml is a file that a test writes."""
    (tmp_path / "version").touch()
    monkeypatch.setattr(gpus, "DRIVER_FILE", str(tmp_path / "version"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "pynvml.py"


def test_gpus_are_asked_in_a_process_of_their_own(driver: Path) -> None:
    """What NVML says there comes back, with UUIDs hashed; this process has not loaded NVML."""
    driver.write_text(
        "import sys\n"
        "from tests.unit.launch.fake_nvml import FakeNvml, h200\n"
        "sys.modules['pynvml'] = FakeNvml(h200(4), h200(5, pids=[1]))\n",
        encoding="utf-8",
    )
    found = gpus_now()
    assert "580.159.04" == found.driver
    assert (hashed("GPU-4a2b-33"), hashed("GPU-5a2b-33")) == tuple(state.gpu for state in found.states)
    assert found.states[1] == GpuState(
        name="NVIDIA H200",
        gpu=hashed("GPU-5a2b-33"),
        pci="00000000:5f:00.0",
        memory_bytes=150754820096,
        compute_capability="9.0",
        mig=False,
        num_processes=1,
        throttle_reasons=(),
    )


def test_nvml_that_fails_is_no_gpu(driver: Path) -> None:
    """A mismatched driver is told by whoever uses the GPU, not by a traceback here."""
    driver.write_text("raise ImportError('no NVML')\n", encoding="utf-8")
    assert Gpus() == gpus_now()


def test_a_hash_in_place_of_a_name() -> None:
    """Twelve digits of SHA-256; nothing of nothing."""
    import hashlib

    assert hashlib.sha256(b"GPU-1").hexdigest()[:12] == hashed("GPU-1")
    assert hashed(None) is None
