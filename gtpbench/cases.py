"""The cases: points of a sweep, everything that is the same for all arms. Pure."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from gtpbench.collectives import COLLECTIVES, CollectiveName, ReduceOp, dtype_named
from gtpbench.errors import UsageError
from gtpbench.scenario.schema import CollectiveWorkload, Placement, RegistrationWorkload
from gtpbench.units import format_size

_MAX_GATHER_BYTES = 2**20
_GATHER_ALIGNMENT_BYTES = 16


class PlanModel(BaseModel):
    """Frozen and strict, as everything that is written to a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class Case(PlanModel):
    """One collective on one size."""

    case_id: str
    """Stable over versions of the tool: collective, operation, dtype, bytes, ranks, placement."""
    collective: CollectiveName
    op: ReduceOp | None
    """None for collectives that do not reduce."""
    dtype: str
    requested_bytes: int
    size_bytes: int
    """Total bytes, rounded down to a multiple of ranks x element size."""
    num_ranks: int
    placement: Placement
    hot: bool

    @property
    def count(self) -> int:
        """Elements in `size_bytes`."""
        return self.size_bytes // dtype_named(self.dtype).size_bytes


class RegistrationCase(PlanModel):
    """A set of buffers that every rank allocates, registers, deregisters and frees as a whole."""

    kind: Literal["registration"] = "registration"
    case_id: str
    """Number, bytes of each and ranks; of a listed set its name, total bytes and ranks."""
    name: str | None = None
    """Of a listed set; None for buffers of one size."""
    num_buffers: int
    buffer_bytes: int | tuple[int, ...]
    """Of each; of a listed set those of every buffer, in order."""
    total_bytes: int
    """Of one rank."""
    num_ranks: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of every buffer, in order."""
        return (self.buffer_bytes,) * self.num_buffers if isinstance(self.buffer_bytes, int) else self.buffer_bytes

    @property
    def label(self) -> str:
        """In few words: `64 × 64KiB`, `llama (723 buffers)`."""
        if isinstance(self.buffer_bytes, int):
            return f"{self.num_buffers} × {format_size(self.buffer_bytes)}"
        return f"{self.name} ({self.num_buffers} buffers)"

    @property
    def gathered(self) -> Case:
        """The in-place all-gather through the first bytes of the first and of the last buffer, which checks that the
        registration serves: up to 1 MiB, the same in both."""
        share = min(self.sizes[0], self.sizes[-1], _MAX_GATHER_BYTES) // self.num_ranks
        share -= share % _GATHER_ALIGNMENT_BYTES if share >= _GATHER_ALIGNMENT_BYTES else 0
        size = share * self.num_ranks
        return make_case(
            "all_gather",
            op=None,
            dtype="uint8",
            requested_bytes=size,
            size_bytes=size,
            num_ranks=self.num_ranks,
            placement="in_place",
            hot=True,
        )


def _kind(value: Any) -> str:
    """Cases of collectives say no kind."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return "registration" if kind == "registration" else "collective"


AnyCase = Annotated[
    Annotated[Case, Tag("collective")] | Annotated[RegistrationCase, Tag("registration")], Discriminator(_kind)
]
"""Of a plan or a record; all cases of one plan are of one kind."""


def make_case(
    collective: CollectiveName,
    *,
    op: ReduceOp | None,
    dtype: str,
    requested_bytes: int,
    size_bytes: int,
    num_ranks: int,
    placement: Placement,
    hot: bool,
) -> Case:
    """The case with these properties and the id that follows from them."""
    parts = [collective, op, dtype, str(size_bytes), f"n{num_ranks}", placement, "hot" if hot else None]
    return Case(
        case_id="/".join(part for part in parts if part),
        collective=collective,
        op=op,
        dtype=dtype,
        requested_bytes=requested_bytes,
        size_bytes=size_bytes,
        num_ranks=num_ranks,
        placement=placement,
        hot=hot,
    )


def collective_cases(workload: CollectiveWorkload, *, num_ranks: int, hot: bool) -> Iterator[Case]:
    """Every combination of a resolved workload's lists, once.

    Raises:
        UsageError: a size smaller than one element a rank.
    """
    assert workload.sizes != "auto", "auto is resolved before planning"
    seen: set[str] = set()
    for collective in workload.collectives:
        op = workload.op if COLLECTIVES[collective].reduces else None
        for dtype in workload.dtypes:
            for placement in workload.placements:
                for requested in workload.sizes:
                    case = make_case(
                        collective,
                        op=op,
                        dtype=dtype,
                        requested_bytes=requested,
                        size_bytes=_round_down(requested, dtype=dtype, num_ranks=num_ranks),
                        num_ranks=num_ranks,
                        placement=placement,
                        hot=hot,
                    )
                    if case.case_id in seen:
                        continue
                    seen.add(case.case_id)
                    yield case


def registration_cases(workload: RegistrationWorkload, *, num_ranks: int) -> Iterator[RegistrationCase]:
    """Numbers x sizes of a resolved workload up to its total, then the listed set.

    Raises:
        UsageError: a buffer of less than one byte a rank, or nothing within the total.
    """
    assert workload.buffer_sizes != "auto" and workload.max_total_bytes != "auto", "auto is resolved before planning"
    numbers, sizes = dict.fromkeys(workload.num_buffers), dict.fromkeys(workload.buffer_sizes)
    swept = [(number, size) for size in sizes for number in numbers if number * size <= workload.max_total_bytes]
    if sizes and not swept:
        raise UsageError(
            f"workload.max_total_bytes = {format_size(workload.max_total_bytes)} leaves no case: the smallest is "
            f"{min(numbers)} x {format_size(min(sizes))}"
        )
    for number, size in swept:
        _require_a_byte(size, num_ranks=num_ranks)
        yield RegistrationCase(
            case_id=f"registration/{number}x{size}/n{num_ranks}",
            num_buffers=number,
            buffer_bytes=size,
            total_bytes=number * size,
            num_ranks=num_ranks,
        )
    if workload.buffers:
        yield _listed(workload.buffers, name=workload.buffers_name, num_ranks=num_ranks)


def _listed(sizes: Sequence[int], *, name: str, num_ranks: int) -> RegistrationCase:
    _require_a_byte(min(sizes), num_ranks=num_ranks)
    return RegistrationCase(
        case_id=f"registration/{name}/{sum(sizes)}/n{num_ranks}",
        name=name,
        num_buffers=len(sizes),
        buffer_bytes=tuple(sizes),
        total_bytes=sum(sizes),
        num_ranks=num_ranks,
    )


def _require_a_byte(size_bytes: int, *, num_ranks: int) -> None:
    if size_bytes < num_ranks:
        raise UsageError(
            f"a buffer of {size_bytes} B is under one byte for each of {num_ranks} ranks: ask for {num_ranks} B or more"
        )


def _round_down(requested: int, *, dtype: str, num_ranks: int) -> int:
    element = dtype_named(dtype).size_bytes
    unit = num_ranks * element
    if requested < unit:
        raise UsageError(
            f"size {format_size(requested)} is under one {dtype} element for each of {num_ranks} ranks "
            f"({num_ranks} x {element} B = {unit} B): ask for {unit} B or more"
        )
    return requested // unit * unit
