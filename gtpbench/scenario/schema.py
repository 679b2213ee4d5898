"""The scenario: what the user asks for. TOML files and flags build the same object.

Values are frozen and strict; a key that is not here is an error. `auto` values are resolved by
`gtpbench.scenario.resolve` before planning, so that a saved scenario replays the same plan.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from gtpbench.arms import arm_named
from gtpbench.collectives import CollectiveName, ReduceOp, dtype_named
from gtpbench.errors import UsageError
from gtpbench.units import parse_size

SCENARIO_SCHEMA_VERSION: Final = 1

BackendChoice = Literal["auto", "cpu", "gloo", "cpu_window", "nccl_torch", "nccl_direct", "standin"]
Placement = Literal["out_of_place", "in_place"]
ClockChoice = Literal["auto", "host", "graph", "stream", "both"]
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def _canonical_dtype(value: str) -> str:
    return dtype_named(value).name


def _known_arm(value: str) -> str:
    return arm_named(value).name


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _known_kind(value: Any) -> Any:
    if value not in _KINDS:
        raise ValueError(f"one of {', '.join(_KINDS)}")
    return value


def _kind_tag(workload: Any) -> str:
    """A workload that says no kind is a collective one."""
    kind = workload.get("kind") if isinstance(workload, dict) else getattr(workload, "kind", None)
    return f"kind:{kind if kind == 'registration' else 'collective'}"


def _as_value_errors(check: Any) -> Any:
    def wrapped(value: Any) -> Any:
        try:
            return check(value)
        except UsageError as error:
            raise ValueError(str(error)) from error

    return wrapped


SizeBytes = Annotated[int, BeforeValidator(_as_value_errors(_size), json_schema_input_type=int | str), Field(gt=0)]
DTypeName = Annotated[str, AfterValidator(_as_value_errors(_canonical_dtype))]
ArmName = Annotated[str, AfterValidator(_as_value_errors(_known_arm))]


_KINDS: Final = ("collective", "registration")
"""Of workloads."""


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class CollectiveWorkload(_Model):
    """A sweep of stand-alone collectives: every combination of the lists below is a case."""

    kind: Annotated[Literal["collective"], BeforeValidator(_known_kind)] = "collective"
    collectives: Annotated[tuple[CollectiveName, ...], BeforeValidator(_to_tuple), Field(min_length=1)]
    """`all_gather`, `reduce_scatter`."""
    sizes: Annotated[tuple[SizeBytes, ...], BeforeValidator(_to_tuple), Field(min_length=1)] | Literal["auto"] = "auto"
    """Total bytes as nccl-tests counts them; auto: 64KiB to 256MiB by 4, on CPU to 16MiB."""
    dtypes: Annotated[tuple[DTypeName, ...], BeforeValidator(_to_tuple), Field(min_length=1)] = ("bf16",)
    """Element types."""
    placements: Annotated[tuple[Placement, ...], BeforeValidator(_to_tuple), Field(min_length=1)] = ("out_of_place",)
    """Out of place, in place, or both as separate cases."""
    op: ReduceOp = "sum"
    """Reduction of reduce-scatter. Megatron pre-scales and sums, so `sum` is what it runs."""


class RegistrationWorkload(_Model):
    """What it costs to register buffers: a sweep over their number and size, or one listed set, or both.

    Each timed block allocates a whole set, registers it, deregisters and frees it; of `measure`, `launches`, `blocks`
    and `seed` count.
    """

    kind: Literal["registration"]
    buffer_sizes: Annotated[tuple[SizeBytes, ...], BeforeValidator(_to_tuple)] | Literal["auto"] = "auto"
    """Bytes of each buffer; auto: 64KiB to 64MiB by 4. Empty where only the listed set is wanted."""
    num_buffers: Annotated[
        tuple[Annotated[int, Field(ge=1, le=100_000)], ...], BeforeValidator(_to_tuple), Field(min_length=1)
    ] = (1, 4, 16, 64)
    """Buffers in a set, each number with each size."""
    max_total_bytes: SizeBytes | Literal["auto"] = "auto"
    """Of a set on one rank: larger combinations are left out of the sweep. auto: 16GiB, on CPU 512MiB."""
    buffers: Annotated[tuple[SizeBytes, ...], BeforeValidator(_to_tuple), Field(min_length=1)] | None = None
    """Bytes of every buffer of one further set, such as those of a whole model, in order of allocation."""
    buffers_name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=80)] = "listed"
    """What that set is called."""

    @model_validator(mode="after")
    def _has_a_set(self) -> Self:
        if not self.buffer_sizes and not self.buffers:
            raise ValueError("nothing to register: give buffer_sizes or buffers")
        return self


Workload = Annotated[
    Annotated[CollectiveWorkload, Tag("kind:collective")] | Annotated[RegistrationWorkload, Tag("kind:registration")],
    Discriminator(_kind_tag),
]


class Measure(_Model):
    """How it is measured."""

    clock: ClockChoice = "auto"
    """`graph` and `stream` on GPUs (auto: both, side by side); `host` on CPU ranks."""
    hot: bool = False
    """Use one buffer again and again instead of rotating over more than the caches hold."""
    launches: Annotated[int, Field(ge=1, le=1000)] = 1
    """Starts of all worker sets; the unit of replication."""
    blocks: Annotated[int, Field(ge=2, le=1000)] = 10
    """Timed blocks of every case and arm in a launch, in alternation with the other arms."""
    iters: Annotated[int, Field(ge=1)] | None = None
    """Timed iterations of every case and arm in a launch, rounded up to whole blocks; else the time budget decides."""
    warmup: Annotated[int, Field(ge=1)] = 3
    """Iterations of the warm-up block after each switch of arms."""
    time_budget_s: Annotated[float, Field(gt=0)] = 10.0
    """Seconds of timed blocks per launch, used up unless `iters` is given."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of block order, case order and data."""

    @property
    def num_blocks(self) -> int:
        """Timed blocks: `blocks`, or fewer where `iters` does not fill them, at least two."""
        return self.blocks if self.iters is None else max(2, min(self.blocks, self.iters))


