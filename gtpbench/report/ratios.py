"""Which rows have a ratio to the baseline, why the others do not, and the comparisons themselves."""

from collections.abc import Mapping, Sequence

from gtpbench.record.model import Clock, Reason, Record
from gtpbench.stats.compare import Comparison, compare
from gtpbench.stats.pairs import PairedLaunch, pair_records

_MIB = 2**20
SMALL_MARGIN, LARGE_MARGIN = 0.05, 0.03
"""Changes that count as none, below 1 MiB (latency) and from 1 MiB on (bandwidth)."""
ABSOLUTE_FLOOR_US = 0.5
"""A change that never counts: the resolution of device events."""

NO_RATIO_TEXT = {
    "baseline": "the baseline itself",
    "skipped": "not run",
    "failed": "a launch failed, timed out or gave wrong data",
    "shared_gpu": "ranks share a GPU: their times say nothing about separate GPUs",
    "functional": "functional run: paths and correctness only",
    "test_fault": "a fault was injected: no measurement",
    "other_family": "measured under other conditions than the baseline",
    "invalid_step": "the step dropped rows: its time is not comparable",
    "not_eligible": "NCCL's rules keep this operation off the path the arm is about",
    "fell_back": "another path than the arm's ran: a ratio would credit the arm with it",
    "no_baseline": "the baseline has no valid time here",
    "formula_version": "recorded with another version of the formulas",
    "unpaired": "no launch has blocks of both arms side by side",
}


def why_no_ratio(
    candidate: Sequence[Record], baseline: Sequence[Record], *, is_baseline: bool, functional: bool
) -> Reason | None:
    """Why a cell cannot be compared with its baseline cell; None where it can. The first rule that applies.

    Args:
        candidate: the cell's records, one a launch; not empty.
        baseline: the same case's records of the baseline arm and of the same origin; may be empty.
        is_baseline: whether the two are the same cell.
        functional: whether the run asked for no ratios.
    """
    code = _own_reason(candidate, is_baseline=is_baseline, functional=functional)
    if code is None:
        code = _pair_reason(candidate, baseline)
    return None if code is None else Reason(code=code, text=NO_RATIO_TEXT[code])


def _own_reason(records: Sequence[Record], *, is_baseline: bool, functional: bool) -> str | None:
    verdicts = {record.proof.verdict for record in records if record.proof}
    rules = (
        ("skipped", all(record.status == "skipped" for record in records)),
        ("failed", any(record.status != "ok" for record in records)),
        ("shared_gpu", any(record.origin == "shared_gpu" for record in records)),
        ("functional", functional),
        ("test_fault", any(record.test_fault for record in records)),
        ("baseline", is_baseline),
        ("invalid_step", any(record.valid_step is False for record in records)),
        ("fell_back", "fell_back" in verdicts),
        ("not_eligible", "not_eligible" in verdicts),
    )
    return next((code for code, applies in rules if applies), None)


def _pair_reason(candidate: Sequence[Record], baseline: Sequence[Record]) -> str | None:
    if baseline and baseline[0].arm_spec.family != candidate[0].arm_spec.family:
        return "other_family"
    if not baseline or _own_reason(baseline, is_baseline=False, functional=False) not in {None, "not_eligible"}:
        return "no_baseline"
    if len({record.formula_version for record in (*candidate, *baseline)}) > 1:
        return "formula_version"
    return None


def series_by_clock(record: Record) -> dict[Clock, str]:
    """The name of the series that says how long the operation took, on each clock: `step` or `step.<clock>`."""
    steps = {name: samples for name, samples in record.samples.items() if name.split(".")[0] == "step"}
    return {samples.clock: name for name, samples in reversed(list((steps or record.samples).items()))}


def compare_on(clock: Clock, candidate: Sequence[Record], baseline: Sequence[Record]) -> Comparison | Reason:
    """The comparison of two cells on one clock, or why there is none. Launches without a pair are left out."""
    pairs, why = _pairs(clock, candidate, {record.launch: record for record in baseline})
    if not pairs:
        return Reason(code="unpaired", text=why or NO_RATIO_TEXT["unpaired"])
    size_bytes = candidate[0].collective_case.size_bytes
    try:
        return compare(
            pairs,
            margin=SMALL_MARGIN if size_bytes < _MIB else LARGE_MARGIN,
            absolute_floor_us=ABSOLUTE_FLOOR_US,
        )
    except ValueError as error:
        return Reason(code="unpaired", text=str(error))


def _pairs(
    clock: Clock, candidate: Sequence[Record], baseline: Mapping[int, Record]
) -> tuple[list[PairedLaunch], str | None]:
    pairs: list[PairedLaunch] = []
    why: str | None = None
    for record in candidate:
        other = baseline.get(record.launch)
        if other is None:
            continue
        series, theirs = series_by_clock(record).get(clock), series_by_clock(other).get(clock)
        if series is None or series != theirs:
            why = f"the baseline was not timed on the {clock} clock"
            continue
        try:
            pairs.append(pair_records(other, record, series=series))
        except ValueError as error:
            why = str(error)
    return pairs, why
