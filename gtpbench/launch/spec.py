"""What a supervisor tells one rank process."""

from typing import Literal

from gtpbench.plan import PlanModel
from gtpbench.record.model import Clock
from gtpbench.scenario.schema import Scenario


class StoreSpec(PlanModel):
    """How the ranks of a run find one another."""

    kind: Literal["pipe", "host", "client"]
    """`pipe`: through the supervisor; `host`: this rank serves the store; `client`: it connects."""
    address: str = "127.0.0.1"
    port: int = 0
    """0 for a host: any free port, reported to the supervisor."""
    prefix: str = ""


class WorkerSpec(PlanModel):
    """One rank of one worker set in one attempt of one launch."""

    scenario: Scenario
    run_digest: str
    """Of the whole scenario and the tool's version; must be equal on all ranks."""
    set_id: int
    launch: int
    attempt: int
    rank: int
    num_ranks: int
    local_rank: int
    local_size: int
    node: int
    num_nodes: int
    row: int
    """Its row on the progress board."""
    board_fd: int
    board_rows: int
    cpu: int | None
    """Core to pin its main thread to; None on GPU ranks."""
    device: int | None
    """CUDA device, counted as CUDA_VISIBLE_DEVICES shows them; None on CPU ranks."""
    epoch_ns: int
    """`time.perf_counter_ns` of the supervisor at the start of the attempt: one origin for all ranks of a host."""
    store: StoreSpec
    set_ids: tuple[int, ...]
    """All sets of this attempt."""
    live: tuple[tuple[int, tuple[str, ...]], ...]
    """(case index, arms to run) in the order to run them; rank 0's counts."""
    counts: tuple[tuple[int, str, Clock, int, int], ...]
    """(case index, arm, clock, samples, k) of cases whose counts an earlier launch has fixed; rank 0's counts."""
    num_cases: int
    """Cases of the launch, among which the time budget is divided."""
    reads_paths: bool = False
    """Run every cell once with NCCL's log on, and time nothing."""
    nccl_log: str | None = None
    """Where this rank's NCCL writes its log."""
    decides: bool
    """This rank hands the supervisor's exit code to all others at the end."""
