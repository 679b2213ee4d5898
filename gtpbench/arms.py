"""The arms: what is compared. One literal table; the first arm of a run is its baseline."""

from dataclasses import dataclass, field
from typing import Literal

from gtpbench.errors import UsageError

Registration = Literal["none", "registered", "window"]
Sides = Literal["none", "send", "recv", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One arm.

    Attributes:
        name: as given to `--arm` and written in records.
        registration: how its buffers are registered with the communicator.
        sides: which buffers of a collective are.
        cpu_backend: the backend that plays this arm on CPU ranks, None where CPUs have no counterpart.
        env: environment variables of its worker set; arms with equal environments share a set.
        multicast: `required` where the arm is about NVLink multicast.
        family: arms of different families are never compared.
        summary: one line for `gtpbench list arms`.
    """

    name: str
    registration: Registration
    sides: Sides
    summary: str
    cpu_backend: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    multicast: Literal["any", "required", "off"] = "any"
    cta_policy: Literal["default", "zero"] = "default"
    family: Literal["main", "nccltests"] = "main"


ARMS: dict[str, ArmSpec] = {
    arm.name: arm
    for arm in (
        ArmSpec(
            name="none",
            registration="none",
            sides="none",
            cpu_backend="gloo",
            env={"NCCL_GRAPH_REGISTER": "0"},
            summary="ordinary memory, nothing registered; on CPU: gloo",
        ),
        ArmSpec(
            name="registered",
            registration="registered",
            sides="both",
            summary="plain user-buffer registration (ncclCommRegister)",
        ),
        ArmSpec(
            name="symm",
            registration="window",
            sides="both",
            cpu_backend="cpu_window",
            summary="send and receive buffers in a symmetric window; on CPU: cpu_window",
        ),
        ArmSpec(name="symm:send", registration="window", sides="send", summary="only the send buffer in a window"),
        ArmSpec(name="symm:recv", registration="window", sides="recv", summary="only the receive buffer in a window"),
        ArmSpec(
            name="symm:ce",
            registration="window",
            sides="both",
            cta_policy="zero",
            summary="window, CTA policy ZERO: all-gather by the copy engines",
        ),
        ArmSpec(
            name="symm:nvls",
            registration="window",
            sides="both",
            multicast="required",
            summary="window, and a multicast (NVLink SHARP) kernel is required",
        ),
        ArmSpec(
            name="symm:nonvls",
            registration="window",
            sides="both",
            multicast="off",
            env={"NCCL_NVLS_ENABLE": "0"},
            summary="window, multicast off in this arm's processes",
        ),
        ArmSpec(
            name="nvls",
            registration="registered",
            sides="both",
            multicast="required",
            env={"NCCL_ALGO": "allgather:nvls;reducescatter:nvls"},
            summary="legacy NVLS algorithm forced, plain registration",
        ),
        ArmSpec(
            name="nccltests:0",
            registration="none",
            sides="none",
            family="nccltests",
            summary="nccl-tests' conditions with -R 0, for cross-checks only",
        ),
        ArmSpec(
            name="nccltests:2",
            registration="window",
            sides="both",
            family="nccltests",
            summary="nccl-tests' conditions with -R 2, for cross-checks only",
        ),
    )
}


def arm_named(name: str) -> ArmSpec:
    """The arm with this name.

    Raises:
        UsageError: no such arm.
    """
    if name not in ARMS:
        raise UsageError(f"unknown arm {name!r}: one of {', '.join(ARMS)}")
    return ARMS[name]
