"""Checks of the NCCL that is loaded: its copies, torch's build, and bugs of its version."""

from gtpbench.record.environment import NCCL, NCCL_OF_TORCH, Environment, Finding
from gtpbench.versions import parse_version


def loaded_and_built_differ(environment: Environment) -> Finding | None:
    """Torch runs on another NCCL than it was compiled with."""
    loaded, built = environment.library(NCCL), environment.library(NCCL_OF_TORCH)
    if loaded is None or built is None or loaded == built:
        return None
    newer = parse_version(loaded) > parse_version(built)
    return Finding(
        code="nccl_not_torchs",
        severity="note" if newer else "warning",
        text=f"NCCL {loaded} is loaded, and torch was built against {built}",
        advice=(
            f"torch offers only what {built} had; compare with runs of the same pair"
            if newer
            else f"torch may call what {loaded} lacks: load {built} or newer"
        ),
    )


def two_copies(environment: Environment) -> Finding | None:
    """A rank process has more than one libnccl, and which one a call reaches depends on who makes it."""
    copies = [item for item in environment.libraries if item.name == NCCL or item.name.startswith(f"{NCCL} (copy")]
    if len(copies) < 2:
        return None
    told = " and ".join(f"{item.version} ({item.path or 'path unknown'})" for item in copies)
    return Finding(
        code="two_nccls",
        severity="warning",
        text=f"{len(copies)} NCCL libraries are loaded in one process: {told}",
        advice="leave one: look at LD_PRELOAD, LD_LIBRARY_PATH and the installed nvidia-nccl packages",
    )


def first_copy_engine_collective(environment: Environment) -> Finding | None:
    """NVIDIA/nccl#2241: with multicast, the first copy-engine collective of two ranks can deadlock."""
    loaded = environment.library(NCCL)
    two_ranks = any(len(places) == 2 for places in environment.ranks.values())
    multicast = environment.variables.get("NCCL_NVLS_ENABLE") != "0"
    if loaded is None or not two_ranks or not multicast:
        return None
    if not (2, 29, 7) <= parse_version(loaded) < (2, 31, 2):
        return None
    return Finding(
        code="nccl_2241",
        severity="warning",
        text=f"NCCL {loaded} can deadlock in the first copy-engine collective of two ranks (NVIDIA/nccl#2241)",
        advice="the watchdog ends it; fixed in NCCL 2.31.2, and exporting NCCL_NVLS_ENABLE=0 avoids it",
    )


def windows_on_several_hosts(environment: Environment) -> Finding | None:
    """NVIDIA/nccl#1735: symmetric windows across hosts can hang."""
    loaded = environment.library(NCCL)
    if loaded is None or environment.num_nodes < 2 or parse_version(loaded) >= (2, 29):
        return None
    return Finding(
        code="nccl_1735",
        severity="warning",
        text=f"NCCL {loaded} can hang with symmetric windows on several hosts (NVIDIA/nccl#1735)",
        advice="window arms are skipped; run them on one host, or with NCCL 2.29 or newer",
    )
