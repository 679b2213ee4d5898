"""Runs the real command in a process of its own, as a user would, and looks for what it left behind."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
_LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float


@dataclass(kw_only=True)
class Command:
    """A command line to run; `token` marks its processes, so that orphans can be found."""

    words: Sequence[str]
    cwd: Path
    env: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, *, timeout: float = 120) -> Outcome:
        """Run to the end. A traceback on stderr or a process left behind fails the test."""
        began = time.monotonic()
        with self.started() as process:
            stdout, stderr = process.communicate(timeout=timeout)
        outcome = Outcome(code=process.returncode, stdout=stdout, stderr=stderr, seconds=time.monotonic() - began)
        assert "Traceback" not in stderr, stderr
        assert self.processes() == []
        return outcome

    @contextmanager
    def started(self) -> Iterator["subprocess.Popen[str]"]:
        """The running process; killed with everything it started when the context ends."""
        environment = {name: value for name, value in os.environ.items() if name not in _LAUNCHER_VARIABLES}
        process = subprocess.Popen(
            list(self.words),
            cwd=self.cwd,
            env={**environment, "GTPBENCH_TEST_TOKEN": self.token, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def processes(self) -> list[str]:
        """Command lines of processes that still carry the token, after a moment to end."""
        deadline = time.monotonic() + 5
        while (found := self._marked()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _marked(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("GTPBENCH_TEST_TOKEN") == self.token:
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        return found


def gtpbench(*words: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Command:
    """`gtpbench WORDS…` in this Python."""
    return Command(words=[sys.executable, "-m", "gtpbench", *map(str, words)], cwd=cwd, env=env or {})


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of a run folder as plain values."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def write_scenario(path: Path, text: str) -> Path:
    """A scenario file."""
    path.write_text(text, encoding="utf-8")
    return path
