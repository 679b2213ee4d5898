"""NCCL's log: a cut of a real one (two ranks, one file, lines torn) and forms from NCCL's format strings."""

from collections import Counter
from pathlib import Path

import pytest

from gtpbench.measure.nccl_log import NcclLog, Registration, Tuning, parse_log, record_lines

LOG = Path(__file__).parents[2] / "data" / "nccl-logs" / "nccl-2.30.7-2ranks-1gpu.log"
PREFIX = "node-7:645:668 [3] "
MIB = 2**20


def tuned(line: str) -> Tuning:
    """The one TUNING message of a line."""
    log = parse_log([line])
    assert 1 == len(log.tuning), line
    return log.tuning[0]


def test_a_real_log() -> None:
    """Every TUNING line, those of the cut and of torn lines included: N is the share of one of two ranks."""
    log = parse_log(LOG.read_text().splitlines())
    assert "2.30.7" == log.version
    assert 140 * 2**30 == log.symmetric_va_bytes
    seen = Counter(
        (line.function, line.bytes_per_rank, line.path, line.algorithm, line.protocol, line.num_channels)
        for line in log.tuning
    )
    assert seen == {
        ("AllReduce", 4, "ring", "RING", "LL", 1): 3,
        ("AllGather", 32768, "symm_lsa", "LL", None, 8): 3,
        ("ReduceScatter", 32768, "symm_lsa", "LL", None, 8): 3,
        ("AllGather", 32768, "ring", "RING", "LL", 8): 3,
        ("ReduceScatter", 32768, "ring", "RING", "LL", 8): 3,
        ("AllGather", 2 * MIB, "symm_lsa", "ST", None, 9): 3,
        ("ReduceScatter", 2 * MIB, "symm_lsa", "LD", None, 9): 3,
        ("AllGather", 2 * MIB, "ring", "RING", "SIMPLE", 64): 4,
        ("ReduceScatter", 2 * MIB, "ring", "RING", "SIMPLE", 64): 3,
    }


def test_registrations_of_a_real_log() -> None:
    """Two windows and a plain buffer on either rank, one more in a torn line; NCCL's own 4 MiB segment comes first."""
    log = parse_log(LOG.read_text().splitlines())
    assert (
        Registration(communicator="0x247f3ce0", address="0x7f2b7e000000", size_bytes=64 * MIB) == log.registrations[0]
    )
    assert [
        "0x7f2b7e000000",
        "0x7fe8fe000000",
        "0x7f2b82000000",
        "0x7fe902000000",
        "0x7f2b8a000000",
        "0x7fe90a000000",
        "0x7fe916000000",
    ] == [registration.address for registration in log.registrations]
    assert (*[4 * MIB] * 2, *[64 * MIB] * 4) == log.segment_bytes


def test_lines_for_a_record_name_no_host() -> None:
    """Nor addresses of the network; and they read as the lines themselves."""
    lines = LOG.read_text().splitlines()
    kept = record_lines(lines)
    assert 2 + 2 + 28 + 7 + 6 == len(kept)
    assert all(line.startswith("NCCL ") for line in kept)
    assert not [line for line in kept if "vm" in line or "192.0.2" in line or "645" in line.split()]
    assert parse_log(lines) == parse_log(kept)
    assert kept == record_lines(kept)


def test_pieces_of_torn_lines_are_dropped() -> None:
    """Torn before, inside and after a message, and inside another line's prefix."""
    message = "NCCL INFO AllGather: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
    torn = "node-7:645:645 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0"
    assert (message,) == record_lines([f"{torn}{PREFIX}{message}", ">", "node-7:6", "45:645 [0] NCCL INFO x"])
    assert (message,) == record_lines([f"{PREFIX}{message}node-8:646:646 [0] NCCL WARN y"])
    assert (message, message) == record_lines([f"{PREFIX}{message}{PREFIX}{message}"])
    assert () == record_lines([f"{PREFIX}{message[:30]}{PREFIX}NCCL INFO z", message[30:]])
    assert () == record_lines([f"{PREFIX}{message[:-1]}node-8:646:646 [0] NCCL INFO z"])
    hierarchical = "NCCL INFO AllGather [Hierarchical CE]: 64 Bytes -> RMA proxy + CE"
    assert (hierarchical,) == record_lines([f"{PREFIX}{hierarchical}node-8:646"])
    assert ("NCCL INFO Symmetric VA size=140GB",) == record_lines(
        [f"{PREFIX}NCCL INFO Symmetric VA size=140GBnode-8:6"]
    )


