"""Injected faults, for tests only: `GTPBENCH_TEST_FAULT="hang stage=warmup rank=1 arm=symm"`.

Kinds: `hang`, `die` (SIGKILL), `raise`, each when the stage is entered; `corrupt` (one element flipped before the
check), `unequal` (one rank allocates differently), `backend` (the arm runs on the backend named by `use`). A fault
fires in the first attempt only, unless `always=1`.
"""

import os
import signal
import time
from dataclasses import dataclass, field

VARIABLE = "GTPBENCH_TEST_FAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One injected fault; conditions that are absent always hold."""

    kind: str
    conditions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls) -> "Fault | None":
        """The fault asked for, if any."""
        words = os.environ.get(VARIABLE, "").split()
        if not words:
            return None
        return cls(kind=words[0], conditions=dict(word.split("=", 1) for word in words[1:]))

    def applies(self, kind: str, *, rank: int, attempt: int, stage: str = "", arm: str = "", case: str = "") -> bool:
        """Whether the fault of this kind fires here."""
        wanted = self.conditions
        return (
            kind == self.kind
            and (attempt == 0 or "always" in wanted)
            and wanted.get("rank", str(rank)) == str(rank)
            and wanted.get("stage", stage) == stage
            and wanted.get("arm", arm) == arm
            and wanted.get("case", "") in case
        )

    def fire(self) -> None:
        """Hang for good, die, or raise."""
        if self.kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "raise":
            raise RuntimeError("injected fault")
        while True:
            time.sleep(3600)
