"""Turns `auto` values into values, from facts of the machine; planning sees resolved scenarios only."""

from dataclasses import dataclass
from typing import Literal

from gtpbench.errors import UsageError
from gtpbench.scenario.schema import CollectiveWorkload, Measure, RegistrationWorkload, Scenario

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What resolution and the skip rules need to know of the machine that plans; None where unknown.

    Attributes:
        num_gpus: visible GPUs of this host.
        torch: the installed version.
        nvls_enable: the exported NCCL_NVLS_ENABLE.
        world_size: the launcher's, None when gtpbench starts the ranks itself.
        nccl: version of the library that rank processes will load.
        compute_capability: the least of the visible GPUs, as in "9.0".
        mps: whether an MPS control daemon answers.
        expandable_segments: whether torch's allocator is told to use them.
        nccl4py: the installed version, or "missing".
    """

    num_gpus: int
    num_nodes: int
    machine: str
    torch: str | None
    nvls_enable: str | None
    world_size: int | None = None
    nccl: str | None = None
    compute_capability: str | None = None
    mps: Literal["yes", "no"] | None = None
    expandable_segments: Literal["yes", "no"] | None = None
    nccl4py: str | None = None


def resolve(scenario: Scenario, facts: MachineFacts) -> Scenario:
    """The same scenario without `auto`.

    Raises:
        UsageError: the ranks asked for contradict the launcher's, the workload or backend lacks the clock, or CPU
            ranks shall share GPUs.
    """
    backend = scenario.backend
    if backend == "auto":
        backend = "nccl_torch" if facts.num_gpus else "cpu"
    on_gpus = backend in {"nccl_torch", "nccl_direct"}
    if scenario.ranks_per_gpu > 1 and not on_gpus:
        raise UsageError(f"ranks_per_gpu = {scenario.ranks_per_gpu}: {backend} ranks use no GPU; leave it out")
    return scenario.model_copy(
        update={
            "backend": backend,
            "num_ranks": _num_ranks(scenario, facts, on_gpus=on_gpus),
            "workload": _workload(scenario.workload, on_gpus=on_gpus),
            "measure": _measure(scenario, backend, on_gpus=on_gpus),
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


def _workload(
    workload: CollectiveWorkload | RegistrationWorkload, *, on_gpus: bool
) -> CollectiveWorkload | RegistrationWorkload:
    if isinstance(workload, CollectiveWorkload):
        sizes = sweep(64 * _KIB, (256 if on_gpus else 16) * _MIB, factor=4)
        return workload.model_copy(update={"sizes": sizes}) if workload.sizes == "auto" else workload
    found: dict[str, object] = {}
    if workload.buffer_sizes == "auto":
        found["buffer_sizes"] = sweep(64 * _KIB, 64 * _MIB, factor=4)
    if workload.max_total_bytes == "auto":
        found["max_total_bytes"] = 16 * _GIB if on_gpus else 512 * _MIB
    return workload.model_copy(update=found)


def _measure(scenario: Scenario, backend: str, *, on_gpus: bool) -> Measure:
    """With the clock decided: registration is a call of the host wherever the ranks are."""
    measure = scenario.measure
    registers = isinstance(scenario.workload, RegistrationWorkload)
    by_host = registers or not on_gpus
    if measure.clock == "auto":
        return measure.model_copy(update={"clock": "host" if by_host else "both"})
    if (measure.clock == "host") != by_host:
        subject = "registration has" if registers else f"{backend} ranks have"
        has = "host only" if by_host else "graph, stream or both"
        raise UsageError(f"measure.clock = {measure.clock}: {subject} the clock {has}")
    return measure


def _num_ranks(scenario: Scenario, facts: MachineFacts, *, on_gpus: bool) -> int:
    asked = scenario.num_ranks
    if facts.world_size is not None:
        if asked not in {"auto", facts.world_size}:
            raise UsageError(f"num_ranks = {asked}, but the launcher started {facts.world_size} ranks: leave it out")
        return facts.world_size
    if asked == "auto":
        return max(facts.num_gpus, 1) * scenario.ranks_per_gpu if on_gpus else 2
    return asked
