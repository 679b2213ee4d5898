"""How bytes move: one protocol, one module a backend, and the literal table that names them."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """A registered backend: where its class is, and what it is, for `gtpbench list backends`."""

    target: str
    """`module:Class`."""
    origin: Literal["measured", "cpu", "modelled"]
    summary: str


BACKENDS: dict[str, BackendEntry] = {
    "gloo": BackendEntry(
        target="gtpbench.backends.gloo:GlooBackend", origin="cpu", summary="torch.distributed on CPU ranks"
    ),
    "cpu_window": BackendEntry(
        target="gtpbench.backends.cpu_window:CpuWindowBackend",
        origin="cpu",
        summary="CPU ranks map one another's buffers and copy or reduce by load and store",
    ),
    "standin": BackendEntry(
        target="gtpbench.backends.standin:StandinBackend",
        origin="modelled",
        summary="no torch, real processes, a made-up clock: for tests of everything above a backend",
    ),
    "nccl_torch": BackendEntry(
        target="gtpbench.backends.nccl_torch:NcclTorchBackend",
        origin="measured",
        summary="torch.distributed's NCCL process group, what Megatron runs",
    ),
    "nccl_direct": BackendEntry(
        target="gtpbench.backends.nccl_direct:NcclDirectBackend",
        origin="measured",
        summary="nccl4py communicator, without a process group",
    ),
}
