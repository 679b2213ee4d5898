"""A run folder made by hand, and what runs share."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gtpbench.record import Environment, Record
from gtpbench.report.view import RunView, build_view
from gtpbench.scenario.load import build_scenario
from gtpbench.scenario.schema import Scenario
from tests.unit.report.factory import KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Records, environments and scenario of one run folder."""

    records: list[Record]
    environments: dict[str, Environment]
    scenario: Scenario

    def view(self) -> RunView:
        """The run's view."""
        return build_view(self.records, self.environments, scenario=self.scenario)


def make_scenario(name: str, arms: Sequence[str], **fields: object) -> Scenario:
    """A resolved scenario; only its name, arms and `functional` matter to reports."""
    workload = {"collectives": ["all_gather"], "sizes": [64 * KIB]}
    return build_scenario({"name": name, "workload": workload, "arms": list(arms), **fields}, origin="test")


def jittered(
    base_us: float, *, seed: int, spread: float = 0.02, digits: int = 1, num_blocks: int = 10, iters: int = 20
) -> list[list[float]]:
    """[block][iteration] around `base_us`, the same for the same seed, to a tenth of a microsecond unless told."""
    generator = random.Random(seed)
    return [
        [round(base_us * (1 + spread * (2 * generator.random() - 1)), digits) for _ in range(iters)]
        for _ in range(num_blocks)
    ]
