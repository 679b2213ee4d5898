"""Calls into libnccl, on a library that answers by hand."""

import ctypes
from typing import Any

import pytest

from gtpbench.backends import nccl_library, nccl_memory
from gtpbench.errors import RunError


class Symbol:
    """A function of a library."""

    argtypes: Any = None
    restype: Any = None

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self, *arguments: Any) -> Any:
        return self._answer(*arguments)


class FakeLibrary:
    """libnccl of some version, with or without memory left."""

    def __init__(self, code: int = 23007, *, room: bool = True) -> None:
        self.ncclGetVersion = Symbol(lambda place: self._write(place, code))
        self.ncclMemAlloc = Symbol(lambda place, size: self._write(place, 0x7F00) if room else 2)
        self.ncclMemFree = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda address: 0)
        self.ncclGetErrorString = Symbol(lambda result: f"error {result}".encode())

    @staticmethod
    def _write(place: Any, value: int) -> int:
        place._obj.value = value
        return 0


def _use(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    nccl_library.nccl.cache_clear()
    monkeypatch.setattr(nccl_library.ctypes, "CDLL", lambda name: FakeLibrary(**answers))


@pytest.fixture(autouse=True)
def forget() -> Any:
    """No test's library stays."""
    yield
    nccl_library.nccl.cache_clear()


@pytest.mark.parametrize(("code", "version"), [(23007, (2, 30, 7)), (22809, (2, 28, 9)), (21803, (2, 18, 3))])
def test_a_version_is_read_from_its_code(
    monkeypatch: pytest.MonkeyPatch, code: int, version: tuple[int, int, int]
) -> None:
    """Major x 10000 + minor x 100 + patch."""
    _use(monkeypatch, code=code)
    assert version == nccl_library.version()


def test_memory_is_nccls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address it gives, and the function that frees it."""
    _use(monkeypatch)
    assert 0x7F00 == nccl_library.mem_alloc(100)
    assert 0 != nccl_library.mem_free_address()


def test_a_refusal_has_nccls_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ours: what was asked for."""
    _use(monkeypatch, room=False)
    with pytest.raises(RunError, match="ncclMemAlloc of 100 B failed: error 2"):
        nccl_library.mem_alloc(100)


def test_a_process_without_nccl_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a failure of the run."""

    def absent(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    nccl_library.nccl.cache_clear()
    monkeypatch.setattr(nccl_library.ctypes, "CDLL", absent)
    with pytest.raises(RunError, match=r"no NCCL: libnccl\.so\.2"):
        nccl_library.version()


def test_torchs_allocator_never_sees_an_exception(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It calls from C++: the address, or nothing and a line on stderr."""
    _use(monkeypatch)
    assert 0x7F00 == nccl_memory._allocate(100, 0, None)
    _use(monkeypatch, room=False)
    assert nccl_memory._allocate(100, 0, None) is None
    assert "gtpbench: ncclMemAlloc of 100 B failed: error 2" in capsys.readouterr().err
