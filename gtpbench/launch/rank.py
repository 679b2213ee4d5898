"""The state of one rank process in one attempt, shared by what it does in turn."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gtpbench.backends.base import Exchange
from gtpbench.launch.board import Board
from gtpbench.launch.faults import Fault
from gtpbench.launch.pipes import Receiver, Sender
from gtpbench.launch.spec import WorkerSpec
from gtpbench.measure.calibrate import Counts
from gtpbench.measure.cell import CellRun
from gtpbench.measure.ranks import Ranks
from gtpbench.measure.registration import RegistrationRun
from gtpbench.plan import Plan
from gtpbench.record.model import Clock

Live = list[tuple[int, list[str]]]
"""(case index, arms), in the order to run."""

FOREVER_S = 7 * 24 * 3600.0
"""Waiting for a turn has no timeout of its own: the set whose turn it is has one."""


@dataclass(slots=True)
class Rank:
    """What the functions below share: the rank's own state in one attempt."""

    spec: WorkerSpec
    plan: Plan
    board: Board
    events: Sender
    control: Receiver
    exchange: Exchange = field(init=False)
    """Set by `meeting.join`, as is `ranks`."""
    fault: Fault | None
    ranks: Ranks = field(init=False)
    epoch_ns: int
    num_cases: int = 1
    counts: dict[tuple[int, str], dict[Clock, Counts]] = field(default_factory=dict)
    """[case, arm] -> counts by clock."""
    operations: int = 0
    case: int = -1
    arm: int = -1
    turn: int = -1
    cells: dict[str, CellRun | RegistrationRun] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    """Kinds of registration that registration cases have begun with in this process."""
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    common_seconds: dict[str, float] = field(default_factory=dict)

    def mark(self, _: int = 0) -> None:
        """Note progress on the board."""
        self.operations += 1
        self.board.mark(self.spec.row, self.operations)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Be in a stage: on the board for the watchdog, in `stage_seconds` for the record."""
        arm = self.plan.arms[self.arm].name if self.arm >= 0 else ""
        self.operations = 0
        self.board.enter(self.spec.row, name, case=self.case, arm=self.arm, turn=self.turn)
        self._inject(name, arm)
        began = time.monotonic()
        yield
        totals = self.seconds.setdefault(arm, {}) if arm else self.common_seconds
        totals[name] = totals.get(name, 0.0) + time.monotonic() - began
        self.board.enter(self.spec.row, "waiting", case=self.case, arm=self.arm, turn=self.turn)

    def faulty(self, kind: str, *, stage: str = "", arm: str = "") -> bool:
        """Whether an injected fault of this kind fires now."""
        case = self.plan.cases[self.case].case_id if self.case >= 0 else ""
        return self.fault is not None and self.fault.applies(
            kind, rank=self.spec.rank, attempt=self.spec.attempt, stage=stage, arm=arm, case=case
        )

    def _inject(self, stage: str, arm: str) -> None:
        if self.fault and any(self.faulty(kind, stage=stage, arm=arm) for kind in ("hang", "die", "raise")):
            self.fault.fire()


class MarkedExchange:
    """Counts every value set or awaited as progress, so that the watchdog sees which rank is behind."""

    def __init__(self, inner: Any, rank: "Rank") -> None:
        self._inner, self._rank = inner, rank
        self.store = getattr(inner, "store", None)

    def set(self, key: str, value: bytes) -> None:
        self._rank.mark()
        self._inner.set(key, value)

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        self._rank.mark()
        value: bytes = self._inner.wait(key, timeout_s=timeout_s)
        return value
