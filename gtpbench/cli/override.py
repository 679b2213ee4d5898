"""Flags that override keys of a scenario file."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gtpbench.scenario.schema import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The flags as given; None or False where a flag was left out."""

    num_ranks: int | None
    launches: int | None
    time_budget: float | None
    seed: int | None
    functional: bool
    allow_skip: bool

    def apply(self, path: Path) -> "Scenario":
        """The scenario in `path` with the flags given put over its keys.

        Raises:
            UsageError: the file cannot be read or is no scenario.
        """
        from gtpbench.scenario.load import load_scenario

        scenario = load_scenario(path)
        measure = {"launches": self.launches, "time_budget_s": self.time_budget, "seed": self.seed}
        given = {key: value for key, value in measure.items() if value is not None}
        return scenario.model_copy(
            update={
                "measure": scenario.measure.model_copy(update=given),
                "num_ranks": self.num_ranks if self.num_ranks is not None else scenario.num_ranks,
                "functional": self.functional or scenario.functional,
                "allow_skip": self.allow_skip or scenario.allow_skip,
            }
        )
