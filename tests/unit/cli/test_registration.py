"""From `--registration-cost` and its flags to a scenario."""

from pathlib import Path
from typing import Any

import pytest

from gtpbench.cli.collective import CollectiveFlags
from gtpbench.errors import UsageError
from gtpbench.scenario.schema import RegistrationWorkload, Scenario
from tests.unit.cli.test_collective import DEFAULTS

KIB, MIB, GIB = 2**10, 2**20, 2**30


def _scenario(*, num_gpus: int = 8, **flags: Any) -> Scenario:
    return CollectiveFlags(**{**DEFAULTS, "registration_cost": True, **flags}).scenario(num_gpus)


def _workload(**flags: Any) -> RegistrationWorkload:
    workload = _scenario(**flags).workload
    assert isinstance(workload, RegistrationWorkload)
    return workload


def test_the_flag_alone() -> None:
    """Both arms that register, everything else as the scenario's defaults; one scenario for both commands."""
    scenario = _scenario()
    assert ("registration-cost", ("registered", "symm"), 10) == (
        scenario.name,
        scenario.arms,
        scenario.measure.blocks,
    )
    workload = _workload()
    assert ("auto", "auto", (1, 4, 16, 64), None) == (
        workload.buffer_sizes,
        workload.max_total_bytes,
        workload.num_buffers,
        workload.buffers,
    )
    assert scenario == _scenario(collective="reduce_scatter")


@pytest.mark.parametrize(
    ("backend", "num_gpus", "arms"),
    [
        ("auto", 0, ("symm",)),
        ("cpu", 8, ("symm",)),
        ("auto", 1, ("registered", "symm")),
        ("nccl_direct", 0, ("registered", "symm")),
    ],
)
def test_arms_where_none_is_named(backend: str, num_gpus: int, arms: tuple[str, ...]) -> None:
    """All that register where it runs: an arm that CPUs have no counterpart of would only be skipped."""
    assert arms == _scenario(backend=backend, num_gpus=num_gpus).arms


@pytest.mark.parametrize(
    ("flags", "arms"),
    [
        ({"arms": ["symm"]}, ("symm",)),
        ({"arms": ["none,symm"]}, ("none", "symm")),
        ({"symm": True}, ("registered", "symm")),
        ({"nvls": True}, ("registered", "symm", "symm:nvls")),
        ({"nvls": False}, ("registered", "symm:nonvls")),
        ({"arms": ["registered"], "symm": True}, ("registered", "symm")),
    ],
)
def test_arms(flags: dict[str, Any], arms: tuple[str, ...]) -> None:
    """As for collectives, from another default."""
    assert arms == _scenario(**flags).arms


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        ({"min_bytes": "1M", "max_bytes": "16M"}, (MIB, 4 * MIB, 16 * MIB)),
        ({"min_bytes": "16M"}, (16 * MIB, 64 * MIB)),
        ({"max_bytes": "256K"}, (64 * KIB, 256 * KIB)),
        ({"max_bytes": "4K"}, (4 * KIB,)),
        ({"min_bytes": "1G"}, (GIB,)),
        ({"step_factor": 32}, (64 * KIB, 2 * MIB, 64 * MIB)),
    ],
)
def test_sizes_are_of_each_buffer(flags: dict[str, Any], sizes: tuple[int, ...]) -> None:
    """-b 64K -e 64M -f 4, whatever the machine."""
    assert sizes == _workload(**flags).buffer_sizes


def test_a_listed_set_stands_alone_or_beside_a_sweep(tmp_path: Path) -> None:
    """Sizes and the file's name are in the scenario, which no longer needs the file."""
    path = tmp_path / "llama-8b.txt"
    path.write_text("embedding 64M\n8M\n", encoding="utf-8")
    alone = _workload(buffers=path)
    assert ((), (64 * MIB, 8 * MIB), "llama-8b") == (alone.buffer_sizes, alone.buffers, alone.buffers_name)
    assert (MIB, 4 * MIB) == _workload(buffers=path, min_bytes="1M", max_bytes="4M").buffer_sizes


def test_iterations_are_repetitions() -> None:
    """-n is the number of blocks, since each block is one."""
    assert (5, None) == (_scenario(iters=5).measure.blocks, _scenario(iters=5).measure.iters)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"datatype": "fp32"}, "--registration-cost times no collective: leave out -d"),
        ({"op": "avg", "placement": "both"}, "leave out -o, --placement"),
        (
            {"clock": "graph", "hot": True, "warmup": 3, "time_budget": 1.0},
            "leave out --clock, --hot, -w, --time-budget",
        ),
        ({"min_bytes": "1X"}, "'1X' is not a size"),
        ({"min_bytes": "2M", "max_bytes": "1M"}, "smallest size"),
        ({"iters": 1}, "measure.blocks"),
        ({"buffers": Path("nowhere.txt")}, "buffers nowhere.txt: No such file or directory"),
        ({"registration_cost": False, "buffers": Path("x.txt")}, "--buffers needs --registration-cost"),
    ],
)
def test_bad_flags_are_refused(flags: dict[str, Any], told: str) -> None:
    """What has no meaning here is not passed over."""
    with pytest.raises(UsageError, match=told):
        _scenario(**flags)
