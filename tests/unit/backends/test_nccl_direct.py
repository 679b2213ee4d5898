"""What an nccl4py communicator is asked for, on a module that logs."""

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from gtpbench.backends import cuda_torch, nccl_direct
from gtpbench.backends.base import RankContext
from gtpbench.backends.nccl_direct import NcclDirectBackend
from gtpbench.errors import UnsupportedError
from tests.unit.backends.fake_cuda import EchoExchange, FakeGpu, FakeTorch, watched


class Handle:
    """A registration."""

    def __init__(self, log: list[str], name: str, handle: int) -> None:
        self._log, self._name, self.handle = log, name, handle

    def close(self) -> None:
        self._log.append(f"close {self._name}")


class Communicator:
    """Logs collectives with their stream, and registrations with their flags."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.handles = iter(range(1, 100))
        """Of the windows made next; 0 is NULL."""

    def register_buffer(self, tensor: Any) -> Handle:
        self.log.append(f"register buffer {tensor.numel()}")
        return Handle(self.log, "buffer", 1)

    def register_window(self, tensor: Any, *, flags: str) -> Handle:
        self.log.append(f"register window {tensor.numel()} {flags}")
        return Handle(self.log, "window", next(self.handles))

    def finalize(self) -> None:
        self.log.append("finalize")

    def destroy(self) -> None:
        self.log.append("destroy")

    def _note(self, name: str, *what: Any, stream: int) -> None:
        told = [str(item.numel() if isinstance(item, torch.Tensor) else item) for item in what]
        self.log.append(f"{name} {' '.join(told)} on {stream}")

    def __getattr__(self, name: str) -> Any:
        assert name in {"allgather", "reduce_scatter", "allreduce", "alltoall", "send", "recv"}, name
        return lambda *what, stream: self._note(name, *what, stream=stream)


class Opened:
    """A backend of rank 1 of two, on fakes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, cta_policy: Any = "default") -> None:
        self.log: list[str] = []
        self.communicator = Communicator(self.log)
        self.config: dict[str, Any] = {}
        self.joined: tuple[Any, ...] = ()
        fake_torch: Any = FakeTorch(self.log)
        for module in (cuda_torch, nccl_direct):
            monkeypatch.setattr(module, "torch", fake_torch)
        monkeypatch.setattr(cuda_torch, "Gpu", FakeGpu)
        names = ("nccl", "nccl.core", "nccl.core.interop", "nccl.core.interop.torch")
        modules: dict[str, Any] = {name: ModuleType(name) for name in names}
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(modules[parent], child, module)
        self._fill(modules["nccl.core"], modules["nccl.core.interop.torch"])
        exchange: Any = EchoExchange(self.log, **{"unique id": [b"the id", b""]})
        self.backend = NcclDirectBackend(
            RankContext(
                rank=1,
                num_ranks=2,
                local_rank=1,
                local_size=2,
                node=0,
                num_nodes=1,
                set_id=3,
                exchange=exchange,
                timeout_s=9.0,
                device=0,
                cta_policy=cta_policy,
            )
        )

    def _fill(self, core: Any, memory: Any) -> None:
        core.get_unique_id = lambda: b"the id"
        core.UniqueId = SimpleNamespace(from_bytes=bytes.decode)
        core.CTAPolicy = SimpleNamespace(ZERO="zero ctas")
        core.NCCLConfig = lambda **config: config
        core.WindowFlag = SimpleNamespace(COLL_SYMMETRIC="symmetric", DEFAULT="default")
        core.NcclRedOp = SimpleNamespace(SUM="sum", AVG="avg")
        core.Communicator = SimpleNamespace(init=self._init)
        core.group = self._group
        memory.empty = self._empty

    def _init(self, num_ranks: int, rank: int, identity: str, *, config: dict[str, Any]) -> Communicator:
        self.joined, self.config = (num_ranks, rank, identity), config
        return self.communicator

    @contextmanager
    def _group(self) -> Any:
        self.log.append("group begins")
        yield
        self.log.append("group ends")

    def _empty(self, count: int, *, dtype: torch.dtype, device: Any) -> torch.Tensor:
        self.log.append(f"ncclMemAlloc {count}")
        made: torch.Tensor = watched(torch.empty(count, dtype=dtype), self.log, "tensor")
        return made

    def taken(self) -> list[str]:
        """The log so far, which begins anew."""
        told, self.log[:] = list(self.log), []
        return told


