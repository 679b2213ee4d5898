"""The output folder of a run: made once, appended to, never overwritten."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from gtpbench.errors import IncomparableError, ResultsError, UsageError
from gtpbench.plan import Plan
from gtpbench.record import (
    Environment,
    Record,
    append_line,
    differing_fields,
    read_environments,
    read_records,
    repair_torn_line,
)
from gtpbench.record.lines import ENVIRONMENTS, RESULTS
from gtpbench.scenario.load import dump_scenario

SCENARIO = "scenario.toml"


class RunFolder:
    """Where one run's records go. Every record is on disk before the next cell begins."""

    def __init__(self, path: Path, *, records: list[Record], environments: dict[str, Environment], lock: int) -> None:
        """Use `create` or `reopen`."""
        self.path = path
        self.records = records
        self.environments = environments
        self._lock = lock

    @classmethod
    def create(cls, path: Path, plan: Plan) -> "RunFolder":
        """A new folder with the resolved scenario in it.

        Raises:
            UsageError: the folder exists and holds something, or another run writes to it.
            ResultsError: it cannot be made.
        """
        if path.exists() and not path.is_dir():
            raise UsageError(f"output {path} exists and is no folder: choose another --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = _lock(path)
            if any(path.iterdir()):
                os.close(lock)
                raise UsageError(f"output {path} exists: choose another --out, or add launches to it with --append")
            (path / "logs").mkdir()
            (path / SCENARIO).write_text(dump_scenario(plan.scenario), encoding="utf-8")
            (path / RESULTS).touch()
        except OSError as error:
            raise ResultsError(f"cannot create {path}: {error.strerror}") from error
        return cls(path, records=[], environments={}, lock=lock)

    @classmethod
    def reopen(cls, path: Path, plan: Plan, *, warn: Callable[[str], None]) -> "RunFolder":
        """An existing folder, to add launches of the same plan.

        Raises:
            UsageError: the folder holds another plan, or another run writes to it.
            ResultsError: there are no readable results.
        """
        try:
            lock = _lock(path)
        except OSError as error:
            raise ResultsError(f"cannot open {path}: {error.strerror}") from error
        try:
            records, environments = cls._reread(path, plan, warn)
        except BaseException:
            os.close(lock)
            raise
        return cls(path, records=records, environments=environments, lock=lock)

    @staticmethod
    def _reread(path: Path, plan: Plan, warn: Callable[[str], None]) -> tuple[list[Record], dict[str, Environment]]:
        records = read_records(path / RESULTS, warn=warn)
        environments = read_environments(path / ENVIRONMENTS, warn=warn)
        other = next((record for record in records if record.plan_digest != plan.digest), None)
        if other is not None:
            raise UsageError(
                f"--append: {path} holds plan {other.plan_digest}, this run is plan {plan.digest} "
                f"(another scenario or version); use another --out and `gtpbench merge`"
            )
        for name in (RESULTS, ENVIRONMENTS):
            repair_torn_line(path / name)
        try:
            (path / "logs").mkdir(exist_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot create {path / 'logs'}: {error.strerror}") from error
        return records, environments

    @property
    def next_launch(self) -> int:
        """Number of the first launch to come."""
        return max((record.launch + 1 for record in self.records), default=0)

    def add_record(self, record: Record) -> None:
        """Append.

        Raises:
            ResultsError: it could not be written.
        """
        append_line(self.path / RESULTS, record)
        self.records.append(record)

    def add_environment(self, environment: Environment) -> None:
        """Append.

        Raises:
            IncomparableError: earlier launches of the folder ran on another machine or software.
            ResultsError: it could not be written.
        """
        unlike = differing_fields([*self.environments.values(), environment])
        if unlike:
            raise IncomparableError(f"--append: {self.path} holds launches of another machine or software: {unlike}")
        append_line(self.path / ENVIRONMENTS, environment)
        self.environments[environment.environment_id] = environment

    def close(self) -> None:
        """Unlock; drop the log folder if no rank said anything, and a folder without a record. May be called twice."""
        if self._lock < 0:
            return
        logs = self.path / "logs"
        if logs.is_dir() and not any(logs.iterdir()):
            logs.rmdir()
            if not self.records:
                shutil.rmtree(self.path)
        os.close(self._lock)
        self._lock = -1


def _lock(path: Path) -> int:
    """A lock on the folder for as long as the descriptor is open.

    Raises:
        UsageError: another run holds it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"another run is writing to {path}: wait for it, or choose another --out") from error
    return descriptor
