"""Builds the view model of a run from its records: everything a renderer shows is computed here, once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gtpbench.cases import RegistrationCase
from gtpbench.record import Environment, Origin, Record
from gtpbench.report.costs import arm_costs
from gtpbench.report.machine import command_text, environment_rows
from gtpbench.report.model import Footnote, Group, Note, Row, RunView, Timing
from gtpbench.report.notes import footnotes
from gtpbench.report.orders import PROOF_ORDER, clock_order
from gtpbench.report.registration import registration_groups
from gtpbench.report.rows import build_row
from gtpbench.scenario.schema import Scenario
from gtpbench.stats.compare import Comparison
from gtpbench.stats.family import decide_family

__all__ = ["Footnote", "Group", "Note", "Row", "RunView", "Timing", "build_view"]

_Cells = dict[tuple[Origin, str, str], list[Record]]
"""(origin, case_id, arm) -> records by launch."""
_GroupKey = tuple[str, str, str, str, bool, int, Origin]
"""Collective, operation or "", dtype, placement, hot, ranks, origin."""


def build_view(
    records: Sequence[Record], environments: Mapping[str, Environment], *, scenario: Scenario | None = None
) -> RunView:
    """The view of a run.

    Args:
        records: of one run folder, one or more.
        environments: by id, as `read_environments` gives them.
        scenario: the resolved scenario, for the name, the order of the arms and `functional`; without it they are
            read off the records (see `_arms`) and off the command.
    """
    assert records, "a view needs records"
    used = list(environments.values())
    command = command_text(used)
    arms = _arms(records, scenario)
    functional = scenario.functional if scenario else "--functional" in command.split()
    registrations = [record for record in records if isinstance(record.case, RegistrationCase)]
    collectives = [record for record in records if not isinstance(record.case, RegistrationCase)]
    groups = _corrected(tuple(_groups(_cells(collectives), arms, functional=functional)))
    rows = [row for group in groups for row in group.rows]
    tables = registration_groups(registrations, arms=arms)
    proofs = Counter([row.proof for row in rows] + [row.proof for table in tables for row in table.rows])
    ok = [record for record in records if record.status == "ok"]
    blocks = [len(samples.time_us[0]) for record in ok for samples in record.samples.values()]
    run_ids = dict.fromkeys(record.execution.run_id for record in records if record.execution)
    return RunView(
        name=scenario.name if scenario else next(iter(run_ids), _unnamed(records)),
        command=command,
        origins=tuple(sorted({record.origin for record in records})),
        arms=arms,
        num_ranks=tuple(sorted({record.case.num_ranks for record in records})),
        num_launches=len({record.launch for record in ok}),
        num_all_launches=len({record.launch for record in records}),
        num_blocks=(min(blocks, default=0), max(blocks, default=0)),
        functional=functional,
        proofs=tuple((v, n) for v in PROOF_ORDER if (n := proofs[v])),
        groups=groups,
        footnotes=footnotes(rows),
        costs=arm_costs(records, arms=arms),
        environment=environment_rows(used),
        tool_versions=tuple(sorted({record.tool_version for record in records})),
        commits=tuple(dict.fromkeys(environment.commit for environment in used if environment.commit)),
        plan_digests=tuple(sorted({record.plan_digest for record in records})),
        registrations=tables,
    )


def _unnamed(records: Sequence[Record]) -> str:
    return "imported" if all(record.origin == "imported" for record in records) else "run"


def _arms(records: Sequence[Record], scenario: Scenario | None) -> tuple[str, ...]:
    """The arms, the baseline first.

    The baseline is the first arm; nccl-tests' arms are never that of others, so the first of the main family goes
    before them. Without a scenario the first is an arm of worker set 0, which planning makes of the first arm; where
    that set never ran it is the first arm that did not. The others follow as they appear.
    """
    families = {record.arm: record.arm_spec.family for record in records}
    seen = list(families)
    if scenario:
        named = [arm for arm in scenario.arms if arm in seen]
    else:
        sets = {record.arm: record.execution.set_id for record in records if record.execution}
        first = [arm for arm in seen if sets.get(arm) == 0] + [arm for arm in seen if arm not in sets]
        named = first[:1]
    ordered = [*named, *(arm for arm in seen if arm not in named)]
    baseline = next((arm for arm in ordered if families[arm] == "main"), ordered[0])
    return (baseline, *(arm for arm in ordered if arm != baseline))


def _cells(records: Sequence[Record]) -> _Cells:
    cells: _Cells = {}
    for record in sorted(records, key=lambda record: record.launch):
        cells.setdefault((record.origin, record.case_id, record.arm), []).append(record)
    return cells


def _groups(cells: _Cells, arms: Sequence[str], *, functional: bool) -> Iterator[Group]:
    """Groups by what their rows share, rows by size and then as the arms."""
    by_key: dict[_GroupKey, list[Row]] = {}
    for (origin, case_id, _), records in cells.items():
        baseline = cells.get((origin, case_id, arms[0]), [])
        row = build_row(records, baseline, baseline_arm=arms[0], functional=functional)
        case = row.case
        key: _GroupKey = (case.collective, case.op or "", case.dtype, case.placement, case.hot, case.num_ranks, origin)
        by_key.setdefault(key, []).append(row)
    for key in sorted(by_key, key=lambda key: (*key[:3], key[3] != "out_of_place", *key[4:])):
        rows = sorted(by_key[key], key=lambda row: (row.case.size_bytes, arms.index(row.arm.name)))
        yield Group(
            collective=key[0],
            op=key[1] or None,
            dtype=key[2],
            placement=key[3],
            hot=key[4],
            num_ranks=key[5],
            origin=key[6],
            clocks=clock_order({timing.clock for row in rows for timing in row.timings}),
            rows=tuple(rows),
        )


def _corrected(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups with outcomes decided again, corrected over all cells of one origin and clock."""
    families: dict[tuple[Origin, str], list[Timing]] = {}
    for group in groups:
        for row in group.rows:
            for timing in row.timings:
                if timing.comparison is not None:
                    families.setdefault((group.origin, timing.clock), []).append(timing)
    decided: dict[int, Comparison] = {}
    for timings in families.values():
        before = [timing.comparison for timing in timings if timing.comparison is not None]
        for timing, comparison in zip(timings, decide_family(before), strict=True):
            decided[id(timing)] = comparison
    return tuple(replace(group, rows=tuple(_with(row, decided) for row in group.rows)) for group in groups)


def _with(row: Row, decided: Mapping[int, Comparison]) -> Row:
    timings = (replace(timing, comparison=decided.get(id(timing))) for timing in row.timings)
    return replace(row, timings=tuple(timings))
