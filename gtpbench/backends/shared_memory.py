"""Memory that the ranks of one node share, and a barrier in it. No torch.

A segment is a memfd that peers open through the owner's entry in procfs: no size limit of /dev/shm, and nothing is left
behind after SIGKILL. Flags are plain stores, which other processors see in order on x86-64 only.
"""

import ctypes
import json
import mmap
import os
import platform
import time
import weakref
from pathlib import Path
from typing import TypeAlias

from gtpbench.backends.base import RankContext
from gtpbench.backends.rendezvous import Rendezvous, missed
from gtpbench.errors import RunError, UnsupportedError

Memory: TypeAlias = "ctypes.Array[ctypes.c_ubyte]"
"""Mapped bytes. Unmapped when the last view of them is gone, so that no view can outlive its memory."""

CACHE_LINE_BYTES = 64
_SPINS_PER_CLOCK = 1024
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def require_x86_64(backend: str) -> None:
    """Refuse processors on which plain stores may be seen out of order.

    Raises:
        UnsupportedError: not x86-64.
    """
    if platform.machine() != "x86_64":
        raise UnsupportedError(
            f"{backend} orders its flags by plain stores, which needs x86-64, and this is {platform.machine()}: "
            "a barrier with fences would provide it",
            code="machine",
        )


def map_memory(fd: int, num_bytes: int, *, writable: bool) -> Memory:
    """Map a file descriptor, page tables filled at once so that no collective pays for it.

    `mmap.mmap` is not used because each of its objects keeps a duplicate of the descriptor.
    """
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    address = _libc.mmap(None, num_bytes, protection, mmap.MAP_SHARED | mmap.MAP_POPULATE, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), f"mapping {num_bytes} B of shared memory: {os.strerror(ctypes.get_errno())}")
    memory: Memory = (ctypes.c_ubyte * num_bytes).from_address(address)
    # Not at exit: views that live until then would be left dangling, and the kernel unmaps anyway.
    weakref.finalize(memory, _libc.munmap, address, num_bytes).atexit = False
    return memory


class Segment:
    """A run of this process's memory that others can map. `close` drops the descriptor, not the mapping."""

    def __init__(self, num_bytes: int, *, label: str) -> None:
        self.num_bytes = max(num_bytes, 1)
        self._name = f"{label}.{os.urandom(6).hex()}"
        self._fd = os.memfd_create(self._name, os.MFD_CLOEXEC)
        os.ftruncate(self._fd, self.num_bytes)
        self.memory = map_memory(self._fd, self.num_bytes, writable=True)

    def address(self) -> bytes:
        """What a peer needs to open it, for the exchange."""
        return json.dumps([os.getpid(), self._fd, self.num_bytes, self._name]).encode()

    def close(self) -> None:
        """Close the descriptor once all peers have opened it; they and this process keep their mappings."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def open_segment(address: bytes, *, writable: bool) -> Memory:
    """Map a segment of another process on this host.

    Raises:
        RunError: the owner is gone, on another host, or in another PID namespace.
    """
    pid, fd, num_bytes, name = json.loads(address)
    path = Path(f"/proc/{pid}/fd/{fd}")
    try:
        # The number may belong to a stranger where the ranks do not share a PID namespace; the name may not.
        if str(path.readlink()) != f"/memfd:{name} (deleted)":
            raise RunError(f"{path} is not the shared memory of a rank: do the ranks share a host and PID namespace?")
        mine = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
    except OSError as error:
        raise RunError(f"shared memory of process {pid} cannot be opened: {error}") from error
    try:
        return map_memory(mine, num_bytes, writable=writable)
    finally:
        os.close(mine)


def share_page(rendezvous: Rendezvous, context: RankContext, num_bytes: int, *, label: str) -> Memory:
    """One zeroed run of memory, writable by all ranks of the node; rank 0 owns it. Collective."""
    segment = Segment(num_bytes, label=label) if context.rank == 0 else None
    addresses = rendezvous.gather(f"{label} address", segment.address() if segment else b"")
    memory = segment.memory if segment else open_segment(addresses[0], writable=True)
    rendezvous.gather(f"{label} mapped")
    if segment:
        segment.close()
    return memory


class FlagBarrier:
    """A barrier of the node's ranks: one cache line each in a shared page, holding the epochs it has entered."""

    def __init__(self, rendezvous: Rendezvous, context: RankContext) -> None:
        """Share the page. Collective."""
        stride = CACHE_LINE_BYTES // 8
        page = share_page(rendezvous, context, context.num_ranks * CACHE_LINE_BYTES, label="gtpbench.flags")
        self._flags = memoryview(page).cast("B").cast("Q")
        self._mine = context.rank * stride
        self._others = [peer * stride for peer in range(context.num_ranks) if peer != context.rank]
        self._context = context
        self._epoch = 0

    def wait(self) -> None:
        """Return when every rank has called it as often as this one. Spins, giving up the core between looks.

        Raises:
            StageTimeout: not all ranks came within the context's timeout; names the ones that did not.
        """
        flags = self._flags
        self._epoch = epoch = self._epoch + 1
        flags[self._mine] = epoch
        for other in self._others:
            # A peer may already have entered the next barrier, never the one after.
            if flags[other] < epoch:
                self._spin(other, epoch)

    def _spin(self, other: int, epoch: int) -> None:
        flags, give_way = self._flags, os.sched_yield
        deadline = time.monotonic() + self._context.timeout_s
        while True:
            for _ in range(_SPINS_PER_CLOCK):
                give_way()
                if flags[other] >= epoch:
                    return
            if time.monotonic() > deadline:
                stride = CACHE_LINE_BYTES // 8
                late = [place // stride for place in self._others if flags[place] < epoch]
                raise missed(self._context, f"shared-memory barrier {epoch}", late)
