"""The environment of a launch: stored once in environments.jsonl and referenced by its records."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from gtpbench.plan import PlanModel

ENVIRONMENT_SCHEMA_VERSION: Final = 1

NCCL: Final = "nccl"
"""Among the libraries: the NCCL that ranks have loaded. Further copies are `nccl (copy 2)` and so on."""
NCCL_OF_TORCH: Final = "nccl (torch build)"
"""The NCCL whose headers torch was compiled with."""


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


class GpuState(PlanModel):
    """One visible GPU of the deciding host, as it was before the launch's ranks started."""

    name: str
    gpu: str | None
    """Hash of its UUID, as in `RankPlace`."""
    pci: str | None
    memory_bytes: int | None
    compute_capability: str | None
    """As in "9.0"."""
    mig: bool
    """Whether it is divided into instances."""
    num_processes: int
    """Other processes that compute on it, the server of MPS apart."""
    throttle_reasons: tuple[str, ...]
    """NVML's clocks event reasons that hold it below its clock."""


class Finding(PlanModel):
    """What may spoil a run, found before anything was timed."""

    code: str
    severity: Literal["note", "warning"]
    text: str
    """One line: what was found."""
    advice: str
    """One line: what to do about it, or what it means for the numbers."""

    def __str__(self) -> str:
        return f"{self.severity}: {self.text}; {self.advice}"


class Environment(PlanModel):
    """Everything about the machines and the software of one launch.

    Of imported results text is empty and numbers are 0 where the file does not say.
    """

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
    gpu_states: tuple[GpuState, ...] = ()
    mps: Literal["yes", "no"] | None = None
    """Whether an MPS control daemon answers; None without a GPU."""
    shm_bytes: int | None = None
    """Size of /dev/shm."""
    shm_free_bytes: int | None = None
    container: str | None
    nccl_conf: tuple[str, ...] = ()
    """The settings files that NCCL reads here: `NCCL_CONF_FILE`, `~/.nccl.conf`, `/etc/nccl.conf`."""
    nccl_conf_sha256: str | None
    """Of their contents, one after the other."""
    libraries: tuple[Library, ...]
    variables: dict[str, str]
    """Allow-listed environment variables of the supervisor."""
    set_variables: dict[str, dict[str, str]]
    """[set id] -> what the set adds."""
    ranks: dict[str, tuple[RankPlace, ...]]
    """[set id] -> its rank table."""
    interfaces: tuple[str, ...]
    """Network interfaces whose bytes were counted."""
    findings: tuple[Finding, ...] = ()

    def library(self, name: str) -> str | None:
        """Version of the library with this name."""
        return next((library.version for library in self.libraries if library.name == name), None)

    def fingerprint(self) -> dict[str, str]:
        """The fields that must match before two runs may be compared."""
        return {
            "machine": self.machine,
            "cpu_model": self.cpu_model,
            "num_cpus": str(self.num_cpus),
            "num_nodes": str(self.num_nodes),
            "gpus": ", ".join(self.gpus),
            "driver": str(self.driver),
            "mig": str(any(gpu.mig for gpu in self.gpu_states)),
            "mps": str(self.mps),
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


def expandable_segments(variables: Mapping[str, str]) -> bool:
    """Whether these environment variables tell torch's CUDA allocator to use expandable segments."""
    told = (variables.get(name, "") for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"))
    return any("expandable_segments:true" in value.replace(" ", "").lower() for value in told)


def differing_fields(environments: Iterable[Environment]) -> str | None:
    """Every fingerprint field in which the environments differ, with its values; None where they are alike."""
    fingerprints = [environment.fingerprint() for environment in environments]
    told = []
    for name in sorted({name for fingerprint in fingerprints for name in fingerprint}):
        values = sorted({str(fingerprint.get(name)) for fingerprint in fingerprints})
        if len(values) > 1:
            told.append(f"{name}: {' / '.join(values)}")
    return "; ".join(told) or None
