"""What one output of nccl-tests says, whichever format it came in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gtpbench.scenario.schema import Placement

PLACEMENTS: tuple[Placement, ...] = ("out_of_place", "in_place")
"""In the order of nccl-tests' columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that both formats print.

    Attributes:
        iterations: `-n`, operations or groups of operations in the loop.
        aggregated: `-m`, operations in one iteration.
        graph_launches: `-G`; 0 without a graph. The graph holds all iterations.
        blocking: `-z`, 0 to 3; None where it is on and the file does not say which.
        plan: all of them as printed, for the digest.
    """

    iterations: int
    aggregated: int
    graph_launches: int
    blocking: int | None
    plan: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A rank as nccl-tests lists it; JSON lists the first rank of each process only."""

    rank: int
    group: int
    pid: int
    host: str
    pci: str
    gpu: str
    """Model name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTimes:
    """Times of single iterations (`-I 1`), microseconds, from device events.

    Attributes:
        time_us: [process][iteration], each the maximum over the process's GPUs; or one row, the maximum over all ranks.
        of_processes: whether the rows are processes.
        num_skipped: leading iterations that the user wanted out of summaries (`-K`).
    """

    time_us: tuple[tuple[float, ...], ...]
    of_processes: bool
    num_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One placement of a row.

    Attributes:
        time_us: of one operation, host clock around the loop; NaN where the file has none.
        num_wrong: wrong elements of the check after the loop, None where nothing was checked.
    """

    time_us: float
    num_wrong: int | None
    events: EventTimes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRow:
    """One line of the table; `where` names it in messages."""

    where: str
    size_bytes: int
    count: int
    """Elements of one rank's share."""
    dtype: str
    op: str
    iterations: int
    placements: Mapping[Placement, Measured]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One run of one nccl-tests program.

    Attributes:
        identity: digest of the file.
        program: for example `all_gather_perf`.
        args: the command line, None where the format has none (text).
        variables: the process's environment; empty where the format has none.
        nccl_version: code of the loaded library, None where it is not told.
        version: of nccl-tests, None where it is not told (JSON).
        num_ranks: ranks of the communicator.
        num_out_of_bounds: checks that found wrong elements, as the summary counts them.
    """

    path: Path
    identity: str
    program: str
    args: tuple[str, ...] | None
    variables: Mapping[str, str]
    nccl_version: int | None
    version: str | None
    settings: Settings
    processes: tuple[Process, ...]
    num_ranks: int
    rows: tuple[OutputRow, ...]
    num_out_of_bounds: int
