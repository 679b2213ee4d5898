"""The record: one Case x Arm x Launch, one JSON line.

Schema history:
    1   first version.

Series in `samples` are raw, indexed [rank][block][iteration], microseconds for one operation.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from gtpbench.plan import AnyCase, Arm, Case, PlanModel

RECORD_SCHEMA_VERSION: Final = 1
FORMULA_VERSION = 1
"""Counts changes of busbw, bytes and statistics formulas; records of different versions are not compared."""

Origin = Literal["measured", "shared_gpu", "cpu", "modelled", "imported"]
Status = Literal["ok", "wrong_result", "skipped", "error", "timeout"]
Clock = Literal["host", "graph", "stream", "isolated"]
ProofVerdict = Literal["proved", "by_construction", "not_eligible", "unproven", "fell_back"]
PathName = Literal[
    "ring", "tree", "pat", "nvls", "collnet", "symm_lsa", "symm_multicast", "symm_rail", "copy_engine", "p2p",
    "ep_kernel", "socket", "shared_memory", "modelled", "unknown",
]  # fmt: skip
RankBlocks = tuple[tuple[tuple[float, ...], ...], ...]
"""[rank][block][iteration]"""


class Reason(PlanModel):
    """Why a record is not `ok`."""

    code: str
    text: str


class Samples(PlanModel):
    """One named series of raw samples."""

    clock: Clock
    k: Annotated[int, Field(ge=1)]
    """Operations in each timed interval; `time_us` is already divided by it."""
    alignment: str
    """What lined the ranks up before each interval."""
    aggregation: str | None = None
    """How another tool reduced ranks or iterations before it wrote the times; None for samples of each rank."""
    time_us: RankBlocks
    """[rank][block][iteration], microseconds for one operation."""
    issue_us: RankBlocks | None = None
    """Host time spent issuing the interval, divided by k like `time_us`; None where issuing is the operation itself."""
    block_start_us: tuple[tuple[float, ...], ...]
    """[rank][block], host clock since the start of the attempt; one origin for all ranks and sets of a host.

    Empty, like `block_wall_us`, where another tool did not record it.
    """
    block_wall_us: tuple[tuple[float, ...], ...]
    """[rank][block], host time of the whole block, alignment and stamping included."""


class KernelRow(PlanModel):
    """One kernel or copy seen in the timed object."""

    name: str
    """As the driver gives it: mangled in graph nodes, demangled from CUPTI; `memcpy`, `batch_mem_op` for such nodes."""
    kind: Literal["kernel", "memcpy", "memset", "batch_mem_op", "other"] = "kernel"
    grid: int | None
    """Thread blocks (CTAs); None for what is no kernel."""
    count: int


class RankEvidence(PlanModel):
    """What one rank saw."""

    rank: int
    source: str
    """`graph_nodes`, `cupti`, `tuning_log`, `interface_bytes`, `model`."""
    clock: Clock | None = None
    """The clock whose timed object this is; None for evidence of the whole case."""
    calls: int | None = None
    """Collectives in the observed object; each must show in `kernels`."""
    lines: tuple[str, ...] = ()
    """NCCL's log lines, without host, process and thread, of another launch with the same plan."""
    error: str | None = None
    """Why this rank could not look."""
    kernels: tuple[KernelRow, ...] = ()
    counters: dict[str, int] = {}
    """Whole numbers by name, for example `sent_bytes`, `peer_mappings`."""


class ProofItem(PlanModel):
    """The path of one (role, collective, bytes)."""

    clock: Clock | None = None
    """The clock whose timed object was looked at; None where all clocks time the same object."""
    role: str
    collective: str
    size_bytes: int
    verdict: ProofVerdict
    path: PathName
    algorithm: str | None = None
    protocol: str | None = None
    ctas: int | None = None
    statement: str
    """The evidence in a sentence, or the rule that made it not eligible."""


class Proof(PlanModel):
    """Which path ran. `verdict` is the worst of the items."""

    verdict: ProofVerdict
    path: PathName
    items: tuple[ProofItem, ...]
    evidence: tuple[RankEvidence, ...]


class Verification(PlanModel):
    """The check of every timed buffer after the last block, by one rank or by all together."""

    num_slots: int
    poisoned: bool
    num_wrong: int
    num_checked: int
    max_error: float
    """Largest |result - fp64 reference|, random data."""
    rms_error: float
    tolerance: float
    counts_only: bool = False
    """Another tool counted wrong elements and said no more: errors and tolerance are not known, and 0 here."""


class Traffic(PlanModel):
    """Bytes of one iteration."""

    essential_bytes: int
    """What one rank must send whatever the algorithm."""
    wire_bytes: tuple[int, ...]
    """[rank], sent by the algorithm this backend uses."""
    received_bytes: tuple[int, ...]
    """[rank], received by it."""
    padding_bytes: int = 0
    """Of `essential_bytes`, what only padding causes."""


class Side(PlanModel):
    """One buffer role of the timed operation."""

    allocator: str
    registration: str
    window_offset_bytes: int | None
    window_bytes: int | None
    alignment_bytes: int
    num_slots: int
    slot_stride_bytes: int
    in_place: bool
    l2_resident: bool | None
    """Whether all slots of this side fit in the last-level cache; None where its size is not known."""


