"""The checks made before anything is timed: one literal table, each with the plans it is about."""

from collections.abc import Callable
from dataclasses import dataclass

from gtpbench.doctor import concerns, libraries, machine, settings
from gtpbench.plan import Plan
from gtpbench.record.environment import Environment, Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check and the plans it is about."""

    examine: Callable[[Environment], Finding | None]
    concerns: Callable[[Plan], bool]


CHECKS: tuple[Check, ...] = (
    Check(examine=libraries.two_copies, concerns=concerns.nccl),
    Check(examine=libraries.loaded_and_built_differ, concerns=concerns.nccl),
    Check(examine=libraries.first_copy_engine_collective, concerns=concerns.copy_engine),
    Check(examine=libraries.windows_on_several_hosts, concerns=concerns.windows),
    Check(examine=settings.segments_expand, concerns=concerns.registered),
    Check(examine=settings.allocator_registers, concerns=concerns.torch_unregistered),
    Check(examine=settings.path_is_forced, concerns=concerns.nccl),
    Check(examine=settings.cumem_off, concerns=concerns.registered),
    Check(examine=settings.multicast_switch, concerns=concerns.nccl),
    Check(examine=settings.instrumented, concerns=concerns.nccl),
    Check(examine=settings.torch_watches, concerns=concerns.torch_groups),
    Check(examine=settings.settings_file, concerns=concerns.nccl),
    Check(examine=machine.small_shared_memory, concerns=concerns.nccl),
    Check(examine=machine.shared_without_mps, concerns=concerns.nccl),
    Check(examine=machine.mps_without_sharing, concerns=concerns.nccl),
    Check(examine=machine.others_on_the_gpu, concerns=concerns.nccl),
    Check(examine=machine.clocks_held_down, concerns=concerns.nccl),
)


def preflight(environment: Environment, plan: Plan) -> tuple[Finding, ...]:
    """What may spoil this plan's run in this environment, in the order of the table."""
    found = (check.examine(environment) for check in CHECKS if check.concerns(plan))
    return tuple(finding for finding in found if finding is not None)
