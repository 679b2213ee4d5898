"""Variables and files left over from other work."""

from collections.abc import Callable

import pytest

from gtpbench.doctor import settings
from gtpbench.record.environment import Environment, Finding
from tests.unit.doctor.environments import healthy, nccl

Check = Callable[[Environment], Finding | None]
ALL: tuple[Check, ...] = (
    settings.segments_expand,
    settings.allocator_registers,
    settings.path_is_forced,
    settings.cumem_off,
    settings.multicast_switch,
    settings.instrumented,
    settings.torch_watches,
    settings.settings_file,
)
HOOK = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "expandable_segments"),
        ({"PYTORCH_ALLOC_CONF": "max_split_size_mb:64, expandable_segments: True"}, "expandable_segments"),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:False"}, None),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, None),
        ({HOOK: "1"}, "allocator_hook"),
        ({HOOK: "true"}, "allocator_hook"),
        ({HOOK: "0"}, None),
        ({"NCCL_ALGO": "Ring"}, "path_forced"),
        ({"NCCL_PROTO": "LL128"}, "path_forced"),
        ({"NCCL_CTA_POLICY": "2"}, "path_forced"),
        ({"NCCL_SYM_KERNEL": "AllGather_ST"}, "path_forced"),
        ({"NCCL_SYM_CTAS": "8"}, "path_forced"),
        ({"NCCL_WIN_ENABLE": "0"}, "path_forced"),
        ({"NCCL_WIN_ENABLE": "1"}, None),
        ({"NCCL_CUMEM_ENABLE": "0"}, "cumem_off"),
        ({"NCCL_CUMEM_ENABLE": "1"}, None),
        ({"NCCL_NVLS_ENABLE": "0"}, "multicast_off"),
        ({"NCCL_NVLS_ENABLE": "1"}, "multicast_forced"),
        ({"NCCL_NVLS_ENABLE": "2"}, None),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "instrumented"),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, None),
        ({"TORCH_NCCL_ENABLE_TIMING": "1"}, "instrumented"),
        ({"NCCL_CHECK_MODE": "DEBUG"}, "instrumented"),
        ({"NCCL_DEBUG": "TRACE"}, "instrumented"),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,TUNING"}, "instrumented"),
        ({"NCCL_DEBUG": "info", "NCCL_DEBUG_SUBSYS": "all"}, "instrumented"),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}, None),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "^TUNING"}, None),
        ({"NCCL_DEBUG": "INFO"}, None),
        ({"NCCL_DEBUG": "VERSION"}, None),
        ({"NCCL_DEBUG_SUBSYS": "TUNING"}, None),
        ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "torch_debug"),
        ({"TORCH_DISTRIBUTED_DEBUG": "info"}, "torch_debug"),
        ({"TORCH_DISTRIBUTED_DEBUG": "OFF"}, None),
        ({"NCCL_SOCKET_IFNAME": "eth0", "CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ({}, None),
    ],
)
def test_variables(variables: dict[str, str], code: str | None) -> None:
    """Each value has the finding it should, and no other check minds it."""
    environment = healthy(variables=variables)
    found = [finding.code for check in ALL if (finding := check(environment))]
    assert ([] if code is None else [code]) == found


def test_every_variable_is_named_with_its_value() -> None:
    """So that the reader knows what to unset."""
    finding = settings.path_is_forced(healthy(variables={"NCCL_ALGO": "Ring", "NCCL_WIN_ENABLE": "0"}))
    assert finding is not None
    assert finding.text == "NCCL_ALGO=Ring, NCCL_WIN_ENABLE=0 in the environment: NCCL does not choose freely"


@pytest.mark.parametrize(("torch", "told"), [("2.10.0", True), ("2.9.1+cu128", True), ("2.11.0", False)])
def test_expandable_segments_by_torch(torch: str, told: bool) -> None:
    """Before 2.11 memory pools break; later registration alone is at stake."""
    variables = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    finding = settings.segments_expand(healthy(variables=variables, libraries=nccl("2.27.5", torch=torch)))
    assert finding is not None
    assert told == (f"breaks memory pools of torch {torch}" in finding.text)


def test_settings_files_are_named() -> None:
    """By kind, never by folder."""
    finding = settings.settings_file(healthy(nccl_conf=("~/.nccl.conf", "/etc/nccl.conf")))
    assert finding is not None
    assert (finding.severity, finding.text) == ("note", "NCCL reads settings from ~/.nccl.conf and /etc/nccl.conf")