class ProcessState(PlanModel):
    """What was alive in one rank's process during the blocks."""

    rank: int
    process_group: str
    """Implementation, for example `gloo`, `ProcessGroupNCCL`, `nccl2`."""
    num_communicators: int
    num_windows: int
    num_pools: int
    min_ctas: int | None = None
    max_ctas: int | None = None
    cta_policy: str | None = None
    high_priority: bool = False
    ops_per_group: int = 1
    coalesced: str = "none"


class BlockState(PlanModel):
    """State of one rank's device around one block."""

    rank: int
    block: int
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int | None = None
    load_average: float | None = None


class Memory(PlanModel):
    """Memory of one rank, bytes."""

    rank: int
    buffers_bytes: int
    registered_bytes: int
    free_before_bytes: int | None
    free_after_bytes: int | None
    """With all buffers alive."""
    free_released_bytes: int | None = None
    """After all buffers are gone; only a registration case looks."""
    symmetric_va_bytes: int | None = None
    """Address space that NCCL reserved for symmetric windows, from its log; None where it did not say."""


class Costs(PlanModel):
    """One-off costs, microseconds, [rank]."""

    communicator_us: tuple[float, ...] | None = None
    registration_us: tuple[float, ...] | None = None
    """All registrations of the case; of a registration case that of the one buffer before its first block."""
    first_registration: bool | None = None
    """Whether it was the first of its kind in the processes, which sets up the device communicator too."""
    num_registrations: int | None = None
    deregistration_us: tuple[float, ...] | None = None
    jit_us: tuple[float, ...] | None = None
    capture_us: tuple[float, ...] | None = None


class EpDetail(PlanModel):
    """What only expert parallelism has; matrices are [sender][receiver]."""

    wire_matrix_bytes: tuple[tuple[int, ...], ...]
    essential_matrix_bytes: tuple[tuple[int, ...], ...]
    padded_rows: tuple[int, ...]
    true_rows: tuple[int, ...]
    capacity_rows: int | None
    alignment_rows: int
    dropped_rows: tuple[int, ...]
    routing_digest: str


class GtpDetail(PlanModel):
    """The identity step = compute_alone + stall + interference + host_gap + residual, and waits by weight."""

    step_us: float
    compute_alone_us: float
    stall_us: float
    interference_us: float
    host_gap_us: float
    residual_us: float
    waits_us: dict[str, tuple[float, ...]]
    megatron_valid: bool


class Execution(PlanModel):
    """Where in the run the record belongs."""

    run_id: str
    attempt: int
    """Starts of the worker sets within the launch: above 0 after a failure."""
    set_id: int
    seed: int
    block_order: tuple[tuple[str, ...], ...]
    """[round] -> arms in the order they ran; block b of two arms is the pair of round b."""
    case_position: int
    """Place of the case in this launch's order."""
    group_ranks: tuple[int, ...]
    concurrent_groups: int = 1
    num_iterations: int
    """Operations inside all timed blocks."""


class Record(PlanModel):
    """One Case x Arm x Launch."""

    schema_version: Literal[1] = RECORD_SCHEMA_VERSION
    formula_version: int = FORMULA_VERSION
    tool_version: str
    case_id: str
    arm: str
    """Name of the arm."""
    status: Status
    origin: Origin
    reason: Reason | None = None
    """For every status but `ok`."""
    valid_step: bool | None = None
    """False for a static EP step that dropped rows; None where the question does not arise."""
    case: AnyCase
    arm_spec: Arm
    case_digest: str
    arm_digest: str
    plan_digest: str
    launch: Annotated[int, Field(ge=0)]
    """Number of the launch in its folder."""
    environment_id: str | None
    """Line of environments.jsonl; None where nothing was started."""
    execution: Execution | None = None
    samples: dict[str, Samples] = {}
    warmup: dict[str, Samples] = {}
    proof: Proof | None = None
    verification: Verification | None = None
    traffic: Traffic | None = None
    sides: dict[str, Side] = {}
    processes: tuple[ProcessState, ...] = ()
    block_states: tuple[BlockState, ...] = ()
    memory: tuple[Memory, ...] = ()
    costs: Costs = Costs()
    stage_seconds: dict[str, float] = {}
    """Seconds of each stage on the slowest rank."""
    ep: EpDetail | None = None
    gtp: GtpDetail | None = None
    test_fault: str | None = None
    """The injected fault, in tests only; such a record is no measurement."""

    @property
    def collective_case(self) -> Case:
        """The case of a record that is about a stand-alone collective."""
        assert isinstance(self.case, Case), f"{self.case_id} is no collective"
        return self.case

    @model_validator(mode="after")
    def _status_decides(self) -> Self:
        if self.status == "ok":
            if not self.samples or self.proof is None or self.verification is None:
                raise ValueError("an ok record needs samples, proof and verification")
        else:
            if self.samples or self.warmup:
                raise ValueError(f"a record with status {self.status} carries no timings")
            if self.reason is None:
                raise ValueError(f"a record with status {self.status} needs a reason")
        return self


def record_schema() -> dict[str, Any]:
    """JSON Schema of a line of results.jsonl."""
    return Record.model_json_schema()
