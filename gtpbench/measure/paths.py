"""Kernel name -> family and path. Pure; names of NCCL 2.27 to 2.32 and of NCCL EP.

A symmetric kernel's name tells its path. A legacy name does not: ring, tree, NVLS, PAT and CollNet of every protocol
run under one representative, such as `ncclDevKernel_AllGather_RING_LL`. What matches nothing is `unknown`.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from gtpbench.record.model import PathName

KernelFamily = Literal["symmetric", "legacy", "ep", "unknown"]

_SYMMETRIC_ALGORITHMS: Final = (
    "RailRing_LsaSTMC|RailA2A_LsaLD(?:MC)?|GinHier_MCRing|RSxNet_ARxMC_AGxNet|RSxTmaLD_AGxTmaST|RSxLDMC_AGxSTMC"
    "|RSxLD_AGxST|AGxLL(?:MC)?_R|Tma(?:ST|LD)(?:MC)?|LL(?:MC)?|ST(?:MC)?|LD(?:MC)?"
)
_SYMMETRIC: Final = re.compile(
    r"^ncclSymk?DevKernel_(?P<collective>AllGather|ReduceScatter|AllReduce)"
    rf"_(?P<algorithm>{_SYMMETRIC_ALGORITHMS})"
    r"(?:_(?P<op>sum|avg))?(?:_(?P<dtype>f32|f16|bf16|f8e4m3|f8e5m2))?(?:_profile)?(?:\(|$)"
)
_LEGACY: Final = re.compile(
    r"^ncclDevKernel_"
    r"(?P<collective>AllGatherV|AllGather|AllReduce|ReduceScatter|Reduce|Broadcast|SendRecv|Generic)"
    r"(?:_(?P<op>Sum))?(?:_(?P<dtype>f64|f32|f16|bf16|f8e4m3|f8e5m2|u64|u32|u8))?"
    r"(?:_(?:RING|TREE))?(?:_LL)?(?:\(|$)"
)
_EP: Final = re.compile(
    r"^nccl_ep_jit_(?P<algorithm>ll_dispatch|ll_combine|ht_dispatch|ht_combine|ht_local_dup|ht_local_reduce"
    r"|local_permute_dup|local_permute_reduce|ht_scan_flat|ht_scan_em|build_em_tables)"
)
_TUNED_KERNEL: Final = re.compile(rf"(?:AllGather|ReduceScatter|AllReduce)_(?P<algorithm>{_SYMMETRIC_ALGORITHMS})")
_PEER_COPY: Final = re.compile(r"^(?:memcpy$|Memcpy (?:PtoP|DtoD)\b)")
_MANGLED: Final = re.compile(r"_ZL?(?P<length>[1-9]\d*)")
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClass:
    """What a kernel's name says.

    Attributes:
        name: the function's name, without mangling and arguments.
        path: None where the name alone cannot tell, which holds for every legacy kernel.
        collective: as in our own files, `all_gather`; for NCCL EP `dispatch` or `combine`; None where it has none.
        algorithm: `ST`, `LLMC`, `RailA2A_LsaLD` ...; None for legacy kernels.
        dtype: NCCL's word, such as `bf16` or `u32`; legacy kernels run signed whole numbers as unsigned ones.
        op: `sum` or `avg`; a legacy `sum` stands for other operations too.
    """

    name: str
    family: KernelFamily
    path: PathName | None
    collective: str | None = None
    algorithm: str | None = None
    dtype: str | None = None
    op: str | None = None


def classify_kernel(name: str) -> KernelClass:
    """The class of a kernel, by its name as graph nodes (mangled) or CUPTI (demangled) give it."""
    plain = function_name(name)
    if match := _SYMMETRIC.match(plain):
        return KernelClass(
            name=plain,
            family="symmetric",
            path=_path_of(match["algorithm"]),
            collective=snake_case(match["collective"]),
            algorithm=match["algorithm"],
            dtype=match["dtype"],
            op=match["op"],
        )
    if match := _LEGACY.match(plain):
        return KernelClass(
            name=plain,
            family="legacy",
            path=None,
            collective=snake_case(match["collective"]),
            dtype=match["dtype"],
            op=match["op"] and match["op"].lower(),
        )
    if match := _EP.match(plain):
        collective = next((step for step in ("dispatch", "combine") if step in match["algorithm"]), None)
        return KernelClass(
            name=plain, family="ep", path="ep_kernel", collective=collective, algorithm=match["algorithm"]
        )
    return KernelClass(name=plain, family="unknown", path="unknown")


def function_name(name: str) -> str:
    """The bare name of a kernel: of `_Z<length><name><arguments>` (Itanium), `void name(...)` or `name(...)`.

    A mangled name that is cut short, or nested in a namespace, comes back as it is.
    """
    if match := _MANGLED.match(name):
        plain = name[match.end() : match.end() + int(match["length"])]
        return plain if len(plain) == int(match["length"]) else name
    return name.removeprefix("void ").partition("(")[0].strip()


def tuned_algorithm(kernel: str) -> tuple[str, PathName]:
    """Algorithm and path of a symmetric kernel as TUNING lines name it: `AllGather_ST` is (`ST`, `symm_lsa`)."""
    match = _TUNED_KERNEL.fullmatch(kernel)
    return (match["algorithm"], _path_of(match["algorithm"])) if match else (kernel, "unknown")


def is_peer_copy(name: str) -> bool:
    """Whether a copy's name is one that a copy engine between GPUs leaves; copies from and to the host are not."""
    return _PEER_COPY.match(name) is not None


def snake_case(function: str) -> str:
    """NCCL's name of a function in ours: `AllGather` is `all_gather`."""
    return _WORD_START.sub("_", function).lower()


def _path_of(algorithm: str) -> PathName:
    if any(word in algorithm for word in ("Rail", "GinHier", "RSxNet")):
        return "symm_rail"
    return "symm_multicast" if "MC" in algorithm else "symm_lsa"
