"""Which NCCL a process will load or has loaded, and which settings it reads."""

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gtpbench.launch import which_nccl
from gtpbench.launch.which_nccl import (
    LoadedNccl,
    library_to_load,
    mapped_files,
    nccl_libraries,
    settings_files,
    version_of,
    version_text,
)
from tests.cli.command import ROOT

MAPS = """\
55d0-55d1 r--p 00000000 08:01 11 /usr/bin/python3.12
7f00-7f10 r--p 00000000 08:01 12 /tmp/gpu/nccl/nvidia/nccl/lib/libnccl.so.2
7f10-7f20 r-xp 00010000 08:01 12 /tmp/gpu/nccl/nvidia/nccl/lib/libnccl.so.2
7f20-7f30 r--p 00000000 08:01 13 /usr/lib/with a space/libnccl.so.2.28.9
7f30-7f40 r--p 00000000 08:01 14 /opt/libnccl-net.so
7f40-7f50 r--p 00000000 08:01 15 /opt/libnccl.so.2 (deleted)
7f50-7f60 rw-p 00000000 00:00 0
7f60-7f70 rw-p 00000000 00:00 0 [heap]
"""
PRELOADED = Path("/tmp/gpu/nccl/nvidia/nccl/lib/libnccl.so.2")
OTHER = Path("/usr/lib/with a space/libnccl.so.2.28.9")


def test_mapped_files() -> None:
    """Each once; neither plugins nor files that are gone."""
    assert [PRELOADED, OTHER] == mapped_files(MAPS)
    assert [] == mapped_files("")


@pytest.mark.parametrize(
    ("number", "text"), [(23007, "2.30.7"), (22809, "2.28.9"), (20906, "2.9.6"), (2708, "2.7.8"), (23203, "2.32.3")]
)
def test_version_numbers(number: int, text: str) -> None:
    """nccl.h: major * 10000 + minor * 100 + patch, up to 2.8 major * 1000."""
    assert text == version_text(number)


@pytest.mark.parametrize(
    ("preload", "library"),
    [
        (None, None),
        ("", None),
        ("/x/libnccl.so.2", "/x/libnccl.so.2"),
        ("/x/libfoo.so:/y/libnccl.so.2.30.7", "/y/libnccl.so.2.30.7"),
        ("/x/libfoo.so /y/libnccl.so", "/y/libnccl.so"),
        ("/x/libnccl-net.so", None),
    ],
)
def test_the_library_to_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, preload: str | None, library: str | None
) -> None:
    """A preloaded file; else the wheel's; else the loader's by name."""
    environ = {} if preload is None else {"LD_PRELOAD": preload}
    monkeypatch.setattr(sys, "path", [str(tmp_path / "empty"), str(tmp_path)])
    assert (library or "libnccl.so.2") == library_to_load(environ)
    wheel = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    assert (library or str(wheel)) == library_to_load(environ)


def test_what_is_no_nccl_has_no_version(tmp_path: Path) -> None:
    """A missing file, a file that is no library, a library without NCCL's calls."""
    (tmp_path / "libnccl.so.2").write_text("no library", encoding="ascii")
    assert version_of(str(tmp_path / "missing.so")) is None
    assert version_of(str(tmp_path / "libnccl.so.2")) is None
    assert version_of("libc.so.6") is None


class _Loader:
    """ctypes.CDLL over libraries made by hand: name -> version number; the linked one also answers to NCCL's name."""

    def __init__(self, versions: dict[str, int], linked: str | None) -> None:
        self._versions, self._linked = versions, linked

    def __call__(self, name: str, mode: int = 0) -> Any:
        name = self._linked or "" if name == which_nccl.SONAME else name
        if name not in self._versions:
            raise OSError(name)

        def tell(argument: Any) -> int:
            argument._obj.value = self._versions[name]
            return 0

        return SimpleNamespace(_handle=id(self._versions) + sorted(self._versions).index(name), ncclGetVersion=tell)


@pytest.mark.parametrize(("linked", "first"), [(PRELOADED, PRELOADED), (OTHER, OTHER), (None, PRELOADED)])
def test_the_linked_copy_comes_first(monkeypatch: pytest.MonkeyPatch, linked: Path | None, first: Path) -> None:
    """Of several in one process; where none is linked, in the order of their mapping."""
    versions = {str(PRELOADED): 23007, str(OTHER): 22809}
    monkeypatch.setattr(which_nccl, "mapped_files", lambda _: [PRELOADED, OTHER])
    monkeypatch.setattr(ctypes, "CDLL", _Loader(versions, str(linked) if linked else None))
    found = nccl_libraries()
    assert found[0].path == first
    assert {LoadedNccl(path=PRELOADED, version="2.30.7"), LoadedNccl(path=OTHER, version="2.28.9")} == set(found)


def test_a_process_without_nccl_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh one, with nothing preloaded."""
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    code = "from gtpbench.launch.which_nccl import nccl_libraries; print(nccl_libraries())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "()\n" == done.stdout


def test_settings_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NCCL_CONF_FILE, or the home folder's; names without a folder of the user's; unreadable ones do not count."""
    monkeypatch.setattr(which_nccl.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    here = {name for name in settings_files({}) if name != "/etc/nccl.conf"}
    assert set() == here
    (tmp_path / ".nccl.conf").write_text("NCCL_ALGO=Ring\n", encoding="ascii")
    named = tmp_path / "other.conf"
    named.touch()
    assert tmp_path / ".nccl.conf" == settings_files({})["~/.nccl.conf"]
    assert named == settings_files({"NCCL_CONF_FILE": str(named)})["NCCL_CONF_FILE"]
    assert "~/.nccl.conf" not in settings_files({"NCCL_CONF_FILE": str(named)})
    assert "NCCL_CONF_FILE" not in settings_files({"NCCL_CONF_FILE": str(tmp_path / "missing")})


def test_a_user_without_an_entry_has_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers with an arbitrary user number."""

    def unknown(_: int) -> Any:
        raise KeyError("no such user")

    monkeypatch.setattr(which_nccl.pwd, "getpwuid", unknown)
    assert "~/.nccl.conf" not in settings_files({})
