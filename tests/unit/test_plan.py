"""The plan: cases, arms, sets, digests."""

import pytest

from gtpbench.errors import UsageError
from gtpbench.plan import build_plan, digest, estimated_seconds, skips, wire_bytes_all_ranks
from gtpbench.scenario.load import build_scenario, dump_scenario
from tests.examples import make_facts, make_plan, make_scenario, scenario_table

NCCL = {"backend": "nccl_torch", "num_ranks": 8, "measure": {"clock": "graph"}}


def test_cases_are_every_combination_in_order() -> None:
    """Collectives, then dtypes, placements, sizes; an operation only where something is reduced."""
    workload = {
        "collectives": ["all_gather", "reduce_scatter"],
        "sizes": ["64K", "1M"],
        "dtypes": ["bf16", "float"],
        "placements": ["out_of_place", "in_place"],
    }
    ids = [case.case_id for case in make_plan(workload=workload).cases]
    assert 16 == len(ids) == len(set(ids))
    assert ids[:5] == [
        "all_gather/bf16/65536/n2/out_of_place",
        "all_gather/bf16/1048576/n2/out_of_place",
        "all_gather/bf16/65536/n2/in_place",
        "all_gather/bf16/1048576/n2/in_place",
        "all_gather/fp32/65536/n2/out_of_place",
    ]
    assert ids[8] == "reduce_scatter/sum/bf16/65536/n2/out_of_place"


def test_hot_cases_have_names_of_their_own() -> None:
    """A cached figure is another case."""
    plan = make_plan(measure={"clock": "host", "hot": True})
    assert ["all_gather/bf16/65536/n2/out_of_place/hot"] == [case.case_id for case in plan.cases]


@pytest.mark.parametrize(
    ("size", "dtype", "num_ranks", "rounded", "count"),
    [
        (65536, "bf16", 3, 65532, 32766),
        (65536, "fp32", 2, 65536, 16384),
        (13, "uint8", 4, 12, 12),
        (4, "bf16", 2, 4, 2),
        (100, "fp64", 3, 96, 12),
    ],
)
def test_sizes_are_rounded_down(size: int, dtype: str, num_ranks: int, rounded: int, count: int) -> None:
    """To a multiple of ranks x element size; what was asked for stays in the record."""
    plan = make_plan(workload={"collectives": ["all_gather"], "sizes": [size], "dtypes": [dtype]}, num_ranks=num_ranks)
    case = plan.cases[0]
    assert (size, rounded, count) == (case.requested_bytes, case.size_bytes, case.count)


def test_sizes_that_round_to_the_same_are_one_case() -> None:
    """The first one asked for gives its name."""
    plan = make_plan(workload={"collectives": ["all_gather"], "sizes": [65533, 65534, 65535, 65536]}, num_ranks=2)
    assert [(65533, 65532), (65536, 65536)] == [(case.requested_bytes, case.size_bytes) for case in plan.cases]


@pytest.mark.parametrize(
    ("size", "dtype", "num_ranks", "numbers"),
    [(3, "bf16", 2, "2 x 2 B = 4 B"), (31, "fp64", 4, "4 x 8 B = 32 B"), (1, "uint8", 2, "2 x 1 B = 2 B")],
)
def test_a_size_under_one_element_a_rank_is_refused(size: int, dtype: str, num_ranks: int, numbers: str) -> None:
    """The message shows the size, the arithmetic and the least that works."""
    workload = {"collectives": ["all_gather"], "sizes": [size], "dtypes": [dtype]}
    with pytest.raises(UsageError) as caught:
        make_plan(workload=workload, num_ranks=num_ranks)
    assert f"size {size}B is under one {dtype} element" in str(caught.value)
    assert f"({numbers}): ask for {numbers.split(' = ')[1]} or more" in str(caught.value)


def test_cpu_arms_get_their_own_backends_and_sets() -> None:
    """gloo and the window live in sets of their own; NCCL's variables mean nothing on CPU ranks."""
    plan = make_plan(arms=["none", "symm", "symm:ce", "registered"])
    assert ["gloo", "cpu_window", "none", "none"] == [arm.backend for arm in plan.arms]
    assert all(not arm.env for arm in plan.arms)
    assert [("none",), ("symm",)] == [worker_set.arms for worker_set in plan.sets[:2]]
    assert [0, 1, 2, 3] == [worker_set.set_id for worker_set in plan.sets]


def test_arms_of_one_environment_share_a_set() -> None:
    """On NCCL the environment decides, and so do CTA policy and nccl-tests' conditions."""
    arms = ["none", "symm", "symm:send", "symm:ce", "symm:nonvls", "registered", "nccltests:2"]
    plan = make_plan(arms=arms, **NCCL)
    assert [("none",), ("symm", "symm:send", "registered"), ("symm:ce",), ("symm:nonvls",), ("nccltests:2",)] == [
        worker_set.arms for worker_set in plan.sets
    ]
    assert {"NCCL_GRAPH_REGISTER": "0"} == plan.sets[0].env
    assert {"NCCL_NVLS_ENABLE": "0"} == plan.sets[3].env