@pytest.mark.parametrize(
    ("algorithm", "path"),
    [
        ("RING", "ring"),
        ("TREE", "tree"),
        ("PAT", "pat"),
        ("NVLS", "nvls"),
        ("NVLS_TREE", "nvls"),
        ("COLLNET_DIRECT", "collnet"),
        ("COLLNET_CHAIN", "collnet"),
        ("Unknown", "unknown"),
    ],
)
@pytest.mark.parametrize("tail", ["", " cgaClusterSize 2"])
def test_legacy_tuning(algorithm: str, path: str, tail: str) -> None:
    """The algorithm's path; channels 2 to 15 are 14."""
    line = tuned(
        f"{PREFIX}NCCL INFO ReduceScatter: 4096 Bytes -> Algo {algorithm} proto LL128 channel{{Lo..Hi}}={{2..15}}{tail}"
    )
    assert ("ReduceScatter", "legacy", path, 4096) == (line.function, line.family, line.path, line.bytes_per_rank)
    assert (algorithm, "LL128", 14) == (line.algorithm, line.protocol, line.num_channels)


@pytest.mark.parametrize(
    ("kernel", "algorithm", "path"),
    [
        ("AllGather_ST", "ST", "symm_lsa"),
        ("AllGather_STMC", "STMC", "symm_multicast"),
        ("AllGather_LLMC", "LLMC", "symm_multicast"),
        ("ReduceScatter_LDMC", "LDMC", "symm_multicast"),
        ("ReduceScatter_RailA2A_LsaLD", "RailA2A_LsaLD", "symm_rail"),
        ("AllGather_NEW", "AllGather_NEW", "unknown"),
    ],
)
def test_symmetric_tuning(kernel: str, algorithm: str, path: str) -> None:
    """With and without the number of works (2.27 does not print it)."""
    function = kernel.partition("_")[0]
    text = f"{PREFIX}NCCL INFO {function} [Symmetric]: 65536 Bytes -> Kernel {kernel} nchannels 9 nthreads 512"
    for line in (tuned(text), tuned(f"{text} nWorks 1")):
        assert ("symmetric", path, algorithm, None, 9) == (
            line.family,
            line.path,
            line.algorithm,
            line.protocol,
            line.num_channels,
        )
        assert 65536 == line.bytes_per_rank


def test_grouped_symmetric_operations_are_summed_in_one_line() -> None:
    """One of four has a quarter of the bytes."""
    line = tuned("NCCL INFO AllGather [Symmetric]: 4096 Bytes -> Kernel AllGather_ST nchannels 9 nthreads 512 nWorks 4")
    assert 1024 == line.bytes_per_rank


@pytest.mark.parametrize(
    "text",
    [
        "[Copy Engine]: 1024 Bytes -> cudaMemcpy",
        "[Copy Engine]: 1024 Bytes -> cudaMemcpy; CE synchronization with NVLS",
        "[Hierarchical CE]: 1024 Bytes -> RMA proxy + CE",
        "[Hierarchical CE]: 1024 Bytes -> Rail ring",
    ],
)
def test_copy_engine_tuning(text: str) -> None:
    """Inside a node and across nodes."""
    expected = Tuning(function="AllGather", family="copy_engine", path="copy_engine", bytes_per_rank=1024)
    assert expected == tuned(f"{PREFIX}NCCL INFO AllGather {text}")


def test_windows_in_alloc_lines() -> None:
    """Only those that were made."""
    text = PREFIX + "NCCL INFO Inserted window 0x7f001{} into address map, ret={}"
    assert ("0x7f0010",) == parse_log([text.format(0, 0), text.format(1, 3)]).windows


@pytest.mark.parametrize("line", ["NCCL version 2.28.9+cuda13.0", f"{PREFIX}NCCL INFO NCCL version 2.28.9+cuda12.8"])
def test_the_banner(line: str) -> None:
    """With NCCL_DEBUG=VERSION and as a line of the log."""
    assert "2.28.9" == parse_log([line]).version


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ag 65536 plain 10.0 ['ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage']",
        f"{PREFIX}NCCL INFO NCCL git version HEAD a5187fa2e",
        f"{PREFIX}NCCL INFO Symmetric memory is not supported. cuMemEnable 0, globalGinSupport 0",
        f"{PREFIX}NCCL INFO rank 0 failed to IPC register userbuff 0x7f2b8a000000 buffSize 4194304 nPeers 1",
        f"{PREFIX}NCCL INFO     AllGather |     0.0/   0.0 |     0.0/   0.0 |",
        "AllGather: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    """A message without NCCL's mark included: what is before it may be torn."""
    assert NcclLog() == parse_log([line])
