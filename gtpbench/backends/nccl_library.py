"""The NCCL library of this process, for the few calls that torch does not pass on."""

import ctypes
from functools import cache

from gtpbench.errors import RunError

_SUCCESS = 0


@cache
def nccl() -> ctypes.CDLL:
    """The libnccl that is loaded in this process; torch, imported first, has loaded it.

    Raises:
        RunError: there is none.
    """
    try:
        library = ctypes.CDLL("libnccl.so.2")
    except OSError as error:
        raise RunError(f"this process has no NCCL: {error}") from error
    library.ncclMemAlloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
    library.ncclGetErrorString.restype = ctypes.c_char_p
    return library


def version() -> tuple[int, int, int]:
    """Version of the loaded library.

    Raises:
        RunError: no library, or it does not tell.
    """
    code = ctypes.c_int()
    check(nccl().ncclGetVersion(ctypes.byref(code)), "ncclGetVersion")
    major, rest = divmod(code.value, 10_000)
    return major, rest // 100, rest % 100


def mem_alloc(num_bytes: int) -> int:
    """Address of new memory of NCCL's own kind on the current device: shareable, and mapped on all peers.

    Raises:
        RunError: NCCL refused.
    """
    address = ctypes.c_void_p()
    check(nccl().ncclMemAlloc(ctypes.byref(address), num_bytes), f"ncclMemAlloc of {num_bytes} B")
    return int(address.value or 0)


def mem_free_address() -> int:
    """Address of the function `ncclMemFree`."""
    return int(ctypes.cast(nccl().ncclMemFree, ctypes.c_void_p).value or 0)


def check(result: int, what: str) -> None:
    """Turn NCCL's result code into our error.

    Raises:
        RunError: the call failed.
    """
    if result != _SUCCESS:
        raise RunError(f"{what} failed: {nccl().ncclGetErrorString(result).decode()}")
