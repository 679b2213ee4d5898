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
    ranks_per_gpu: int | None
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
        from gtpbench.scenario.load import build_scenario, load_scenario

        table = load_scenario(path).model_dump()
        measure = {"launches": self.launches, "time_budget_s": self.time_budget, "seed": self.seed}
        table["measure"] |= {key: value for key, value in measure.items() if value is not None}
        ranks = {"num_ranks": self.num_ranks, "ranks_per_gpu": self.ranks_per_gpu}
        table |= {key: value for key, value in ranks.items() if value is not None}
        table["functional"] |= self.functional
        table["allow_skip"] |= self.allow_skip
        return build_scenario(table, origin="flags")
