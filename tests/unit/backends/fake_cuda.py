"""torch with a device that logs instead of computing: what a CUDA backend asks of it, on a machine without a GPU."""

import weakref
from types import SimpleNamespace
from typing import Any

import torch

from gtpbench.backends.base import Capabilities, DeviceState, RankContext
from gtpbench.backends.cuda_torch import CudaPool, TorchCudaBackend


class FakeStream:
    """A stream that is always empty."""

    def __init__(self, log: list[str], number: int, priority: int) -> None:
        self.log, self.number, self.priority = log, number, priority
        self.cuda_stream = 1000 + number

    def synchronize(self) -> None:
        self.log.append(f"synchronize stream {self.number}")

    def wait_event(self, event: Any) -> None:
        self.log.append(f"stream {self.number} waits")


class FakeEvent:
    """An event: each is 0.25 ms after the one before."""

    made = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        FakeEvent.made += 1
        self.at_ms = 0.25 * FakeEvent.made

    def record(self, stream: FakeStream) -> None:
        stream.log.append(f"record on stream {stream.number}")

    def elapsed_time(self, end: "FakeEvent") -> float:
        return end.at_ms - self.at_ms


class FakeCuda:
    """`torch.cuda`."""

    Event = FakeEvent

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self._streams = 0

    def synchronize(self, device: Any = None) -> None:
        self._log.append("synchronize")

    def empty_cache(self) -> None:
        self._log.append("empty cache")

    def set_device(self, device: Any) -> None:
        self._log.append("set device")

    def set_stream(self, stream: FakeStream) -> None:
        self._log.append(f"use stream {stream.number}")

    def Stream(self, device: Any, *, priority: int) -> FakeStream:  # noqa: N802 - torch's own name
        self._streams += 1
        return FakeStream(self._log, self._streams, priority)

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(uuid="1a2b", L2_cache_size=50 * 2**20)

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return 700, 1000


class FakeTorch:
    """torch, but for its device."""

    def __init__(self, log: list[str]) -> None:
        self.cuda = FakeCuda(log)

    def device(self, *_: Any) -> torch.device:
        return torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class FakeGpu:
    """A GPU that is busy."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid

    def state(self) -> DeviceState:
        return DeviceState(sm_clock_mhz=1980, power_w=650.5, throttle_reasons=("sw_power_cap",))


class EchoExchange:
    """Every other rank says what this one says, unless the test plays it; logs each meeting."""

    def __init__(self, log: list[str], **played: list[bytes]) -> None:
        self._log = log
        self._played = played
        self._mine = b""

    def set(self, key: str, value: bytes) -> None:
        what = key.split("/")[-2]
        self._mine = value
        self._log.append(f"meet: {what}")

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        *_, what, rank = key.split("/")
        return self._played[what][int(rank)] if what in self._played else self._mine


class AllocatorPool:
    """What an allocator keeps memory in."""


def watched(thing: Any, log: list[str], name: str) -> Any:
    """Log when the last reference goes."""
    weakref.finalize(thing, log.append, f"{name} gone").atexit = False
    return thing


class LoggedBackend(TorchCudaBackend):
    """Communicators and registrations that only log."""

    name = "logged"

    def __init__(self, context: RankContext, log: list[str]) -> None:
        super().__init__(context)
        self.log = log
        self.room_bytes = 2**20
        self.num_null = 0

    def _connect(self) -> None:
        self.log.append("connect")

    def _disconnect(self) -> None:
        self.log.append("disconnect")

    def _allocate(self, pool: CudaPool, count: int, *, dtype: torch.dtype) -> torch.Tensor:
        if count * dtype.itemsize > self.room_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if pool.memory is None:
            pool.memory = watched(AllocatorPool(), self.log, "pool")
        made: torch.Tensor = watched(torch.empty(count, dtype=dtype), self.log, "tensor")
        return made

    def _register(self, pool: CudaPool) -> None:
        pool.num_null += self.num_null
        self.log.append(f"register {pool.kind}: {len(pool.tensors)} tensors")

    def _deregister(self, pool: CudaPool) -> None:
        self.log.append(f"deregister {pool.kind}: {len(pool.tensors)} tensors, memory {pool.memory is not None}")

    def _reduce_one(self, tensor: torch.Tensor, queue: Any) -> None:
        self.log.append(f"all-reduce {tensor.numel()}")

    def capabilities(self) -> Capabilities:
        raise NotImplementedError

    def all_gather(self, send: Any, recv: Any, *, queue: Any) -> None:
        self._enter(queue)
        self.log.append("all-gather")

    def reduce_scatter(self, send: Any, recv: Any, *, op: Any, queue: Any) -> None:
        raise NotImplementedError

    def all_reduce(self, buffer: Any, *, op: Any, queue: Any) -> None:
        raise NotImplementedError

    def all_to_all(self, send: Any, recv: Any, *, send_splits: Any = None, recv_splits: Any = None, queue: Any) -> None:
        raise NotImplementedError

    def coalesce(self, queue: Any) -> Any:
        raise NotImplementedError
