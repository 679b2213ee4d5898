"""What torch's NCCL process group is asked for, on a torch.distributed that logs."""

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from gtpbench.backends import cuda_torch, nccl_memory, nccl_torch
from gtpbench.backends.base import RankContext
from gtpbench.backends.nccl_torch import NcclTorchBackend
from gtpbench.errors import RunError, UnsupportedError
from tests.unit.backends.fake_cuda import AllocatorPool, EchoExchange, FakeGpu, FakeTorch


class ProcessGroupNCCL:
    """The group behind the default one; logs registrations."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def register_mem_pool(self, pool: AllocatorPool, *, symm: bool) -> None:
        assert isinstance(pool, AllocatorPool)
        self._log.append(f"register symm={symm}")

    def deregister_mem_pool(self, pool: AllocatorPool) -> None:
        assert isinstance(pool, AllocatorPool)
        self._log.append("deregister")


class OldGroup:
    """A process group without memory pools."""


class FakeDist:
    """torch.distributed, of a version whose collectives on single tensors have these names."""

    ReduceOp = dist.ReduceOp

    def __init__(self, log: list[str], *, single: bool = True, group: Any = None, config: Any = None) -> None:
        self.log = log
        self.options: Any = None
        self.fails: str | None = None
        group = group or ProcessGroupNCCL(log)
        self.group = SimpleNamespace(WORLD=SimpleNamespace(_get_backend=lambda device: group))
        self.ProcessGroupNCCL = SimpleNamespace(
            Options=lambda: SimpleNamespace(config=config or SimpleNamespace(cta_policy=0), _timeout=None)
        )
        gather, scatter = (
            ("all_gather_single", "reduce_scatter_single")
            if single
            else ("all_gather_into_tensor", "reduce_scatter_tensor")
        )
        setattr(self, gather, lambda recv, send: log.append(f"{gather} {recv.numel()} <- {send.numel()}"))
        setattr(self, scatter, lambda recv, send, op: log.append(f"{scatter} {recv.numel()} <- {send.numel()} {op}"))

    def PrefixStore(self, prefix: str, store: Any) -> Any:  # noqa: N802 - torch's own name
        return store

    def init_process_group(self, backend: str, **options: Any) -> None:
        if self.fails:
            raise RuntimeError(self.fails)
        self.options = options
        self.log.append(f"init {backend} {options['rank']}/{options['world_size']}")

    def destroy_process_group(self) -> None:
        self.log.append("destroy")

    def all_reduce(self, tensor: Any, op: Any = None) -> None:
        self.log.append(f"all_reduce {tensor.numel()} {op}")

    def all_to_all_single(self, recv: Any, send: Any, **splits: Any) -> None:
        self.log.append(f"all_to_all {splits['output_split_sizes']} {splits['input_split_sizes']}")

    @contextmanager
    def _coalescing_manager(self, **options: Any) -> Any:
        self.log.append(f"group async={options['async_ops']}")
        yield


class Opened:
    """A backend on a fake torch.distributed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, cta_policy: Any = "default", **fakes: Any) -> None:
        self.log: list[str] = []
        fake_torch: Any = FakeTorch(self.log)
        fake_torch.cuda.use_mem_pool = self._use_mem_pool
        self.dist = FakeDist(self.log, **fakes)
        monkeypatch.setattr(cuda_torch, "torch", fake_torch)
        monkeypatch.setattr(nccl_torch, "torch", fake_torch)
        monkeypatch.setattr(nccl_torch, "dist", self.dist)
        monkeypatch.setattr(cuda_torch, "Gpu", FakeGpu)
        monkeypatch.setattr(nccl_memory, "new_pool", self._new_pool)
        exchange: Any = EchoExchange(self.log)
        exchange.store = "the store"
        self.backend = NcclTorchBackend(
            RankContext(
                rank=0,
                num_ranks=2,
                local_rank=0,
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

    def _new_pool(self) -> AllocatorPool:
        self.log.append("new pool")
        return AllocatorPool()

    @contextmanager
    def _use_mem_pool(self, pool: AllocatorPool, *, device: Any) -> Any:
        self.log.append("in pool")
        yield

    def taken(self, *words: str) -> list[str]:
        """Lines that begin with one of these words, or all; the log begins anew."""
        told, self.log[:] = list(self.log), []
        return [line for line in told if not words or line.startswith(words)]


def test_the_group_is_made_in_the_runs_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """With rank, size and device, so that the communicator is made at once; destroyed at the end."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    assert ["init nccl 0/2", "all_reduce 1 None"] == opened.taken("init", "all_reduce")
    assert ("the store", None) == (opened.dist.options["store"], opened.dist.options["pg_options"])
    assert 9.0 == opened.dist.options["timeout"].total_seconds()
    assert "ProcessGroupNCCL" == opened.backend.capabilities().process_group
    opened.backend.close()
    assert "destroy" == opened.taken()[-1]


def test_without_a_store_there_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by its code."""
    opened = Opened(monkeypatch)
    del opened.backend.context.exchange.store  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="TcpExchange") as caught:
        opened.backend.open()
    assert "exchange" == caught.value.code


@pytest.mark.parametrize(("pool", "symm"), [("window", True), ("registered", False)])
def test_a_pool_is_registered_as_a_whole(monkeypatch: pytest.MonkeyPatch, pool: Any, symm: bool) -> None:
    """Symmetrically only for windows; two buffers are in one pool of NCCL's memory, deregistered once."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    opened.taken()
    for _ in range(2):
        opened.backend.alloc(8, dtype="bf16", pool=pool, owner="a")
    assert ["new pool", "in pool", "in pool"] == opened.taken()
    opened.backend.register(pool, owner="a")
    opened.backend.release(pool, owner="a")
    assert [f"register symm={symm}", "deregister"] == opened.taken("register", "deregister")


def test_ordinary_memory_is_not_nccls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mem_alloc` is, and is registered all the same little."""
    opened = Opened(monkeypatch)
    opened.backend.open()
    opened.taken()
    opened.backend.alloc(8, dtype="bf16", pool="plain")
    assert [] == opened.taken()
    opened.backend.alloc(8, dtype="bf16", pool="mem_alloc")
    assert ["new pool", "in pool"] == opened.taken()
    for pool in ("plain", "mem_alloc"):
        opened.backend.register(pool)  # type: ignore[arg-type]
    assert [] == opened.taken()


def test_a_group_without_pools_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the group's name, the version and the way out."""
    opened = Opened(monkeypatch, group=OldGroup())
    opened.backend.open()
    opened.backend.alloc(8, dtype="bf16", pool="window")
    with pytest.raises(UnsupportedError, match=r"OldGroup of torch .* TORCH_DIST_USE_NCCL2=0") as caught:
        opened.backend.register("window")
    assert "register_mem_pool" == caught.value.code


def test_policy_zero_is_set_in_the_communicator(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL's number for it is 2; a torch that cannot set it is refused by its code."""
    opened = Opened(monkeypatch, cta_policy="zero")
    opened.backend.open()
    options = opened.dist.options["pg_options"]
    assert (2, 9.0) == (options.config.cta_policy, options._timeout.total_seconds())
    with pytest.raises(UnsupportedError, match="cannot set the CTA policy") as caught:
        Opened(monkeypatch, cta_policy="zero", config=SimpleNamespace(blocking=1)).backend.open()
    assert "cta_policy" == caught.value.code


@pytest.mark.parametrize(
    ("single", "gather", "scatter"),
    [
        (True, "all_gather_single", "reduce_scatter_single"),
        (False, "all_gather_into_tensor", "reduce_scatter_tensor"),
    ],
)
def test_collectives_by_the_name_of_this_torch(
    monkeypatch: pytest.MonkeyPatch, single: bool, gather: str, scatter: str
) -> None:
    """Receive buffer first; the sum and the average are torch's."""
    opened = Opened(monkeypatch, single=single)
    backend = opened.backend
    backend.open()
    queue = backend.queue("compute")
    small, large = (backend.alloc(count, dtype="bf16", pool="plain") for count in (4, 8))
    opened.taken()
    backend.all_gather(small, large, queue=queue)
    backend.reduce_scatter(large, small, op="avg", queue=queue)
    backend.all_reduce(large, op="sum", queue=queue)
    backend.all_to_all(large, large, queue=queue)
    backend.all_to_all(large, small, send_splits=[3, 5], recv_splits=(3, 1), queue=queue)
    with backend.coalesce(queue):
        backend.all_gather(small, large, queue=queue)
    assert opened.taken() == [
        f"{gather} 8 <- 4",
        f"{scatter} 4 <- 8 {dist.ReduceOp.AVG}",
        f"all_reduce 8 {dist.ReduceOp.SUM}",
        "all_to_all None None",
        "all_to_all [3, 1] [3, 5]",
        "group async=False",
        f"{gather} 8 <- 4",
    ]


def test_torchs_errors_name_rank_and_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line."""
    opened = Opened(monkeypatch)
    opened.dist.fails = "NCCL error: invalid usage\nLast error:\nDuplicate GPU"
    with pytest.raises(RunError, match=r"^set 3, rank 0: nccl init_process_group: NCCL error: invalid usage$"):
        opened.backend.open()
