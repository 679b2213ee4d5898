"""The environment of a launch: stored once in environments.jsonl and referenced by its records."""

from collections.abc import Iterable
from typing import Final, Literal

from gtpbench.plan import PlanModel

ENVIRONMENT_SCHEMA_VERSION: Final = 1


class RankPlace(PlanModel):
    """Where one rank ran."""

    rank: int
    local_rank: int
    node: int
    host: str
    """Hash of the host name."""
    pid: int
    cpus: tuple[int, ...]
    """Cores the rank was pinned to."""
    numa: int | None
    gpu: str | None
    """Hash of the GPU's UUID."""
    pci: str | None
    lsa_domain: int | None


class Library(PlanModel):
    """A shared library or package as loaded."""

    name: str
    version: str
    path: str | None
    """Relative to its installation where that is known; never a user's folder."""
    sha256: str | None


class Environment(PlanModel):
    """Everything about the machines and the software of one launch."""

    schema_version: Literal[1] = ENVIRONMENT_SCHEMA_VERSION
    environment_id: str
    run_id: str
    launch: int
    created_utc: str
    command: tuple[str, ...]
    tool_version: str
    commit: str | None
    """Commit of gtpbench's own checkout, with `+dirty` where it had changes."""
    num_nodes: int
    launcher: str
    """`builtin`, `torchrun`, `slurm`, `env`."""
    machine: str
    cpu_model: str
    num_cpus: int
    memory_bytes: int
    last_level_cache_bytes: int | None
    numa_nodes: int
    kernel: str
    os: str
    python: str
    governor: str | None
    load_average: float
    driver: str | None
    gpus: tuple[str, ...]
    """Model names."""
    container: str | None
    nccl_conf_sha256: str | None
    libraries: tuple[Library, ...]
    variables: dict[str, str]
    """Allow-listed environment variables of the supervisor."""
    set_variables: dict[str, dict[str, str]]
    """[set id] -> what the set adds."""
    ranks: dict[str, tuple[RankPlace, ...]]
    """[set id] -> its rank table."""
    interfaces: tuple[str, ...]
    """Network interfaces whose bytes were counted."""

    def fingerprint(self) -> dict[str, str]:
        """The fields that must match before two runs may be compared."""
        return {
            "machine": self.machine,
            "cpu_model": self.cpu_model,
            "num_cpus": str(self.num_cpus),
            "num_nodes": str(self.num_nodes),
            "gpus": ", ".join(self.gpus),
            "driver": str(self.driver),
            "nccl_conf": str(self.nccl_conf_sha256),
            "python": self.python,
            **{library.name: library.version for library in self.libraries},
            **self._rank_variables(),
        }

    def _rank_variables(self) -> dict[str, str]:
        """The variables that rank processes saw: a set's own in place of the supervisor's."""
        own = list(self.set_variables.items())
        inherited = {
            name: value
            for name, value in self.variables.items()
            if not own or any(name not in added for _, added in own)
        }
        return inherited | {f"set {number}: {name}": value for number, added in own for name, value in added.items()}


def differing_fields(environments: Iterable[Environment]) -> str | None:
    """Every fingerprint field in which the environments differ, with its values; None where they are alike."""
    fingerprints = [environment.fingerprint() for environment in environments]
    told = []
    for name in sorted({name for fingerprint in fingerprints for name in fingerprint}):
        values = sorted({str(fingerprint.get(name)) for fingerprint in fingerprints})
        if len(values) > 1:
            told.append(f"{name}: {' / '.join(values)}")
    return "; ".join(told) or None
