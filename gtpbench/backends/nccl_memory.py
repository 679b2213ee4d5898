"""torch memory pools over ncclMemAlloc.

torch has an allocator for this (`ProcessGroupNCCL.mem_allocator`), but refuses to give it out where the device has no
multicast, although windows work there. This one asks NCCL itself, on every version alike.
"""

import ctypes
import sys
from typing import Any

import torch

from gtpbench.backends import nccl_library

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


@_Allocate  # type: ignore[untyped-decorator]
def _allocate(num_bytes: int, _device: int, _stream: int | None) -> int | None:
    try:
        return nccl_library.mem_alloc(num_bytes)
    except Exception as error:  # noqa: BLE001 - nothing may be raised through torch's allocator
        print(f"gtpbench: {error}", file=sys.stderr)
        return None


_allocator: Any = None


def _shared_allocator() -> Any:
    """One allocator for the life of the process: torch keeps pointers to its functions.

    `ncclMemFree` takes the address alone; what torch passes behind it is ignored by the calling convention. It is
    called directly, so that memory can still be freed when the interpreter has ended.
    """
    global _allocator  # noqa: PLW0603
    if _allocator is None:
        allocate = int(ctypes.cast(_allocate, ctypes.c_void_p).value or 0)
        _allocator = torch._C._cuda_customAllocator(allocate, nccl_library.mem_free_address())
    return _allocator


def new_pool() -> torch.cuda.MemPool:
    """An empty pool whose segments come from ncclMemAlloc."""
    return torch.cuda.MemPool(_shared_allocator())