class Timeouts(_Model):
    """Seconds each stage may take before the watchdog ends the set."""

    start_s: Annotated[float, Field(gt=0)] = 120.0
    rendezvous_s: Annotated[float, Field(gt=0)] = 60.0
    communicator_s: Annotated[float, Field(gt=0)] = 60.0
    registration_s: Annotated[float, Field(gt=0)] = 60.0
    first_collective_s: Annotated[float, Field(gt=0)] = 60.0
    copy_engine_s: Annotated[float, Field(gt=0)] = 60.0
    """For the first collective of an arm with CTA policy ZERO."""
    capture_s: Annotated[float, Field(gt=0)] = 60.0
    """To capture graphs and find their length."""
    warmup_s: Annotated[float, Field(gt=0)] = 60.0
    blocks_s: Annotated[float, Field(gt=0)] = 60.0
    """For one block; the calibrated length of a block is added to it."""
    proof_s: Annotated[float, Field(gt=0)] = 60.0
    verify_s: Annotated[float, Field(gt=0)] = 120.0
    teardown_s: Annotated[float, Field(gt=0)] = 60.0


class Scenario(_Model):
    """What is run, on what ranks, compared how."""

    schema_version: Literal[1] = SCENARIO_SCHEMA_VERSION
    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=80)]
    """Names the output directory and the report."""
    workload: Workload
    arms: Annotated[tuple[ArmName, ...], BeforeValidator(_to_tuple), Field(min_length=1)]
    """What is compared; the first is the baseline."""
    backend: BackendChoice = "auto"
    """auto: `nccl_torch` where a GPU is visible, else `cpu` (each arm's own: gloo or cpu_window)."""
    num_ranks: Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] = "auto"
    """auto: `ranks_per_gpu` for every visible GPU, else 2 CPU ranks; under a launcher its world size."""
    ranks_per_gpu: Annotated[int, Field(ge=1, le=64)] = 1
    """Ranks that share each GPU: above 1 paths and correctness only, with NCCL 2.30 or newer and MPS."""
    measure: Measure = Measure()
    timeouts: Timeouts = Timeouts()
    functional: bool = False
    """Paths and correctness only: fewest iterations, no ratios."""
    allow_skip: bool = False
    """Skipped arms do not change the exit code."""

    @model_validator(mode="after")
    def _arms_differ(self) -> Self:
        if len(set(self.arms)) != len(self.arms):
            raise ValueError(f"arms: {', '.join(self.arms)} names an arm twice")
        return self