@pytest.mark.parametrize(
    ("ranks_per_gpu", "added"),
    [
        (1, {}),
        (2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}),
        (3, {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "8"}),
        (4, {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": "8"}),
    ],
)
def test_sharing_a_gpu_is_part_of_every_sets_environment(ranks_per_gpu: int, added: dict[str, str]) -> None:
    """On top of what the arm sets; three ranks or more take fewer CTAs each."""
    plan = make_plan(arms=["none", "symm", "symm:nonvls"], ranks_per_gpu=ranks_per_gpu, **NCCL)
    own: list[dict[str, str]] = [{"NCCL_GRAPH_REGISTER": "0"}, {}, {"NCCL_NVLS_ENABLE": "0"}]
    assert [variables | added for variables in own] == [worker_set.env for worker_set in plan.sets]
    assert all(not arm.env for arm in make_plan(ranks_per_gpu=ranks_per_gpu).arms)


def test_a_named_backend_runs_all_arms() -> None:
    """`--backend standin` plays every arm."""
    plan = make_plan(backend="standin")
    assert ["standin", "standin"] == [arm.backend for arm in plan.arms]
    assert [("none", "symm")] == [worker_set.arms for worker_set in plan.sets]


@pytest.mark.parametrize(
    "changed",
    [
        {"num_ranks": 4},
        {"ranks_per_gpu": 2},
        {"arms": ["symm", "none"]},
        {"arms": ["none"]},
        {"workload": {"collectives": ["all_gather"], "sizes": ["128K"]}},
        {"workload": {"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]}},
        {"measure": {"clock": "host", "seed": 1}},
        {"measure": {"clock": "host", "blocks": 12}},
        {"backend": "standin"},
    ],
)
def test_another_scenario_is_another_plan(changed: dict[str, object]) -> None:
    """The digest tells plans apart."""
    assert make_plan().digest != make_plan(**changed).digest


def test_a_saved_scenario_replays_the_same_plan() -> None:
    """Through TOML and back: the same cases, arms, sets and digest."""
    import tomllib

    plan = make_plan(workload={"collectives": ["reduce_scatter"], "sizes": ["64K", 12345], "dtypes": ["half"]})
    again = build_scenario(tomllib.loads(dump_scenario(plan.scenario)), origin="test")
    assert plan == build_plan(again)


def test_spelling_does_not_change_the_plan() -> None:
    """64K, 64KiB and 65536 are one size; float and fp32 one type."""
    one = make_plan(workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["float"]})
    other = make_plan(workload={"collectives": ["all_gather"], "sizes": [65536], "dtypes": ["fp32"]})
    assert one.digest == other.digest


def test_digest_ignores_the_order_of_keys() -> None:
    """First 16 hex digits of SHA-256 over sorted JSON: of `{"a": 1, "b": 2}` they are known."""
    import hashlib

    assert hashlib.sha256(b'{"a": 1, "b": 2}').hexdigest()[:16] == digest({"b": 2, "a": 1})


def test_plan_finds_an_arm_by_name() -> None:
    """And knows its ranks."""
    plan = make_plan()
    assert "cpu_window" == plan.arm("symm").backend
    assert 2 == plan.num_ranks


def test_wire_bytes_of_all_ranks() -> None:
    """8 ranks each send 7/8 of 1 MiB."""
    plan = make_plan(workload={"collectives": ["all_gather"], "sizes": ["1M"]}, **NCCL)
    assert 7 * 2**20 == wire_bytes_all_ranks(plan.cases[0])


def test_estimated_time_counts_launches_and_the_budget() -> None:
    """Two launches take twice one launch, at least the time budget each; nothing to run takes no time."""
    one = make_plan(measure={"clock": "host", "time_budget_s": 30.0})
    two = make_plan(measure={"clock": "host", "time_budget_s": 30.0, "launches": 2})
    nothing = skips(one, make_facts(num_nodes=1))
    assert 2 * estimated_seconds(one, nothing) == pytest.approx(estimated_seconds(two, nothing))
    assert 30.0 < estimated_seconds(one, nothing) < 60.0
    alone = make_plan(arms=["symm:ce"])
    assert 0.0 == estimated_seconds(alone, skips(alone, make_facts()))


def test_planning_needs_resolved_values() -> None:
    """`auto` sizes never reach planning."""
    scenario = build_scenario(scenario_table(workload={"collectives": ["all_gather"]}), origin="test")
    with pytest.raises(AssertionError, match="auto is resolved"):
        build_plan(scenario)
    assert make_scenario().num_ranks == 2
