"""Turns `auto` values into values, from facts of the machine; planning sees resolved scenarios only."""

from dataclasses import dataclass

from gtpbench.errors import UsageError
from gtpbench.scenario.schema import Scenario

_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What resolution and the skip rules need to know of the machine that plans.

    `world_size` is the launcher's, None when gtpbench starts the ranks itself. `torch` is the installed version,
    `nvls_enable` the exported NCCL_NVLS_ENABLE; None where unknown.
    """

    num_gpus: int
    num_nodes: int
    machine: str
    torch: str | None
    nvls_enable: str | None
    world_size: int | None = None


def resolve(scenario: Scenario, facts: MachineFacts) -> Scenario:
    """The same scenario without `auto`.

    Raises:
        UsageError: the ranks asked for contradict the launcher's, or the backend lacks the clock.
    """
    backend = scenario.backend
    if backend == "auto":
        backend = "nccl_torch" if facts.num_gpus else "cpu"
    on_gpus = backend in {"nccl_torch", "nccl_direct"}
    workload = scenario.workload
    if workload.sizes == "auto":
        workload = workload.model_copy(update={"sizes": sweep(64 * _KIB, (256 if on_gpus else 16) * _MIB, factor=4)})
    measure = scenario.measure
    if measure.clock != "auto" and (measure.clock == "host") == on_gpus:
        has = "graph, stream or both" if on_gpus else "host only"
        raise UsageError(f"measure.clock = {measure.clock}: {backend} ranks have the clock {has}")
    if measure.clock == "auto":
        measure = measure.model_copy(update={"clock": "both" if on_gpus else "host"})
    return scenario.model_copy(
        update={
            "backend": backend,
            "num_ranks": _num_ranks(scenario, facts, on_gpus=on_gpus),
            "workload": workload,
            "measure": measure,
        }
    )


def sweep(min_bytes: int, max_bytes: int, *, factor: int) -> tuple[int, ...]:
    """Sizes from `min_bytes` to at most `max_bytes`, each `factor` times the one before, as nccl-tests' `-b -e -f`.

    Raises:
        UsageError: an empty or endless sweep.
    """
    if factor < 2:
        raise UsageError(f"-f {factor}: the size factor must be 2 or more")
    if min_bytes < 1 or min_bytes > max_bytes:
        raise UsageError(f"-b {min_bytes} -e {max_bytes}: the smallest size must be 1 B or more, not above the largest")
    sizes = [min_bytes]
    while sizes[-1] * factor <= max_bytes:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)


def _num_ranks(scenario: Scenario, facts: MachineFacts, *, on_gpus: bool) -> int:
    asked = scenario.num_ranks
    if facts.world_size is not None:
        if asked not in {"auto", facts.world_size}:
            raise UsageError(f"num_ranks = {asked}, but the launcher started {facts.world_size} ranks: leave it out")
        return facts.world_size
    if asked == "auto":
        return max(facts.num_gpus, 1) if on_gpus else 2
    return asked
