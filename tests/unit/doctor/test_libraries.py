"""Which NCCL is loaded, and what is known of its version."""

import pytest

from gtpbench.doctor.libraries import (
    first_copy_engine_collective,
    loaded_and_built_differ,
    two_copies,
    windows_on_several_hosts,
)
from tests.unit.doctor.environments import healthy, library, nccl, places


@pytest.mark.parametrize(
    ("loaded", "built", "severity"),
    [
        ("2.30.7", "2.30.7", None),
        ("2.30.7", None, None),
        ("2.30.7", "2.28.9", "note"),
        ("2.28.10", "2.28.9", "note"),
        ("2.27.5", "2.28.9", "warning"),
        ("2.9.8", "2.28.9", "warning"),
    ],
)
def test_loaded_and_built(loaded: str, built: str | None, severity: str | None) -> None:
    """Newer than torch's is a note, older a warning; versions compare as numbers."""
    finding = loaded_and_built_differ(healthy(libraries=nccl(loaded, built)))
    assert severity == (finding and finding.severity)
    assert finding is None or f"NCCL {loaded} is loaded, and torch was built against {built}" == finding.text


def test_without_nccl_there_is_nothing_to_say() -> None:
    """A CPU build of torch has none of both."""
    bare = healthy(libraries=(library("torch", "2.13.0+cpu"),))
    checks = (loaded_and_built_differ, two_copies, first_copy_engine_collective, windows_on_several_hosts)
    assert [None] * 4 == [check(bare) for check in checks]


def test_two_copies_are_named_with_their_files() -> None:
    """The build of torch is no copy."""
    assert two_copies(healthy()) is None
    second = library("nccl (copy 2)", "2.28.9", "nccl/lib/libnccl.so.2")
    finding = two_copies(healthy(libraries=(*nccl("2.30.7", "2.28.9"), second)))
    assert finding is not None
    assert finding.text == (
        "2 NCCL libraries are loaded in one process: 2.30.7 (path unknown) and 2.28.9 (nccl/lib/libnccl.so.2)"
    )


@pytest.mark.parametrize(
    ("version", "num_ranks", "nvls", "found"),
    [
        ("2.29.7", 2, None, True),
        ("2.29.7", 2, "2", True),
        ("2.30.7", 2, None, True),
        ("2.29.7", 2, "0", False),
        ("2.29.7", 4, None, False),
        ("2.29.3", 2, None, False),
        ("2.31.2", 2, None, False),
        ("2.32.3", 2, None, False),
    ],
)
def test_first_copy_engine_collective(version: str, num_ranks: int, nvls: str | None, found: bool) -> None:
    """From 2.29.7 until it was fixed in 2.31.2, with two ranks, unless multicast is off (NVIDIA/nccl#2241)."""
    environment = healthy(
        libraries=nccl(version),
        ranks={"0": places(*(f"gpu{number}" for number in range(num_ranks)))},
        variables={} if nvls is None else {"NCCL_NVLS_ENABLE": nvls},
    )
    assert found == (first_copy_engine_collective(environment) is not None)


@pytest.mark.parametrize(
    ("version", "num_nodes", "found"),
    [("2.27.3", 2, True), ("2.28.9", 4, True), ("2.28.9", 1, False), ("2.29.2", 2, False)],
)
def test_windows_on_several_hosts(version: str, num_nodes: int, found: bool) -> None:
    """Before 2.29 (NVIDIA/nccl#1735)."""
    finding = windows_on_several_hosts(healthy(libraries=nccl(version), num_nodes=num_nodes))
    assert found == (finding is not None)
