"""Cases, arms and evidence of kernels, made by hand."""

from collections.abc import Sequence
from typing import Any

from gtpbench.arms import arm_named
from gtpbench.collectives import CollectiveName
from gtpbench.measure.kernel_proof import kernel_proof
from gtpbench.plan import Arm, Case
from gtpbench.record.model import Clock, KernelRow, Proof, ProofItem, RankEvidence

K = 64
KIB, MIB, GIB = 2**10, 2**20, 2**30
AG_RING = "ncclDevKernel_AllGather_RING_LL"
RS_RING = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"
AG, RS = "ncclSymkDevKernel_AllGather_{}", "ncclSymkDevKernel_ReduceScatter_{}_sum_bf16"
COPY = "Memcpy DtoD (Device -> Device)"
LEGACY_LINE = "NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..{}}}"
SYMMETRIC_LINE = "NCCL INFO {} [Symmetric]: {} Bytes -> Kernel {} nchannels 9 nthreads 512 nWorks 1"
COPY_LINE = "NCCL INFO AllGather [Copy Engine]: {} Bytes -> cudaMemcpy"
REGISTER_LINE = "NCCL INFO register comm 0x247f3ce0 buffer 0x7f2b8a000000 size 67108864"


def make_case(collective: CollectiveName = "all_gather", size_bytes: int = 4 * MIB, **changed: Any) -> Case:
    """A case of two ranks in bf16."""
    fields: dict[str, Any] = {
        "case_id": "case",
        "collective": collective,
        "op": "sum" if collective == "reduce_scatter" else None,
        "dtype": "bf16",
        "requested_bytes": size_bytes,
        "size_bytes": size_bytes,
        "num_ranks": 2,
        "placement": "out_of_place",
        "hot": False,
    }
    return Case(**{**fields, **changed})


def make_arm(name: str) -> Arm:
    """The arm of this name, on NCCL."""
    spec = arm_named(name)
    return Arm(
        name=name,
        backend="nccl_torch",
        registration=spec.registration,
        sides=spec.sides,
        multicast=spec.multicast,
        cta_policy=spec.cta_policy,
        family=spec.family,
        env=spec.env,
    )


def mangled(name: str) -> str:
    """As a graph node gives it."""
    arguments = "21ncclSymkDevWorkArgs4K" if "Symk" in name else "24ncclDevKernelArgsStorageILm4096EE"
    return f"_Z{len(name)}{name}{arguments}"


def kernel(name: str, *, count: int = K, grid: int | None = 9) -> KernelRow:
    """A kernel's row."""
    return KernelRow(name=name, grid=grid, count=count)


def copies(count: int, *, name: str = "memcpy") -> KernelRow:
    """A row of copies."""
    return KernelRow(name=name, kind="memcpy", grid=None, count=count)


def rank(number: int, *rows: KernelRow, clock: Clock = "graph", calls: int | None = K, **changed: Any) -> RankEvidence:
    """What one rank saw."""
    source = "graph_nodes" if clock == "graph" else "cupti"
    return RankEvidence(rank=number, source=source, clock=clock, calls=calls, kernels=rows, **changed)


def every_rank(*rows: KernelRow, num_ranks: int = 2, **changed: Any) -> list[RankEvidence]:
    """All ranks saw the same."""
    return [rank(number, *rows, **changed) for number in range(num_ranks)]


def tuning(*lines: str) -> RankEvidence:
    """The log of rank 0, of another launch."""
    return RankEvidence(rank=0, source="tuning_log", lines=lines)


def legacy_line(collective: str, share: int, algorithm: str = "RING", protocol: str = "SIMPLE", top: int = 63) -> str:
    """A TUNING line of a legacy kernel."""
    function = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter"}[collective]
    return LEGACY_LINE.format(function, share, algorithm, protocol, top)


def prove(
    arm: str, evidence: Sequence[RankEvidence], *, case: Case | None = None, version: str | None = "2.30.7"
) -> Proof:
    """The proof of this arm."""
    return kernel_proof(case or make_case(), make_arm(arm), evidence, nccl_version=version)


def only(proof: Proof) -> ProofItem:
    """Its one item, which must be the proof's."""
    assert 1 == len(proof.items)
    assert (proof.verdict, proof.path) == (proof.items[0].verdict, proof.items[0].path)
    return proof.items[0]


SYMMETRIC_ROW, LEGACY_ROW = kernel(AG.format("ST")), kernel(AG_RING)
FEW_ROW = kernel(AG.format("ST"), count=K - 1)