def test_the_communicator_is_rank_0s(monkeypatch: pytest.MonkeyPatch) -> None:
    """All join by the identity that rank 0 made; finalized before it is destroyed, both once."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    assert ((2, 1, "the id"), {}) == (opened.joined, opened.config)
    assert "allreduce 1 1 sum on 1001" in opened.taken()
    opened.backend.close()
    opened.backend.close()
    assert ["finalize", "destroy"] == opened.taken()[-2:]


def test_policy_zero_is_the_communicators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only fields that differ from the default are set: older libraries reject those they do not know."""
    opened = Opened(monkeypatch, cta_policy="zero")
    opened.backend.open()
    assert {"cta_policy": "zero ctas"} == opened.config


def test_nccl4py_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsupported by its code."""
    opened = Opened(monkeypatch)
    monkeypatch.setitem(sys.modules, "nccl.core", None)
    with pytest.raises(UnsupportedError, match="nccl_direct needs nccl4py") as caught:
        opened.backend.open()
    assert "nccl4py" == caught.value.code


def test_windows_are_symmetric_and_closed_while_the_buffers_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each buffer, with the flag that is not the default."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    opened.taken()
    for count in (4, 8):
        opened.backend.alloc(count, dtype="bf16", pool="window", owner="a")
    opened.backend.register("window", owner="a")
    told = [line for line in opened.taken() if line.startswith(("nccl", "register"))]
    assert ["ncclMemAlloc 4", "ncclMemAlloc 8", "register window 4 symmetric", "register window 8 symmetric"] == told
    opened.backend.release("window", owner="a")
    assert opened.taken() == [
        "synchronize",
        "meet: deregister",
        "close window",
        "close window",
        "tensor gone",
        "tensor gone",
        "empty cache",
    ]


def test_null_windows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL reports success and gives NULL where it supports none: such a buffer lies in no window."""
    opened = Opened(monkeypatch)
    opened.communicator.handles = iter([0, 7, 0])
    opened.backend.open()
    for _ in range(3):
        opened.backend.alloc(4, dtype="bf16", pool="window")
    opened.backend.register("window")
    assert {"windows": 1, "null_windows": 2, "registered": 0} == opened.backend.witness().counters
    assert 1 == opened.backend.memory().num_windows


def test_plain_registration_is_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of NCCL's memory too; ordinary memory is torch's, and `mem_alloc` is registered nowhere."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    opened.taken()
    for pool in ("plain", "mem_alloc", "registered"):
        opened.backend.alloc(4, dtype="bf16", pool=pool)  # type: ignore[arg-type]
        opened.backend.register(pool)  # type: ignore[arg-type]
    told = [line for line in opened.taken() if line.startswith(("nccl", "register"))]
    assert ["ncclMemAlloc 4", "ncclMemAlloc 4", "register buffer 4"] == told
    assert {"windows": 0, "null_windows": 0, "registered": 1} == opened.backend.witness().counters


def test_collectives_are_on_their_queues_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never on the default one. Unequal parts are sends and receives of one group, without those of nothing."""
    opened = Opened(monkeypatch)
    backend = opened.backend
    backend.open()
    small, large = (backend.alloc(count, dtype="bf16", pool="plain") for count in (4, 8))
    queue = backend.queue("comm")
    backend._use(queue)
    opened.taken()
    backend.all_gather(small, large, queue=queue)
    backend.reduce_scatter(large, small, op="avg", queue=queue)
    backend.all_reduce(large, op="sum", queue=queue)
    backend.all_to_all(large, large, queue=queue)
    backend.all_to_all(large, small, send_splits=[0, 8], recv_splits=[3, 1], queue=queue)
    backend.all_to_all(large, large, send_splits=[3, 5], queue=queue)
    with backend.coalesce(queue):
        backend.all_gather(small, large, queue=queue)
    assert opened.taken() == [
        "allgather 4 8 on 1002",
        "reduce_scatter 8 4 avg on 1002",
        "allreduce 8 8 sum on 1002",
        "alltoall 8 8 on 1002",
        "group begins",
        "recv 3 0 on 1002",
        "send 8 1 on 1002",
        "recv 1 1 on 1002",
        "group ends",
        "group begins",
        "send 3 0 on 1002",
        "recv 4 0 on 1002",
        "send 5 1 on 1002",
        "recv 4 1 on 1002",
        "group ends",
        "group begins",
        "allgather 4 8 on 1002",
        "group ends",
    ]


def test_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of memory, capture and groups."""
    can = Opened(monkeypatch).backend.capabilities()
    assert {"plain", "mem_alloc", "registered", "window"} == can.pools
    assert can.capture
    assert "grouped" == can.coalescing
