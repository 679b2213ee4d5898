"""NCCL's log: which algorithm it chose (TUNING), what was registered (REG, ALLOC), its version. Pure.

Lines start with `host:pid:tid [device] NCCL INFO `. Processes that share a file tear one another's lines, so every
form is searched for anywhere in a line, and what is torn inside is not seen rather than misread.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gtpbench.measure.paths import tuned_algorithm
from gtpbench.record.model import PathName

TuningFamily = Literal["legacy", "symmetric", "copy_engine"]

_LEGACY_PATHS: Final[dict[str, PathName]] = {
    "RING": "ring",
    "TREE": "tree",
    "PAT": "pat",
    "NVLS": "nvls",
    "NVLS_TREE": "nvls",
    "COLLNET_DIRECT": "collnet",
    "COLLNET_CHAIN": "collnet",
}
_FORMS: Final = {
    "legacy": re.compile(
        r"NCCL INFO (?P<function>\w+): (?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+) "
        r"channel\{Lo\.\.Hi\}=\{(?P<lo>\d+)\.\.(?P<hi>\d+)\}(?: cgaClusterSize \d+)?"
    ),
    "symmetric": re.compile(
        r"NCCL INFO (?P<function>\w+) \[Symmetric\]: (?P<bytes>\d+) Bytes -> Kernel (?P<kernel>\w+) "
        r"nchannels (?P<channels>\d+) nthreads \d+(?: nWorks (?P<works>\d+))?"
    ),
    "copy_engine": re.compile(
        r"NCCL INFO (?P<function>\w+) \[Copy Engine\]: (?P<bytes>\d+) Bytes -> "
        r"cudaMemcpy(?:; CE synchronization with NVLS)?"
    ),
    "hierarchical": re.compile(
        r"NCCL INFO (?P<function>\w+) \[Hierarchical CE\]: (?P<bytes>\d+) Bytes -> (?:RMA proxy \+ CE|Rail)?"
    ),
    "registration": re.compile(
        r"NCCL INFO register comm (?P<communicator>0x[0-9a-f]+) buffer (?P<address>0x[0-9a-f]+) size (?P<bytes>\d+)"
    ),
    "segment": re.compile(
        r"NCCL INFO \[\d+\] Segment \d+, Type : -?\d+, numSegments : \d+, Segment size : (?P<bytes>\d+), "
        r"memHandle : -?\d+"
    ),
    "window": re.compile(r"NCCL INFO Inserted window (?P<address>0x[0-9a-f]+) into address map, ret=(?P<result>\d+)"),
    "address_space": re.compile(r"NCCL INFO Symmetric VA size=(?P<gib>\d+)GB"),
    "version": re.compile(r"NCCL version (?P<version>\d+\.\d+\.\d+)(?:\+cuda\d+\.\d+)?"),
}
"""By form, the TUNING lines first. None takes in text of open length, which could bring a torn line's host name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """One choice that NCCL logged, on rank 0 only; nothing is logged at the replay of a graph.

    Attributes:
        function: NCCL's name, `AllGather`.
        bytes_per_rank: count x element size of one collective: sent by an all-gather, received by a reduce-scatter.
        algorithm: `RING`, `NVLS`; `ST` for a symmetric kernel; None for the copy engines.
        protocol: `LL`, `LL128`, `SIMPLE`; legacy only.
        num_channels: None for the copy engines.
    """

    function: str
    family: TuningFamily
    path: PathName
    bytes_per_rank: int
    algorithm: str | None = None
    protocol: str | None = None
    num_channels: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A buffer registered with a communicator, by `ncclCommRegister`, a captured graph or as part of a window."""

    communicator: str
    address: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """What the log of one or more ranks says, in its order.

    Attributes:
        segment_bytes: memory mapped into the symmetric address space: windows, and NCCL's own buffers of a few MiB.
        windows: addresses of the windows made, from ALLOC lines.
        symmetric_va_bytes: address space that each rank's part of the windows was given; the whole is that times the
            ranks of the NVLink domain. None where the log does not say.
        version: `2.30.7`.
    """

    tuning: tuple[Tuning, ...] = ()
    registrations: tuple[Registration, ...] = ()
    segment_bytes: tuple[int, ...] = ()
    windows: tuple[str, ...] = ()
    symmetric_va_bytes: int | None = None
    version: str | None = None


def parse_log(lines: Iterable[str]) -> NcclLog:
    """What these lines say; lines of other kinds are passed over."""
    tuning: list[Tuning] = []
    registrations: list[Registration] = []
    segments: list[int] = []
    windows: list[str] = []
    va_bytes: int | None = None
    version: str | None = None
    for form, match in _messages(lines):
        if form == "registration":
            communicator, address = match["communicator"], match["address"]
            registrations.append(
                Registration(communicator=communicator, address=address, size_bytes=int(match["bytes"]))
            )
        elif form == "segment":
            segments.append(int(match["bytes"]))
        elif form == "window":
            windows.extend([match["address"]] if match["result"] == "0" else [])
        elif form == "address_space":
            va_bytes = int(match["gib"]) * 2**30
        elif form == "version":
            version = match["version"]
        else:
            tuning.append(_tuning(form, match))
    return NcclLog(
        tuning=tuple(tuning),
        registrations=tuple(registrations),
        segment_bytes=tuple(segments),
        windows=tuple(windows),
        symmetric_va_bytes=va_bytes,
        version=version,
    )


def record_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """The messages that `parse_log` reads, without `host:pid:tid [device] `, for a record.

    Everything else is left out, because lines of other kinds, and the pieces of torn ones, name hosts and addresses.
    `parse_log` reads the result as it reads the lines themselves.
    """
    return tuple(match[0] for _, match in _messages(lines))


def _messages(lines: Iterable[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """(form, match) in the order of the text; a torn line may hold several."""
    for line in lines:
        if "NCCL" in line:
            found = [(form, match) for form, pattern in _FORMS.items() for match in pattern.finditer(line)]
            yield from sorted(found, key=lambda pair: pair[1].start())


def _tuning(form: str, match: re.Match[str]) -> Tuning:
    function, num_bytes = match["function"], int(match["bytes"])
    if form == "legacy":
        return Tuning(
            function=function,
            family="legacy",
            path=_LEGACY_PATHS.get(match["algorithm"], "unknown"),
            bytes_per_rank=num_bytes,
            algorithm=match["algorithm"],
            protocol=match["protocol"],
            num_channels=int(match["hi"]) - int(match["lo"]) + 1,
        )
    if form == "symmetric":
        algorithm, path = tuned_algorithm(match["kernel"])
        return Tuning(
            function=function,
            family="symmetric",
            path=path,
            bytes_per_rank=num_bytes // max(1, int(match["works"] or 1)),
            algorithm=algorithm,
            num_channels=int(match["channels"]),
        )
    return Tuning(function=function, family="copy_engine", path="copy_engine", bytes_per_rank=num_bytes)
