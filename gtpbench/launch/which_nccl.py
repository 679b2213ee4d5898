"""Which NCCL: the library that rank processes will load, what one has loaded, and the settings files NCCL reads.

Nothing here needs a GPU; NCCL tells its version without one. The supervisor asks only for files, never for a version,
since that loads the library.
"""

import ctypes
import os
import pwd
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SONAME = "libnccl.so.2"
_FILE = re.compile(r"libnccl\.so(\.\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedNccl:
    """A libnccl that is mapped into this process."""

    path: Path
    version: str


def library_to_load(environ: Mapping[str, str]) -> str:
    """What a rank process loads as NCCL: a preloaded file, else the wheel's beside torch, else what the loader finds.

    torch's wheels name the folder of NCCL's wheel in their run path, which comes before LD_LIBRARY_PATH.
    """
    for item in re.split(r"[: ]+", environ.get("LD_PRELOAD", "")):
        if _FILE.fullmatch(Path(item).name):
            return item
    for folder in sys.path:
        file = Path(folder) / "nvidia" / "nccl" / "lib" / SONAME
        if file.is_file():
            return str(file)
    return SONAME


def version_of(library: str) -> str | None:
    """Version of the NCCL in this file, which stays loaded; None where it cannot be loaded or is none."""
    number = ctypes.c_int()
    try:
        ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return None
    return version_text(number.value)


def version_text(number: int) -> str:
    """As in nccl.h: 23007 is 2.30.7; up to 2.8 the minor version had one digit, 2708 is 2.7.8."""
    major, minor = (10000, 100) if number >= 10000 else (1000, 100)
    return f"{number // major}.{number % major // minor}.{number % minor}"


def mapped_files(maps: str) -> list[Path]:
    """The files called libnccl in the text of /proc/PID/maps, each once."""
    paths = [Path(line[line.index("/") :]) for line in maps.splitlines() if "/" in line]
    return list(dict.fromkeys(path for path in paths if _FILE.fullmatch(path.name)))


def nccl_libraries() -> tuple[LoadedNccl, ...]:
    """Every NCCL in this process, first the one that other libraries are linked to; empty where there is none."""
    files = mapped_files(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))
    files.sort(key=lambda path: not _is_linked(path))
    found = [(path, version_of(str(path))) for path in files]
    return tuple(LoadedNccl(path=path, version=version) for path, version in found if version is not None)


def _is_linked(path: Path) -> bool:
    """Whether this file is what the loader gives for NCCL's name."""
    already = os.RTLD_NOLOAD | os.RTLD_LAZY
    try:
        return ctypes.CDLL(SONAME, mode=already)._handle == ctypes.CDLL(str(path), mode=already)._handle
    except OSError:
        return False


def settings_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """The settings files that NCCL can read, by a name without anybody's folder, in NCCL's order."""
    named = environ.get("NCCL_CONF_FILE")
    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container's user without an entry
        home = Path("/nonexistent")
    first = ("NCCL_CONF_FILE", Path(named)) if named else ("~/.nccl.conf", home / ".nccl.conf")
    files = dict([first, ("/etc/nccl.conf", Path("/etc/nccl.conf"))])
    return {name: path for name, path in files.items() if path.is_file() and os.access(path, os.R_OK)}
