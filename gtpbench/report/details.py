"""The parts of the view model that reports show in tables of their own: evidence of the path, one-off costs."""

from dataclasses import dataclass
from typing import Literal

from gtpbench.record.model import Clock, Origin, PathName, ProofVerdict

KernelKind = Literal["kernel", "memcpy", "memset", "batch_mem_op", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUse:
    """A kernel or a kind of copy in a timed object.

    Attributes:
        name: the function's name, without mangling and arguments; the kind where it is no kernel.
        ctas: thread blocks, None for what is no kernel.
        count: in the whole object of one rank.
    """

    name: str
    kind: KernelKind
    ctas: int | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What some ranks saw alike.

    Attributes:
        source: as in the record, `graph_nodes`, `cupti`, `interface_bytes` ...
        ranks: ascending.
        calls: collectives in the observed object, None where the source has no such object.
        error: why they could not look.
    """

    source: str
    ranks: tuple[int, ...]
    calls: int | None
    kernels: tuple[KernelUse, ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathProof:
    """The path of one clock's timed object, as the launches in `launches` saw it.

    Attributes:
        clock: None where all clocks time the same object.
        legacy: a legacy NCCL kernel ran, and nothing told ring, NVLS and PAT apart; `path` is then `unknown`.
        statement: the evidence in a sentence, of the first of these launches.
        log: NCCL's log lines of another launch with the same plan.
    """

    clock: Clock | None
    verdict: ProofVerdict
    path: PathName
    algorithm: str | None
    protocol: str | None
    ctas: int | None
    legacy: bool
    statement: str
    seen: tuple[Seen, ...]
    log: tuple[str, ...]
    launches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Checked results against fp64, over all launches: what |result - reference| was, on random data."""

    max_error: float
    rms_error: float
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A one-off cost in microseconds, each value that of the slowest rank."""

    median_us: float
    low_us: float
    high_us: float
    num_values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCosts:
    """One-off costs and memory of one row, over its launches.

    Attributes:
        communicator: by launch; arms that share a worker set share it.
        first_registration: of all its buffers, in launches where it was the first in the processes.
        registration: of all its buffers, in the other launches.
        window_bytes: (side, bytes) of each side that lies in a window.
        registered_bytes: on the rank with most, as `symmetric_va_bytes`.
        free_before_bytes: device memory on the rank with least, as `free_after_bytes`, which is with all buffers alive.
        l2_resident: whether the slots of every side fit in the last-level cache; None where that is not known.
    """

    communicator: Cost | None
    first_registration: Cost | None
    registration: Cost | None
    num_registrations: int | None
    deregistration: Cost | None
    capture: Cost | None
    window_bytes: tuple[tuple[str, int], ...]
    registered_bytes: int | None
    symmetric_va_bytes: int | None
    free_before_bytes: int | None
    free_after_bytes: int | None
    l2_resident: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCosts:
    """One-off costs and memory of one arm, over its cases and launches.

    Attributes:
        communicator: by launch; arms that share a worker set share it.
        first_registration: of the first case's buffers, with what the first window sets up.
        registration: of one buffer in the other cases.
        window_bytes: of a case's sides together, smallest and largest; None without windows.
        symmetric_va_bytes: address space of one rank's part of the windows.
        free_before_bytes: smallest over ranks, cases and launches, as `free_after_bytes`.
    """

    origin: Origin
    arm: str
    communicator: Cost | None
    first_registration: Cost | None
    registration: Cost | None
    deregistration: Cost | None
    capture: Cost | None
    window_bytes: tuple[int, int] | None
    symmetric_va_bytes: int | None
    free_before_bytes: int | None
    free_after_bytes: int | None
