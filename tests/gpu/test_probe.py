"""What is told of real GPUs, against what torch says of them."""

import os
import subprocess
import sys
import time

from gtpbench.launch.gpu_report import place_of
from gtpbench.launch.gpus import gpus_now, hashed
from gtpbench.launch.which_nccl import library_to_load
from tests.cli.command import ROOT
from tests.markers import gpu, num_visible_gpus

TORCH = """
import torch
from gtpbench.launch.probe import libraries
device = torch.cuda.get_device_properties(0)
found = {item.name: item.version for item in libraries(with_torch=True)}
print(f"GPU-{device.uuid}", device.name, f"{device.major}.{device.minor}", found["nccl"], sep="|")
print(".".join(map(str, torch.cuda.nccl.version())), found["nccl (torch build)"], sep="|")
"""


@gpu(1)
def test_nvml_and_torch_mean_the_same_devices() -> None:
    """UUID, name and capability of device 0; the NCCL that would be loaded is the one that torch has loaded."""
    began = time.monotonic()
    found = gpus_now()
    assert time.monotonic() - began < 5
    assert len(found.states) == num_visible_gpus()
    done = subprocess.run([sys.executable, "-c", TORCH], capture_output=True, text=True, check=True, cwd=ROOT)
    device, builds = (line.split("|") for line in done.stdout.splitlines())
    uuid, name, capability, nccl = device
    first = found.states[0]
    assert (hashed(uuid), name, capability, nccl) == (first.gpu, first.name, first.compute_capability, found.nccl)
    assert (uuid, first.pci) == place_of(0, os.environ)
    assert builds[0] == builds[1]
    assert first.memory_bytes is not None
    assert first.memory_bytes > 2**30
    assert library_to_load(os.environ).split("/")[-1].startswith("libnccl.so")
