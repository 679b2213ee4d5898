"""Whether MPS serves this host."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtpbench.launch import gpus
from gtpbench.launch.gpus import mps

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def daemon() -> Iterator[int]:
    """A process whose command line has the control daemon's name."""
    process = subprocess.Popen([sys.executable, "-c", SLEEP, "nvidia-cuda-mps-control", "-d"])
    try:
        while SLEEP.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # the kernel shows the new command line a moment after the start
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _pipes(folder: Path, pid: str | None) -> dict[str, str]:
    folder.mkdir()
    (folder / "control").touch()
    if pid is not None:
        (folder / "nvidia-cuda-mps-control.pid").write_text(pid, encoding="ascii")
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "PATH": "/nonexistent"}


def test_no_pipes_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither in the folder named nor in the default one; no process is started."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    monkeypatch.setattr(gpus, "DEFAULT_MPS_PIPES", str(tmp_path / "default"))
    assert "no" == mps({})
    assert "no" == mps({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})


def test_a_daemon_that_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, daemon: int) -> None:
    """By its process number, in the folder named or in the default one."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("asked"))
    environ = _pipes(tmp_path / "mps", f"{daemon}\n")
    assert "yes" == mps(environ)
    monkeypatch.setattr(gpus, "DEFAULT_MPS_PIPES", str(tmp_path / "mps"))
    assert "yes" == mps({"CUDA_MPS_PIPE_DIRECTORY": ""})


@pytest.mark.parametrize("pid", [None, "", "nonsense", "4194305", str(os.getpid())])
def test_pipes_left_behind(tmp_path: Path, pid: str | None) -> None:
    """No number, a bad one, a dead process or another one: and there is no control program to ask."""
    assert "no" == mps(_pipes(tmp_path / "mps", pid))


@pytest.mark.parametrize(
    ("script", "answer"), [("cat >/dev/null; exit 0", "yes"), ("exit 1", "no"), ("exec sleep 9", "no")]
)
def test_a_daemon_out_of_sight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, answer: str) -> None:
    """Of the host outside this container: its control program answers, or does not, or not in time."""
    monkeypatch.setattr(gpus, "_MPS_TIMEOUT_S", 0.5)
    program = tmp_path / "bin" / "nvidia-cuda-mps-control"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert answer == mps(_pipes(tmp_path / "mps", None) | {"PATH": os.environ["PATH"]})
