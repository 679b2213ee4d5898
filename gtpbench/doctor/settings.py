"""Checks of environment variables and settings files that change what NCCL or torch does."""

from gtpbench.record.environment import Environment, Finding, expandable_segments
from gtpbench.versions import parse_version

_ON = frozenset({"1", "true", "yes", "on", "y", "t"})
_FORCING = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_CTA_POLICY")
_TRACING = frozenset({"ALL", "COLL", "P2P", "TUNING", "PROFILE", "CALL", "REG", "ALLOC", "PROXY"})
"""Subsystems of NCCL's log that print for every collective, registration or allocation."""


def segments_expand(environment: Environment) -> Finding | None:
    """The allocator's expandable segments and pools of registered memory exclude each other."""
    if not expandable_segments(environment.variables):
        return None
    torch = environment.library("torch")
    breaks = torch is not None and parse_version(torch) < (2, 11)
    return Finding(
        code="expandable_segments",
        severity="warning",
        text=f"expandable_segments:True is set{f', and breaks memory pools of torch {torch}' if breaks else ''}",
        advice="arms with registered buffers are skipped: take it out of PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF",
    )


def allocator_registers(environment: Environment) -> Finding | None:
    """Torch registers ordinary memory too, so that nothing is unregistered."""
    name = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
    if environment.variables.get(name, "").lower() not in _ON:
        return None
    return Finding(
        code="allocator_hook",
        severity="warning",
        text=f"{name} makes torch register ordinary memory",
        advice="the unregistered baseline is none: unset it",
    )


def path_is_forced(environment: Environment) -> Finding | None:
    """Variables left over that take the choice of path from NCCL, or windows from the arms."""
    variables = environment.variables
    found = [name for name in variables if name in _FORCING or name.startswith("NCCL_SYM_")]
    found += ["NCCL_WIN_ENABLE"] if variables.get("NCCL_WIN_ENABLE") == "0" else []
    if not found:
        return None
    return Finding(
        code="path_forced",
        severity="warning",
        text=f"{_named(environment, found)} in the environment: NCCL does not choose freely",
        advice="unset for a fair comparison; what ran is in the proof",
    )


def cumem_off(environment: Environment) -> Finding | None:
    """Without VMM memory there are no windows and no multicast."""
    if environment.variables.get("NCCL_CUMEM_ENABLE") != "0":
        return None
    return Finding(
        code="cumem_off",
        severity="warning",
        text="NCCL_CUMEM_ENABLE=0: NCCL can make neither symmetric windows nor multicast buffers",
        advice="window arms will fall back: unset it",
    )


def multicast_switch(environment: Environment) -> Finding | None:
    """An exported NCCL_NVLS_ENABLE stays as it is; say what follows."""
    value = environment.variables.get("NCCL_NVLS_ENABLE")
    if value == "0":
        return Finding(
            code="multicast_off",
            severity="note",
            text="NCCL_NVLS_ENABLE=0 is exported: NCCL uses no multicast",
            advice="arms that require it are skipped, and windows are served by unicast kernels",
        )
    if value == "1":
        return Finding(
            code="multicast_forced",
            severity="warning",
            text="NCCL_NVLS_ENABLE=1 is exported: NCCL uses multicast without asking the device",
            advice="unset it, and NCCL asks; some hosts forbid multicast",
        )
    return None


def instrumented(environment: Environment) -> Finding | None:
    """Logs, checks and synchronous launches that cost time within what is measured."""
    variables = environment.variables
    found = [name for name in ("CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_ENABLE_TIMING") if _is_on(variables.get(name))]
    found += ["NCCL_CHECK_MODE"] if "NCCL_CHECK_MODE" in variables else []
    level = variables.get("NCCL_DEBUG", "").upper()
    subsystems = set(variables.get("NCCL_DEBUG_SUBSYS", "").upper().split(","))
    found += ["NCCL_DEBUG"] if level == "TRACE" else []
    found += ["NCCL_DEBUG_SUBSYS"] if level == "INFO" and subsystems & _TRACING else []
    if not found:
        return None
    return Finding(
        code="instrumented",
        severity="warning",
        text=f"{_named(environment, found)}: NCCL or CUDA is being watched, and times include that",
        advice="unset before measuring",
    )


def torch_watches(environment: Environment) -> Finding | None:
    """torch.distributed checks and logs every collective."""
    level = environment.variables.get("TORCH_DISTRIBUTED_DEBUG", "").upper()
    if level not in {"INFO", "DETAIL"}:
        return None
    return Finding(
        code="torch_debug",
        severity="warning",
        text=f"TORCH_DISTRIBUTED_DEBUG={level}: torch checks its collectives, and times include that",
        advice="unset before measuring",
    )


def settings_file(environment: Environment) -> Finding | None:
    """NCCL reads variables from files that no record shows."""
    if not environment.nccl_conf:
        return None
    return Finding(
        code="nccl_conf",
        severity="note",
        text=f"NCCL reads settings from {' and '.join(environment.nccl_conf)}",
        advice="the record keeps their hash only: compare with runs of the same files",
    )


def _named(environment: Environment, names: list[str]) -> str:
    return ", ".join(f"{name}={environment.variables[name]}" for name in names)


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() in _ON
