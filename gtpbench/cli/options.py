"""Option types that several commands share: name, help and bounds are written once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What stdout carries."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    NCCL_TESTS = "nccl-tests"


class PlanFormat(StrEnum):
    """What stdout carries where there are no results."""

    TABLE = "table"
    JSON = "json"


class BackendOption(StrEnum):
    """Backends that a user can name."""

    AUTO = "auto"
    CPU = "cpu"
    GLOO = "gloo"
    CPU_WINDOW = "cpu_window"
    NCCL_TORCH = "nccl_torch"
    NCCL_DIRECT = "nccl_direct"
    STANDIN = "standin"


class ClockOption(StrEnum):
    """Clocks that a user can name."""

    AUTO = "auto"
    HOST = "host"
    GRAPH = "graph"
    STREAM = "stream"
    BOTH = "both"


class PlacementOption(StrEnum):
    """In-place and out-of-place are separate cases."""

    OUT_OF_PLACE = "out_of_place"
    IN_PLACE = "in_place"
    BOTH = "both"


Arms = Annotated[
    list[str] | None,
    typer.Option("--arm", metavar="LIST", help="Arms, comma-separated or repeated; the first is the baseline."),
]
Symm = Annotated[bool, typer.Option("--symm", help="Compare `none` with `symm` (symmetric windows).")]
Nvls = Annotated[
    bool | None,
    typer.Option(
        "--nvls/--no-nvls", help="Add `symm:nvls` (multicast required); or put `symm:nonvls` in place of `symm`."
    ),
]
MinBytes = Annotated[str | None, typer.Option("-b", "--minbytes", metavar="SIZE", help="Smallest total size; 64K.")]
MaxBytes = Annotated[
    str | None,
    typer.Option("-e", "--maxbytes", metavar="SIZE", help="Largest total size; 256M, on CPU 16M."),
]
StepFactor = Annotated[int | None, typer.Option("-f", "--stepfactor", metavar="N", help="Factor between sizes; 4.")]
DataType = Annotated[str, typer.Option("-d", "--datatype", metavar="LIST", help="Element types, comma-separated.")]
Op = Annotated[str, typer.Option("-o", "--op", metavar="OP", help="Reduction: sum or avg.")]
Placement = Annotated[PlacementOption, typer.Option("--placement", help="Buffers apart, shared, or both as cases.")]
NumRanks = Annotated[
    int | None,
    typer.Option("--num-ranks", metavar="N", min=1, help="Ranks; all visible GPUs, else 2 CPU ranks."),
]
RanksPerGpu = Annotated[
    int | None,
    typer.Option(
        "--ranks-per-gpu",
        metavar="N",
        min=1,
        help="Ranks on each GPU; 1. More need NCCL 2.30 and MPS, and show paths and correctness, no speed.",
    ),
]
Backend = Annotated[BackendOption, typer.Option("--backend", help="What moves the bytes.")]
Clock = Annotated[ClockOption, typer.Option("--clock", help="Clock of the headline.")]
Hot = Annotated[bool, typer.Option("--hot", help="One buffer, no rotation: a cached figure.")]
Launches = Annotated[
    int | None,
    typer.Option("--launches", metavar="N", min=1, help="Starts of all ranks, the unit of replication; 1."),
]
Iters = Annotated[
    int | None,
    typer.Option("-n", "--iters", metavar="N", min=1, help="Timed iterations per case, arm, launch; whole blocks."),
]
Warmup = Annotated[
    int | None,
    typer.Option("-w", "--warmup", metavar="N", min=1, help="Iterations of each warm-up block; 3."),
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        "--time-budget",
        metavar="S",
        min=0.001,
        help="Seconds of timed blocks per launch, used up unless --iters is given; 10.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Seed of order and data; 0."),
]
Functional = Annotated[bool, typer.Option("--functional", help="Paths and correctness only: no ratios.")]
RegistrationCost = Annotated[
    bool,
    typer.Option(
        "--registration-cost",
        help="Time registration instead: 1, 4, 16 and 64 buffers of 64K to 64M each (-b, -e, -f), -n times.",
    ),
]
Buffers = Annotated[
    Path | None,
    typer.Option(
        "--buffers",
        metavar="FILE",
        help="With --registration-cost: the set of buffers listed in FILE, one a line, `64M` or `NAME 64M`.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Output folder; gtpbench-results/NAME-TIME."),
]
Append = Annotated[bool, typer.Option("--append", help="Add launches to an existing --out of the same plan.")]
AllowSkip = Annotated[bool, typer.Option("--allow-skip", help="Skipped arms do not change the exit code.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="What stdout carries.")]
PlanOutputFormat = Annotated[PlanFormat, typer.Option("--format", help="What stdout carries.")]
SaveScenario = Annotated[
    Path | None,
    typer.Option("--save-scenario", metavar="FILE", help="Write the resolved scenario as TOML."),
]
ScenarioFile = Annotated[Path, typer.Argument(metavar="SCENARIO", help="A scenario file (TOML).")]
RunFolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Output folder of a run.")]
