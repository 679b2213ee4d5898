"""What is told of which plan."""

from typing import Any

import pytest

from gtpbench.doctor import CHECKS, preflight
from gtpbench.plan import Plan
from gtpbench.record.environment import Environment
from tests.examples import make_plan
from tests.unit.doctor.environments import gpu, healthy, library, nccl, places

NCCL: dict[str, Any] = {"backend": "nccl_torch", "measure": {"clock": "graph"}}
EVERYTHING = healthy(
    libraries=(*nccl("2.28.9", "2.27.5", "2.10.0"), library("nccl (copy 2)", "2.27.5")),
    num_nodes=2,
    gpu_states=(gpu(0, num_processes=1, throttle_reasons=("hw_slowdown",)),),
    ranks={"0": places("gpu0", "gpu0")},
    shm_bytes=2**26,
    nccl_conf=("/etc/nccl.conf",),
    variables={
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1",
        "NCCL_ALGO": "Ring",
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_DEBUG": "TRACE",
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    },
)


def _codes(environment: Environment, plan: Plan) -> set[str]:
    return {finding.code for finding in preflight(environment, plan)}


def test_a_healthy_host_has_no_findings() -> None:
    """Whatever the arms."""
    assert () == preflight(healthy(), make_plan(arms=["none", "registered", "symm", "symm:nvls", "nvls"], **NCCL))


@pytest.mark.parametrize("backend", ["cpu", "gloo", "standin"])
def test_cpu_ranks_do_not_mind_nccl(backend: str) -> None:
    """Only what torch itself does to a process group concerns them."""
    plan = make_plan(backend=backend, arms=["none"])
    assert ({"torch_debug"} if backend != "standin" else set()) == _codes(EVERYTHING, plan)


def test_everything_at_once() -> None:
    """Each finding is one line with advice, and no code comes twice."""
    plan = make_plan(arms=["none", "symm", "symm:ce"], **NCCL)
    found = preflight(EVERYTHING, plan)
    assert {
        "two_nccls",
        "nccl_not_torchs",
        "nccl_1735",
        "expandable_segments",
        "allocator_hook",
        "path_forced",
        "cumem_off",
        "multicast_forced",
        "instrumented",
        "torch_debug",
        "nccl_conf",
        "small_shm",
        "no_mps",
        "gpu_in_use",
        "throttled",
    } == {finding.code for finding in found}
    assert len(found) == len({finding.code for finding in found})
    for finding in found:
        assert str(finding) == f"{finding.severity}: {finding.text}; {finding.advice}"
        assert "\n" not in str(finding)


@pytest.mark.parametrize(
    ("arms", "backend", "code", "told"),
    [
        (["none"], "nccl_torch", "allocator_hook", True),
        (["symm"], "nccl_torch", "allocator_hook", False),
        (["none"], "nccl_direct", "allocator_hook", False),
        (["none"], "nccl_torch", "expandable_segments", False),
        (["registered"], "nccl_torch", "expandable_segments", True),
        (["registered"], "nccl_torch", "nccl_1735", False),
        (["symm:send"], "nccl_direct", "nccl_1735", True),
        (["none"], "nccl_torch", "cumem_off", False),
        (["nvls"], "nccl_torch", "cumem_off", True),
        (["none"], "nccl_direct", "torch_debug", False),
    ],
)
def test_findings_that_concern_some_arms_only(arms: list[str], backend: str, code: str, told: bool) -> None:
    """A plan hears of what can spoil its own arms."""
    plan = make_plan(arms=arms, **{**NCCL, "backend": backend})
    assert told == (code in _codes(EVERYTHING, plan))


def test_the_copy_engines_bug_is_told_to_its_arm() -> None:
    """Others do not call copy-engine collectives."""
    environment = healthy(libraries=nccl("2.29.7", "2.29.7"))
    assert {"nccl_2241"} == _codes(environment, make_plan(arms=["none", "symm:ce"], **NCCL))
    assert set() == _codes(environment, make_plan(arms=["none", "symm"], **NCCL))


def test_a_check_is_listed_once() -> None:
    """And every function of the package's modules is listed."""
    from gtpbench.doctor import libraries, machine, settings

    functions = {
        value
        for module in (libraries, machine, settings)
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    assert functions == {check.examine for check in CHECKS}
    assert len(functions) == len(CHECKS)
