"""The view model: everything that any renderer shows, as values. Computed once by `view.build_view`."""

from collections.abc import Iterable
from dataclasses import dataclass

from gtpbench.collectives import COLLECTIVES
from gtpbench.plan import Arm, Case
from gtpbench.record.model import Clock, Origin, ProofVerdict, Reason, Status
from gtpbench.report.details import ArmCosts, CellCosts, Errors, PathProof
from gtpbench.report.registration import RegistrationGroup, RegistrationRow
from gtpbench.stats.compare import Comparison
from gtpbench.stats.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One clock's time of one row.

    Attributes:
        summary: over the launches that were ok, microseconds for one operation.
        algbw_gb_per_s: at the median; None where rates are withheld (ranks that share a GPU).
        busbw_gb_per_s: at the median, as `busbw_low_gb_per_s` at p90 and `busbw_high_gb_per_s` at p10 of the time.
        issue_share: share of the time the host spent issuing, None where issuing is the operation itself.
        k: operations in a timed interval; several where merged runs chose their own.
        aggregation: how another tool reduced ranks or iterations; None for the slowest rank of each iteration.
        comparison: with the baseline on the same clock, None where the row has no ratio.
    """

    clock: Clock
    k: tuple[int, ...]
    alignment: str
    aggregation: str | None
    summary: Summary
    algbw_gb_per_s: float | None
    busbw_gb_per_s: float | None
    busbw_low_gb_per_s: float | None
    busbw_high_gb_per_s: float | None
    issue_share: float | None
    comparison: Comparison | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something to know about one row: a stable code and what was seen, and the clock that it is about if just one."""

    code: str
    text: str
    clock: Clock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case x arm of one origin, its launches merged.

    Attributes:
        status: the worst of its launches; timings come from the ok ones alone.
        timings: one a clock, the headline first; empty where no launch was ok.
        no_ratio: why there is no ratio to the baseline; None where there is one.
        proof: the worst of all launches and clocks.
        statement: of the worst one.
        path: of the headline clock, as `algorithm`, `protocol` and `ctas`; `proofs` has every clock's.
        num_wrong: wrong elements over all launches, None where nothing was checked, as `errors`.
    """

    case: Case
    arm: Arm
    origin: Origin
    status: Status
    reason: Reason | None
    num_launches: int
    num_ok_launches: int
    timings: tuple[Timing, ...]
    proof: ProofVerdict | None
    statement: str | None
    path: str | None
    algorithm: str | None
    protocol: str | None
    ctas: int | None
    proofs: tuple[PathProof, ...]
    num_wrong: int | None
    errors: Errors | None
    costs: CellCosts
    no_ratio: Reason | None
    notes: tuple[Note, ...]

    @property
    def headline(self) -> Timing | None:
        """The timing that rates and the ratio are taken from."""
        return self.timings[0] if self.timings else None

    @property
    def comparison(self) -> Comparison | None:
        """The headline clock's comparison with the baseline."""
        return self.timings[0].comparison if self.timings else None

    def timing(self, clock: Clock) -> Timing | None:
        """The timing on this clock."""
        return next((timing for timing in self.timings if timing.clock == clock), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one table: equal in everything but size and arm. Rows are ordered by size, then as the arms."""

    collective: str
    op: str | None
    dtype: str
    placement: str
    hot: bool
    num_ranks: int
    origin: Origin
    clocks: tuple[Clock, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """For example `reduce-scatter sum · bf16 · out of place · 8 ranks`."""
        operation = COLLECTIVES[self.collective].title + (f" {self.op}" if self.op else "")
        parts = [
            operation,
            self.dtype,
            self.placement.replace("_", " "),
            f"{self.num_ranks} rank{'s' if self.num_ranks != 1 else ''}",
        ]
        return " · ".join([*parts, "hot buffers"] if self.hot else parts)

    @property
    def shows_ratios(self) -> bool:
        """Whether a ratio column says more than the trust box, which names what rules out ratios everywhere."""
        if self.origin == "shared_gpu":
            return False
        everywhere = {"baseline", "skipped", "functional"}
        return any(row.timings and (row.no_ratio is None or row.no_ratio.code not in everywhere) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footnote:
    """A note as it is printed under the tables: rows that have a note of this code carry `mark`."""

    mark: int
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as every renderer shows it.

    Attributes:
        name: the scenario's name, or the id of the run where no scenario is known.
        command: shell text that was typed; empty where no environment is known.
        arms: the baseline first.
        num_launches: launches that left at least one ok record, `num_all_launches` those that left any.
        num_blocks: timed blocks of a cell in one launch, smallest and largest over the rows.
        functional: paths and correctness only (`--functional`): no ratios.
        proofs: (verdict, rows) from best to worst, of the rows that ran.
        costs: one an origin and arm, of those that left any.
        registrations: what registering costs; empty in runs of collectives, as `groups` is in runs of registrations.
        environment: (field, value) pairs, from the allow-list of `machine.environment_rows`.
    """

    name: str
    command: str
    origins: tuple[Origin, ...]
    arms: tuple[str, ...]
    num_ranks: tuple[int, ...]
    num_launches: int
    num_all_launches: int
    num_blocks: tuple[int, int]
    functional: bool
    proofs: tuple[tuple[ProofVerdict, int], ...]
    groups: tuple[Group, ...]
    footnotes: tuple[Footnote, ...]
    costs: tuple[ArmCosts, ...]
    environment: tuple[tuple[str, str], ...]
    tool_versions: tuple[str, ...]
    commits: tuple[str, ...]
    plan_digests: tuple[str, ...]
    registrations: tuple[RegistrationGroup, ...] = ()

    @property
    def baseline(self) -> str:
        """The arm that the others are compared with."""
        return self.arms[0]

    @property
    def only_functional(self) -> bool:
        """Whether the run shows paths and correctness alone, by request or because ranks shared a GPU."""
        return self.functional or set(self.origins) == {"shared_gpu"}

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows of collectives, group by group."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def registration_rows(self) -> tuple[RegistrationRow, ...]:
        """All rows of registration costs, group by group."""
        return tuple(row for group in self.registrations for row in group.rows)

    @property
    def verdicts(self) -> tuple[ProofVerdict, ...]:
        """The proof of every row that ran."""
        proofs = [row.proof for row in self.rows] + [row.proof for row in self.registration_rows]
        return tuple(proof for proof in proofs if proof is not None)

    def marks(self, row: Row) -> tuple[int, ...]:
        """All footnote marks of a row, ascending."""
        return self._marks(row.notes)

    def row_marks(self, row: Row) -> tuple[int, ...]:
        """The marks of what is about the whole row; they stand at its arm."""
        return self._marks(note for note in row.notes if note.clock is None)

    def clock_marks(self, row: Row, clock: Clock) -> tuple[int, ...]:
        """The marks of what is about one clock; they stand at its time."""
        return self._marks(note for note in row.notes if note.clock == clock)

    def _marks(self, notes: Iterable[Note]) -> tuple[int, ...]:
        codes = {note.code for note in notes}
        return tuple(footnote.mark for footnote in self.footnotes if footnote.code in codes)
