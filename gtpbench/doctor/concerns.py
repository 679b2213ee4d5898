"""Which plans a check is about."""

from gtpbench.plan import Arm, Plan


def nccl(plan: Plan) -> bool:
    """Some arm runs on NCCL."""
    return bool(_nccl_arms(plan))


def windows(plan: Plan) -> bool:
    """Some arm registers symmetric windows."""
    return any(arm.registration == "window" for arm in _nccl_arms(plan))


def registered(plan: Plan) -> bool:
    """Some arm registers its buffers, as windows or plainly."""
    return any(arm.registration != "none" for arm in _nccl_arms(plan))


def torch_unregistered(plan: Plan) -> bool:
    """Some arm needs torch's ordinary memory to be unregistered."""
    return any(arm.backend == "nccl_torch" and arm.registration == "none" for arm in plan.arms)


def copy_engine(plan: Plan) -> bool:
    """Some arm asks for copy-engine collectives."""
    return any(arm.cta_policy == "zero" for arm in _nccl_arms(plan))


def torch_groups(plan: Plan) -> bool:
    """Some arm goes through torch's process groups."""
    return any(arm.backend in {"gloo", "nccl_torch"} for arm in plan.arms)


def _nccl_arms(plan: Plan) -> list[Arm]:
    return [arm for arm in plan.arms if arm.backend.startswith("nccl")]
