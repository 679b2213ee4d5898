"""From flags to a scenario."""

from typing import Any

import pytest

from gtpbench.cli.collective import CollectiveFlags
from gtpbench.errors import UsageError
from gtpbench.scenario.schema import Scenario

KIB, MIB, GIB = 2**10, 2**20, 2**30
DEFAULTS: dict[str, Any] = {
    "collective": "all_gather",
    "arms": None,
    "symm": False,
    "nvls": None,
    "min_bytes": None,
    "max_bytes": None,
    "step_factor": None,
    "datatype": "bf16",
    "op": "sum",
    "placement": "out_of_place",
    "num_ranks": None,
    "ranks_per_gpu": None,
    "backend": "auto",
    "clock": "auto",
    "hot": False,
    "launches": None,
    "iters": None,
    "warmup": None,
    "time_budget": None,
    "seed": None,
    "functional": False,
    "allow_skip": False,
}


def _scenario(num_gpus: int = 0, **flags: Any) -> Scenario:
    return CollectiveFlags(**{**DEFAULTS, **flags}).scenario(num_gpus)


@pytest.mark.parametrize(
    ("flags", "arms"),
    [
        ({}, ("none",)),
        ({"symm": True}, ("none", "symm")),
        ({"symm": True, "nvls": True}, ("none", "symm", "symm:nvls")),
        ({"symm": True, "nvls": False}, ("none", "symm:nonvls")),
        ({"nvls": True}, ("none", "symm:nvls")),
        ({"nvls": False}, ("none",)),
        ({"arms": ["symm,none"]}, ("symm", "none")),
        ({"arms": ["none", "symm:ce"]}, ("none", "symm:ce")),
        ({"arms": ["none, symm:ce", "symm:send"]}, ("none", "symm:ce", "symm:send")),
        ({"arms": ["symm,none"], "symm": True}, ("symm", "none")),
        ({"arms": ["registered"], "symm": True}, ("registered", "symm")),
        ({"arms": ["none,symm:nvls"], "nvls": True}, ("none", "symm:nvls")),
        ({"arms": ["symm,none"], "nvls": False}, ("symm:nonvls", "none")),
    ],
)
def test_arms(flags: dict[str, Any], arms: tuple[str, ...]) -> None:
    """--symm is none,symm; --nvls adds symm:nvls; --no-nvls puts symm:nonvls in place of symm; --arm names them."""
    assert arms == _scenario(**flags).arms


@pytest.mark.parametrize(
    ("flags", "num_gpus", "sizes"),
    [
        ({}, 0, "auto"),
        ({}, 8, "auto"),
        ({"min_bytes": "1M", "max_bytes": "16M"}, 0, (MIB, 4 * MIB, 16 * MIB)),
        ({"min_bytes": "1M", "max_bytes": "4M", "step_factor": 2}, 0, (MIB, 2 * MIB, 4 * MIB)),
        ({"min_bytes": "4M"}, 0, (4 * MIB, 16 * MIB)),
        ({"min_bytes": "64M"}, 8, (64 * MIB, 256 * MIB)),
        ({"min_bytes": "1G"}, 8, (GIB,)),
        ({"max_bytes": "256K"}, 0, (64 * KIB, 256 * KIB)),
        ({"max_bytes": "4K"}, 0, (4 * KIB,)),
        ({"step_factor": 16}, 0, (64 * KIB, MIB, 16 * MIB)),
        ({"step_factor": 64}, 8, (64 * KIB, 4 * MIB, 256 * MIB)),
        ({"step_factor": 16, "backend": "cpu"}, 8, (64 * KIB, MIB, 16 * MIB)),
        ({"step_factor": 64, "backend": "nccl_torch"}, 0, (64 * KIB, 4 * MIB, 256 * MIB)),
    ],
)
def test_sizes(flags: dict[str, Any], num_gpus: int, sizes: Any) -> None:
    """-b 64K -e 256M -f 4, on CPU ranks to 16M; each letter has its default."""
    assert sizes == _scenario(num_gpus, **flags).workload.sizes


def test_lists_and_choices() -> None:
    """Types in a comma-separated list with nccl-tests' words; both placements as separate cases."""
    scenario = _scenario(collective="reduce_scatter", datatype="float, half", placement="both", op="avg")
    assert ("reduce_scatter",) == scenario.workload.collectives
    assert ("fp32", "fp16") == scenario.workload.dtypes
    assert ("out_of_place", "in_place") == scenario.workload.placements
    assert "avg" == scenario.workload.op


def test_measurement_flags_reach_the_scenario() -> None:
    """Those that were given; the others keep the scenario's defaults."""
    scenario = _scenario(launches=3, iters=100, warmup=7, time_budget=2.5, seed=11, hot=True, clock="graph")
    assert (3, 100, 7, 2.5, 11, True, "graph", 10) == (
        scenario.measure.launches,
        scenario.measure.iters,
        scenario.measure.warmup,
        scenario.measure.time_budget_s,
        scenario.measure.seed,
        scenario.measure.hot,
        scenario.measure.clock,
        scenario.measure.blocks,
    )


def test_ranks_backend_and_switches_reach_the_scenario() -> None:
    """Ranks are `auto` unless given."""
    assert ("auto", 1) == (_scenario().num_ranks, _scenario().ranks_per_gpu)
    assert ("auto", 2) == (_scenario(ranks_per_gpu=2).num_ranks, _scenario(ranks_per_gpu=2).ranks_per_gpu)
    scenario = _scenario(num_ranks=4, backend="gloo", functional=True, allow_skip=True)
    assert (4, "gloo", True, True) == (
        scenario.num_ranks,
        scenario.backend,
        scenario.functional,
        scenario.allow_skip,
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"arms": ["none,,symm"]}, "'none,,symm': an empty name"),
        ({"arms": [""]}, "an empty name"),
        ({"datatype": "bf16,"}, "'bf16,': an empty name"),
        ({"arms": ["none,simm"]}, "unknown arm 'simm'"),
        ({"arms": ["symm,symm:nonvls"], "nvls": False}, "names an arm twice"),
        ({"min_bytes": "1X"}, "'1X' is not a size"),
        ({"min_bytes": "2M", "max_bytes": "1M"}, "smallest size"),
        ({"min_bytes": "0"}, "smallest size"),
        ({"step_factor": 1}, "-f 1: the size factor must be 2 or more"),
        ({"time_budget": float("nan")}, "measure.time_budget_s"),
        ({"time_budget": float("inf")}, "measure.time_budget_s"),
        ({"launches": 1001}, "measure.launches"),
        ({"num_ranks": 4097}, "num_ranks"),
        ({"ranks_per_gpu": 65}, "ranks_per_gpu"),
    ],
)
def test_bad_flags_are_refused(flags: dict[str, Any], told: str) -> None:
    """With what was wrong."""
    with pytest.raises(UsageError, match=told):
        _scenario(**flags)
