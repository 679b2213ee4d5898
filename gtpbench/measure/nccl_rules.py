"""NCCL's own rules that keep a call off the path that was asked for, in words; a call they keep is `not_eligible`.

Read in NCCL 2.27.7 to 2.30.7. Versions are number tuples as `parse_version` gives them, None where not known; a rule
that depends on the version is then not taken as a reason.
"""

from typing import Final

from gtpbench.collectives import COLLECTIVES
from gtpbench.measure.paths import KernelClass
from gtpbench.plan import Arm, Case

Version = tuple[int, ...] | None

_SYMMETRIC_LIMIT_BYTES: Final = 64 * 2**30
_LL_LIMIT_BYTES: Final = 16 * 2**20
"""LL doubles the bytes for a base time that is 3.3 us lower (Hopper, 4.5 against 7.8 us): from here on that pays on
no link below 2.5 TB/s, so that NCCL's model cannot have wanted LL."""
_SYMMETRIC_REDUCES: Final = ("fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2")
_NVLS_REDUCES: Final = ("fp32", "fp64", "fp16", "bf16", "int32")
_COPY_ENGINE_ELEMENTS: Final = 8 * 2**20


def no_symmetric_kernel(case: Case, arm: Arm, *, version: Version, protocol: str | None) -> str | None:
    """Why a call with windows stays on a legacy kernel; None where no rule says so.

    Args:
        protocol: what NCCL's legacy model picked for this call, from TUNING; None where not known.
    """
    if rule := _unsupported(case, version=version):
        return rule
    if arm.sides == "both":
        has_ll_rule = version is not None and (2, 29, 2) <= version < (2, 29, 7)
        return _ll_rule(case, protocol=protocol) if has_ll_rule else None
    if version is not None and version < (2, 29, 2):
        return f"before 2.29.2 both buffers must lie in windows, here only the {arm.sides} buffer does"
    needed = "send" if COLLECTIVES[case.collective].reduces else "recv"
    if arm.sides == needed:
        return _ll_rule(case, protocol=protocol) if version is not None else None
    if protocol == "LL":
        return None
    title = COLLECTIVES[case.collective].title
    return (
        f"the {title} kernels for large messages need a window around the {needed} buffer, and LL kernels do with the "
        f"{arm.sides} buffer's only where the legacy model picks LL as well"
    )


def no_multicast_kernel(case: Case, kernel: KernelClass, *, version: Version) -> str | None:
    """Why a symmetric kernel without multicast ran where one with multicast was required."""
    if version is not None and version >= (2, 29, 7) and case.num_ranks <= 2:
        return "from 2.29.7 multicast kernels need more than 2 ranks in one NVLink domain"
    if COLLECTIVES[case.collective].reduces and kernel.algorithm == "LL":
        return "the reduce-scatter kernel for small messages (LL) has no multicast form"
    return None


def no_copy_engine(case: Case, *, version: Version) -> str | None:
    """Why SMs moved the data under CTA policy ZERO."""
    if COLLECTIVES[case.collective].reduces:
        return "there is no copy-engine reduce-scatter"
    if version is not None and version < (2, 28):
        return "copy-engine collectives came with 2.28"
    return None


def copy_engine_by_itself(case: Case, arm: Arm, *, version: Version) -> str | None:
    """Why the copy engines gathered though the CTA policy is the default one."""
    large = case.count // case.num_ranks > _COPY_ENGINE_ELEMENTS
    gathers = not COLLECTIVES[case.collective].reduces and arm.sides in ("both", "recv")
    if large and gathers and version is not None and version >= (2, 29, 2):
        return "Blackwell gathers more than 8 Mi elements a rank by copy engine whatever the CTA policy"
    return None


def no_nvls(case: Case) -> str | None:
    """Why legacy NVLS cannot run this call."""
    if not COLLECTIVES[case.collective].reduces:
        return None
    if case.op == "avg":
        return "legacy NVLS does not average"
    return None if case.dtype in _NVLS_REDUCES else f"legacy NVLS does not reduce {case.dtype}"


def _unsupported(case: Case, *, version: Version) -> str | None:
    if case.size_bytes >= _SYMMETRIC_LIMIT_BYTES:
        return "symmetric kernels stop below 64 GiB"
    if not COLLECTIVES[case.collective].reduces:
        return None
    if case.dtype not in _SYMMETRIC_REDUCES:
        return f"no symmetric kernel reduces {case.dtype}"
    if case.op == "avg" and version is not None and version < (2, 30, 3):
        return "symmetric kernels average from 2.30.3 on"
    return None


def _ll_rule(case: Case, *, protocol: str | None) -> str | None:
    if protocol == "LL" or case.size_bytes >= _LL_LIMIT_BYTES:
        return None
    known = f"it picks {protocol}" if protocol else "no TUNING log shows its pick"
    return f"LL symmetric kernels run with these windows only where the legacy model picks LL as well, and {known}"
