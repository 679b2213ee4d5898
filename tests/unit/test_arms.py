"""The table of arms."""

import pytest

from gtpbench.arms import ARMS, arm_named
from gtpbench.errors import UsageError


@pytest.mark.parametrize(
    ("name", "registration", "sides", "cpu_backend", "env"),
    [
        ("none", "none", "none", "gloo", {"NCCL_GRAPH_REGISTER": "0"}),
        ("registered", "registered", "both", None, {}),
        ("symm", "window", "both", "cpu_window", {}),
        ("symm:send", "window", "send", None, {}),
        ("symm:recv", "window", "recv", None, {}),
        ("symm:ce", "window", "both", None, {}),
        ("symm:nvls", "window", "both", None, {}),
        ("symm:nonvls", "window", "both", None, {"NCCL_NVLS_ENABLE": "0"}),
        ("nvls", "registered", "both", None, {"NCCL_ALGO": "allgather:nvls;reducescatter:nvls"}),
        ("nccltests:0", "none", "none", None, {}),
        ("nccltests:2", "window", "both", None, {}),
    ],
)
def test_arms_are_what_the_design_says(
    name: str, registration: str, sides: str, cpu_backend: str | None, env: dict[str, str]
) -> None:
    """Buffers, switches and the CPU counterpart of section 4."""
    arm = arm_named(name)
    assert (name, registration, sides, cpu_backend, env) == (
        arm.name,
        arm.registration,
        arm.sides,
        arm.cpu_backend,
        arm.env,
    )


def test_the_table_has_no_others() -> None:
    """Eleven arms; each is found under its own name."""
    assert 11 == len(ARMS)
    assert all(name == arm.name for name, arm in ARMS.items())


def test_nvls_is_never_switched_on() -> None:
    """Nothing ever sets NCCL_NVLS_ENABLE to anything but 0."""
    assert {"0"} == {arm.env["NCCL_NVLS_ENABLE"] for arm in ARMS.values() if "NCCL_NVLS_ENABLE" in arm.env}


def test_multicast_is_required_where_the_name_says_so() -> None:
    """`nvls` and `symm:nvls` are about multicast; `symm:nonvls` forbids it."""
    assert {"symm:nvls", "nvls"} == {arm.name for arm in ARMS.values() if arm.multicast == "required"}
    assert {"symm:nonvls"} == {arm.name for arm in ARMS.values() if arm.multicast == "off"}
    assert {"symm:ce"} == {arm.name for arm in ARMS.values() if arm.cta_policy == "zero"}
    assert {"nccltests:0", "nccltests:2"} == {arm.name for arm in ARMS.values() if arm.family == "nccltests"}


def test_an_unknown_arm_is_named_with_the_known_ones() -> None:
    """A typing mistake is answered with the choices."""
    with pytest.raises(UsageError, match=r"unknown arm 'simm': one of none, registered, symm, "):
        arm_named("simm")
