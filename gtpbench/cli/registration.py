"""What `--registration-cost` makes of the flags of a collective's command."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtpbench.errors import UsageError
from gtpbench.units import parse_size

if TYPE_CHECKING:
    from gtpbench.cli.collective import CollectiveFlags

NAME = "registration-cost"
"""Of the scenario: both collectives' commands ask for the same one."""
GPU_ARMS, CPU_ARMS = ("registered", "symm"), ("symm",)
"""Where none is named: all that register."""
_KIB, _MIB = 2**10, 2**20


def registration_workload(flags: "CollectiveFlags") -> dict[str, Any]:
    """The workload table: numbers of buffers x sizes, and the set in `--buffers`, alone where no size is given.

    Raises:
        UsageError: a flag that times something else, a size that cannot be meant, or a file that lists no buffers.
    """
    _refuse_others(flags)
    table: dict[str, Any] = {"kind": "registration"}
    sizes = (flags.min_bytes, flags.max_bytes, flags.step_factor)
    if sizes != (None, None, None):
        table["buffer_sizes"] = _sizes(*sizes)
    elif flags.buffers:
        table["buffer_sizes"] = []
    return table | (_listed(flags.buffers) if flags.buffers else {})


def _listed(path: Path) -> dict[str, Any]:
    from gtpbench.scenario.buffers import read_buffers, set_name

    return {"buffers": list(read_buffers(path)), "buffers_name": set_name(path)}


def _sizes(min_bytes: str | None, max_bytes: str | None, step_factor: int | None) -> list[int]:
    from gtpbench.scenario.resolve import sweep

    low = parse_size(min_bytes) if min_bytes else min(64 * _KIB, parse_size(max_bytes or "64K"))
    high = parse_size(max_bytes) if max_bytes else max(64 * _MIB, low)
    return list(sweep(low, high, factor=step_factor or 4))


def _refuse_others(flags: "CollectiveFlags") -> None:
    given = {
        "-d": flags.datatype != "bf16",
        "-o": flags.op != "sum",
        "--placement": flags.placement != "out_of_place",
        "--clock": flags.clock not in {"auto", "host"},
        "--hot": flags.hot,
        "-w": flags.warmup is not None,
        "--time-budget": flags.time_budget is not None,
    }
    wrong = [flag for flag, is_given in given.items() if is_given]
    if wrong:
        raise UsageError(f"--registration-cost times no collective: leave out {', '.join(wrong)}")
