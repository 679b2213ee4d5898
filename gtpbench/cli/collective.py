"""From the flags of `allgather` and `reducescatter` to a scenario."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpbench.cli import registration
from gtpbench.errors import UsageError
from gtpbench.units import parse_size

if TYPE_CHECKING:
    from gtpbench.scenario.schema import Scenario

_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFlags:
    """The flags as given; None where a flag was left out."""

    collective: str
    arms: Sequence[str] | None
    symm: bool
    nvls: bool | None
    min_bytes: str | None
    max_bytes: str | None
    step_factor: int | None
    datatype: str
    op: str
    placement: str
    num_ranks: int | None
    ranks_per_gpu: int | None
    backend: str
    clock: str
    hot: bool
    launches: int | None
    iters: int | None
    warmup: int | None
    time_budget: float | None
    seed: int | None
    functional: bool
    allow_skip: bool
    registration_cost: bool = False
    buffers: Path | None = None

    def scenario(self, num_gpus: int) -> "Scenario":
        """The scenario these flags ask for.

        Raises:
            UsageError: a flag's value cannot be meant.
        """
        from gtpbench.scenario.load import build_scenario

        if self.buffers and not self.registration_cost:
            raise UsageError("--buffers needs --registration-cost: it lists what is registered")
        measure = {
            "clock": self.clock,
            "hot": self.hot,
            "launches": self.launches,
            "blocks" if self.registration_cost else "iters": self.iters,
            "warmup": self.warmup,
            "time_budget_s": self.time_budget,
            "seed": self.seed,
        }
        table: dict[str, Any] = {
            "name": registration.NAME if self.registration_cost else self.collective,
            "workload": self._workload(num_gpus),
            "arms": self._arms(on_gpus=self._on_gpus(num_gpus)),
            "backend": self.backend,
            "num_ranks": self.num_ranks if self.num_ranks is not None else "auto",
            "ranks_per_gpu": self.ranks_per_gpu or 1,
            "measure": {key: value for key, value in measure.items() if value is not None},
            "functional": self.functional,
            "allow_skip": self.allow_skip,
        }
        return build_scenario(table, origin="flags")

    def _workload(self, num_gpus: int) -> dict[str, Any]:
        if self.registration_cost:
            return registration.registration_workload(self)
        return {
            "collectives": [self.collective],
            "sizes": self._sizes(num_gpus),
            "dtypes": _split(self.datatype),
            "placements": ["out_of_place", "in_place"] if self.placement == "both" else [self.placement],
            "op": self.op,
        }

    def _on_gpus(self, num_gpus: int) -> bool:
        return self.backend.startswith("nccl") or (self.backend == "auto" and num_gpus > 0)

    def _arms(self, *, on_gpus: bool) -> list[str]:
        arms = [arm for item in self.arms or [] for arm in _split(item)]
        if not arms and self.registration_cost:
            arms = list(registration.GPU_ARMS if on_gpus else registration.CPU_ARMS)
        elif not arms:
            arms = ["none", "symm"] if self.symm else ["none"]
        elif self.symm and "symm" not in arms:
            arms.append("symm")
        if self.nvls is True and "symm:nvls" not in arms:
            arms.append("symm:nvls")
        if self.nvls is False:
            arms = ["symm:nonvls" if arm == "symm" else arm for arm in arms]
        return arms

    def _sizes(self, num_gpus: int) -> list[int] | str:
        from gtpbench.scenario.resolve import sweep

        if self.min_bytes is None and self.max_bytes is None and self.step_factor is None:
            return "auto"
        smallest, largest = 64 * _KIB, (256 if self._on_gpus(num_gpus) else 16) * _MIB
        low = parse_size(self.min_bytes) if self.min_bytes else min(smallest, parse_size(self.max_bytes or "1G"))
        high = parse_size(self.max_bytes) if self.max_bytes else max(largest, low)
        return list(sweep(low, high, factor=self.step_factor or 4))


def _split(text: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise UsageError(f"{text!r}: an empty name in a comma-separated list")
    return items
