"""What must hold for every size, record, plan, schedule and scenario, not only for examples."""

import itertools
import math
import tempfile
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from gtpbench.arms import ARMS
from gtpbench.bandwidth import algbw_gb_per_s, busbw_gb_per_s, wire_bytes_per_rank
from gtpbench.collectives import COLLECTIVES, DTYPES, CollectiveName, pattern, reference, values
from gtpbench.errors import ExitCode, worst
from gtpbench.measure.calibrate import MAX_SAMPLES_PER_BLOCK, Estimate, choose_counts
from gtpbench.plan import build_plan
from gtpbench.record import Proof, Record, Samples, Verification, append_line, read_records
from gtpbench.record.model import (
    BlockState,
    Clock,
    Costs,
    Execution,
    KernelRow,
    Origin,
    PathName,
    ProofItem,
    ProofVerdict,
    RankEvidence,
    Reason,
    Status,
    Traffic,
)
from gtpbench.scenario.load import build_scenario, dump_scenario
from gtpbench.scenario.resolve import sweep
from gtpbench.scenario.schema import CollectiveWorkload, Measure, Scenario, Timeouts
from gtpbench.schedule import block_rounds, case_order, turns
from gtpbench.units import format_size, parse_size
from tests.examples import make_plan

text = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-3, max_value=1e9)
collective = st.sampled_from(get_args(CollectiveName))
group = st.integers(1, 512)

# Sizes and bandwidths


@given(st.one_of(st.integers(0, 2**70), st.integers(0, 2**20).map(lambda n: n * 2**18)))
def test_size_text_round_trip(size_bytes: int) -> None:
    """The text of a size reads back to the byte, whatever the size."""
    assert size_bytes == parse_size(format_size(size_bytes))


@given(st.integers(0, 10**6), st.sampled_from(["", "K", "M", "G", "T"]), st.sampled_from(["", "iB", "B"]))
def test_all_spellings_of_a_size_agree(number: int, prefix: str, suffix: str) -> None:
    """Case and suffix do not matter, and a prefix is a power of 1024."""
    assume(prefix or suffix != "iB")
    spelt = f"{number}{prefix}{suffix}"
    expected = number * 1024 ** " KMGT".index(prefix or " ")
    assert expected == parse_size(spelt) == parse_size(spelt.lower()) == parse_size(f" {spelt} ")


@given(collective, st.integers(1, 2**40), positive, group)
def test_busbw_identities(name: str, size: int, time_us: float, num_ranks: int) -> None:
    """busbw = algbw (G-1)/G, below algbw; half the time is twice the rate; it is the wire bytes over the time."""
    busbw = busbw_gb_per_s(COLLECTIVES[name], size, time_us, num_ranks=num_ranks)
    algbw = algbw_gb_per_s(size, time_us)
    assert Fraction(num_ranks - 1, num_ranks) == COLLECTIVES[name].busbw_factor(num_ranks)
    assert math.isclose(busbw, algbw * (num_ranks - 1) / num_ranks, rel_tol=1e-12)
    assert busbw < algbw
    assert math.isclose(
        2 * busbw, busbw_gb_per_s(COLLECTIVES[name], size, time_us / 2, num_ranks=num_ranks), rel_tol=1e-12
    )
    total = size * num_ranks
    wire = wire_bytes_per_rank(total, num_ranks=num_ranks)
    whole = busbw_gb_per_s(COLLECTIVES[name], total, time_us, num_ranks=num_ranks)
    assert math.isclose(wire / (time_us * 1e-6) / 1e9, whole, rel_tol=1e-12)


@given(collective, st.integers(1, 2**30), group)
def test_send_and_receive_buffers(name: str, share: int, num_ranks: int) -> None:
    """One is the total, the other a rank's share of it."""
    total = share * num_ranks
    kind = COLLECTIVES[name]
    both = {kind.send_bytes(total, num_ranks=num_ranks), kind.recv_bytes(total, num_ranks=num_ranks)}
    assert both == {share, total}
    assert kind.reduces == (kind.send_bytes(total, num_ranks=num_ranks) == total) or num_ranks == 1


@given(st.integers(1, 2**20), st.integers(0, 2**24), st.integers(2, 64))
def test_sweep_is_geometric(low: int, span: int, factor: int) -> None:
    """It starts at -b, multiplies by -f, and the next one would pass -e."""
    high = low + span
    sizes = sweep(low, high, factor=factor)
    assert low == sizes[0]
    assert all(b == a * factor for a, b in itertools.pairwise(sizes))
    assert sizes[-1] <= high < sizes[-1] * factor


# Data and references


@given(st.integers(0, 2**63), st.integers(0, 4096), st.integers(0, 2**40), st.integers(1, 50))
def test_pattern_needs_no_more_than_its_indices(seed: int, rank: int, start: int, count: int) -> None:
    """NumPy's wrapping integers and Python's unbounded ones give the same 32 bits."""
    array = pattern(np.arange(start, start + count, dtype=np.int64), seed=seed, rank=rank)
    assert [pattern(index, seed=seed, rank=rank) for index in range(start, start + count)] == array.tolist()


@given(st.integers(1, 255))
def test_integers_never_sum_to_more_than_255(num_ranks: int) -> None:
    """So that uint8 and bf16 hold every sum."""
    made = values(np.arange(256, dtype=np.int64), kind="integers", num_ranks=num_ranks)
    assert 0 < made.max() * num_ranks <= 255
    assert 0 == made.min()


@given(collective, st.integers(1, 16), st.integers(1, 100))
def test_references_cover_every_element_once(name: str, num_ranks: int, share: int) -> None:
    """All-gather: each rank's share in order on every rank. Reduce-scatter: the ranks' parts tile the total."""
    made = [
        reference(
            COLLECTIVES[name],
            rank=rank,
            num_ranks=num_ranks,
            total_count=share * num_ranks,
            seed=0,
            kind="integers",
            op="sum",
        )
        for rank in range(num_ranks)
    ]
    if name == "all_gather":
        spans = [[(s.rank, s.start, s.count) for piece in one.pieces for s in piece] for one in made]
        assert [[(rank, 0, share) for rank in range(num_ranks)]] * num_ranks == spans
        return
    for rank, one in enumerate(made):
        (piece,) = one.pieces
        assert [(peer, rank * share, share) for peer in range(num_ranks)] == [(s.rank, s.start, s.count) for s in piece]


# Exit codes


@given(st.lists(st.sampled_from(list(ExitCode))), st.randoms())
def test_worst_ignores_order_and_repetition(codes: list[ExitCode], random: Any) -> None:
    """And is associative: the worst of two parts' worst is the worst of all."""
    shuffled = list(codes)
    random.shuffle(shuffled)
    cut = len(codes) // 2
    assert worst(codes) == worst(shuffled) == worst([worst(codes[:cut]), worst(codes[cut:])]) == worst(codes * 2)


# Scenarios and plans


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Any scenario with resolved sizes and ranks."""
    num_ranks = draw(st.integers(1, 16))
    workload = CollectiveWorkload(
        collectives=tuple(draw(st.lists(collective, min_size=1, max_size=2, unique=True))),
        sizes=tuple(draw(st.lists(st.integers(num_ranks * 8, 2**34), min_size=1, max_size=6))),
        dtypes=tuple(draw(st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=3))),
        placements=tuple(
            draw(st.lists(st.sampled_from(["out_of_place", "in_place"]), min_size=1, max_size=2, unique=True))
        ),
        op=draw(st.sampled_from(["sum", "avg"])),
    )
    seconds = st.floats(min_value=1e-6, max_value=1e300)
    measure = Measure(
        clock=draw(st.sampled_from(["auto", "host", "graph", "stream", "both"])),
        hot=draw(st.booleans()),
        launches=draw(st.integers(1, 1000)),
        blocks=draw(st.integers(2, 1000)),
        iters=draw(st.none() | st.integers(1, 10**9)),
        warmup=draw(st.integers(1, 100)),
        time_budget_s=draw(seconds),
        seed=draw(st.integers(0, 2**70)),
    )
    return Scenario(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", fullmatch=True)),
        workload=workload,
        arms=tuple(draw(st.lists(st.sampled_from(sorted(ARMS)), min_size=1, max_size=4, unique=True))),
        backend=draw(st.sampled_from(["cpu", "gloo", "cpu_window", "nccl_torch", "nccl_direct", "standin"])),
        num_ranks=num_ranks,
        measure=measure,
        timeouts=Timeouts(**{name: draw(seconds) for name in Timeouts.model_fields}),
        functional=draw(st.booleans()),
        allow_skip=draw(st.booleans()),
    )


@given(scenarios())
def test_scenario_round_trip(scenario: Scenario) -> None:
    """Dumped as TOML and loaded again, a scenario is the same, and so is its plan."""
    again = build_scenario(tomllib.loads(dump_scenario(scenario)), origin="test")
    assert scenario == again
    assert build_plan(scenario).digest == build_plan(again).digest
    assert scenario == Scenario.model_validate_json(scenario.model_dump_json())


@given(scenarios())
def test_plan_is_the_product_without_duplicates(scenario: Scenario) -> None:
    """Cases are all combinations of the lists, less those that are the same after rounding."""
    workload, ranks = scenario.workload, scenario.num_ranks
    assert isinstance(ranks, int)
    different = {
        (name, dtype, placement, int(size) // (ranks * DTYPES[dtype].size_bytes) * ranks * DTYPES[dtype].size_bytes)
        for name in workload.collectives
        for dtype in workload.dtypes
        for placement in workload.placements
        for size in workload.sizes
        if not isinstance(size, str)
    }
    plan = build_plan(scenario)
    assert len(different) == len(plan.cases)
    assert different == {(case.collective, case.dtype, case.placement, case.size_bytes) for case in plan.cases}
    assert len(plan.cases) == len({case.case_id for case in plan.cases})
    for case in plan.cases:
        assert 0 <= case.requested_bytes - case.size_bytes < ranks * DTYPES[case.dtype].size_bytes
        assert 0 == case.count % ranks
        assert (case.op is not None) == (case.collective == "reduce_scatter")


@given(scenarios())
def test_every_arm_is_in_one_set_of_its_environment(scenario: Scenario) -> None:
    """Sets are numbered by place, and hold the plan's arms once."""
    plan = build_plan(scenario)
    assert sorted(scenario.arms) == sorted(arm for worker_set in plan.sets for arm in worker_set.arms)
    assert list(range(len(plan.sets))) == [worker_set.set_id for worker_set in plan.sets]
    for worker_set in plan.sets:
        for name in worker_set.arms:
            assert (worker_set.backend, worker_set.env) == (plan.arm(name).backend, plan.arm(name).env)


# Schedules and counts

arm_lists = st.lists(st.sampled_from(sorted(ARMS)), min_size=1, max_size=5, unique=True)


@given(arm_lists, st.integers(2, 40), st.integers(0, 2**40), st.integers(0, 100), text)
def test_each_arm_runs_once_a_round(arms: list[str], blocks: int, seed: int, launch: int, case_id: str) -> None:
    """And each round's order has its reverse in another, but for one where their number is odd."""
    rounds = block_rounds(arms, blocks=blocks, seed=seed, launch=launch, case_id=case_id)
    assert blocks == len(rounds)
    assert all(sorted(arms) == sorted(order) for order in rounds)
    firsts = Counter(order[0] for order in rounds)
    if len(arms) == 2:
        assert abs(firsts[arms[0]] - firsts[arms[1]]) == blocks % 2
    unpaired = Counter(rounds)
    unpaired.subtract(order[::-1] for order in rounds)
    assert sum(count for count in unpaired.values() if count > 0) <= blocks % 2
    assert rounds == block_rounds(arms, blocks=blocks, seed=seed, launch=launch, case_id=case_id)


@given(arm_lists, st.integers(2, 12), st.integers(0, 100))
def test_turns_of_a_case(arms: list[str], blocks: int, seed: int) -> None:
    """Every arm is prepared before any block, runs every block once in order, and finishes after all blocks."""
    sequence = turns(block_rounds(arms, blocks=blocks, seed=seed, launch=0, case_id="c"))
    kinds = [turn.kind for turn in sequence]
    assert kinds == ["prepare"] * len(arms) + ["block"] * len(arms) * blocks + ["finish"] * len(arms)
    for arm in arms:
        assert list(range(blocks)) == [turn.block for turn in sequence if turn.arm == arm and turn.kind == "block"]
        assert 1 == sum(turn.arm == arm for turn in sequence if turn.kind == "prepare")


@given(st.lists(text, unique=True), st.integers(0, 10), st.integers(0, 10))
def test_case_order_is_a_permutation(case_ids: list[str], seed: int, launch: int) -> None:
    """No case is lost."""
    assert sorted(case_ids) == sorted(case_order(case_ids, seed=seed, launch=launch))


def estimates_of(times_us: st.SearchStrategy[float], ks: st.SearchStrategy[int | None]) -> st.SearchStrategy[Any]:
    """Estimates by arm."""
    one = st.builds(Estimate, us=times_us, k=ks)
    return st.dictionaries(st.sampled_from(sorted(ARMS)), one, min_size=1)


any_graph = st.sampled_from([16, 32, 64, 128, 256, 512])
any_clocks = st.integers(1, 2)


@given(
    estimates_of(st.floats(0.01, 1e7), st.none()),
    st.floats(1e-3, 1e4),
    st.integers(2, 100),
    st.integers(1, 500),
    any_clocks,
)
def test_counts_use_up_the_budget(
    estimates: dict[str, Estimate], budget_s: float, blocks: int, num_cases: int, num_clocks: int
) -> None:
    """Within half an interval a block; intervals of at least 50 us; blocks of about 50 samples at most."""
    measure = Measure(time_budget_s=budget_s, blocks=blocks)
    counts = choose_counts(measure, estimates, num_cases=num_cases, num_clocks=num_clocks)
    times_us = [estimate.us for estimate in estimates.values()]
    wanted = max(1.0, budget_s * 1e6 / num_cases / num_clocks / blocks / sum(times_us))
    assert counts.k * min(times_us) >= 50.0 * (1 - 1e-9)
    assert 1 <= counts.samples <= MAX_SAMPLES_PER_BLOCK * 1.5 + 1
    if counts.samples > 1:
        assert abs(counts.iterations - wanted) <= counts.k / 2 + 1e-6 * wanted


@given(
    estimates_of(st.floats(0.0, 1e7), any_graph),
    st.floats(1e-6, 1e4),
    st.integers(2, 100),
    st.integers(1, 500),
    any_clocks,
)
def test_counts_never_change_a_graph(
    estimates: dict[str, Estimate], budget_s: float, blocks: int, num_cases: int, num_clocks: int
) -> None:
    """The longest one any arm needs, whatever the budget; replays use it up within half of one, 50 at most."""
    measure = Measure(time_budget_s=budget_s, blocks=blocks)
    counts = choose_counts(measure, estimates, num_cases=num_cases, num_clocks=num_clocks)
    assert max(estimate.k or 0 for estimate in estimates.values()) == counts.k
    assert 1 <= counts.samples <= MAX_SAMPLES_PER_BLOCK
    times_us = sum(max(estimate.us, 0.01) for estimate in estimates.values())
    wanted = max(1.0, budget_s * 1e6 / num_cases / num_clocks / blocks / times_us)
    if 1 < counts.samples < MAX_SAMPLES_PER_BLOCK:
        assert abs(counts.iterations - wanted) <= counts.k / 2 + 1e-6 * wanted


@given(st.integers(1, 10**7), st.integers(2, 1000), estimates_of(st.floats(0, 1e9), st.none() | any_graph), any_clocks)
def test_iters_win(iters: int, blocks: int, estimates: dict[str, Estimate], num_clocks: int) -> None:
    """At least that many in all blocks, and less than one more interval a block, of one operation or a whole graph."""
    counts = choose_counts(Measure(iters=iters, blocks=blocks), estimates, num_cases=3, num_clocks=num_clocks)
    assert max((estimate.k or 1 for estimate in estimates.values()), default=1) == counts.k
    assert iters <= counts.iterations * blocks < iters + counts.k * blocks


# Records

PLAN = make_plan(
    arms=["none", "symm", "symm:ce"], workload={"collectives": ["all_gather", "reduce_scatter"], "sizes": ["64K", "1M"]}
)


@st.composite
def series(draw: st.DrawFn) -> Samples:
    """Samples of up to three ranks, blocks and iterations."""
    num_ranks, blocks = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def per_rank(value: st.SearchStrategy[Any]) -> Any:
        return tuple(tuple(draw(value) for _ in range(blocks)) for _ in range(num_ranks))

    iterations = st.lists(numbers, min_size=1, max_size=3).map(tuple)
    return Samples(
        clock=draw(st.sampled_from(get_args(Clock))),
        k=draw(st.integers(1, 512)),
        alignment=draw(text),
        time_us=per_rank(iterations),
        issue_us=per_rank(iterations) if draw(st.booleans()) else None,
        block_start_us=per_rank(numbers),
        block_wall_us=per_rank(numbers),
    )


@st.composite
def proofs(draw: st.DrawFn) -> Proof:
    """Any verdict with one item and some evidence."""
    verdict = draw(st.sampled_from(get_args(ProofVerdict)))
    path = draw(st.sampled_from(get_args(PathName)))
    item = ProofItem(
        role="collective",
        collective=draw(text),
        size_bytes=draw(st.integers(0, 2**40)),
        verdict=verdict,
        path=path,
        algorithm=draw(st.none() | text),
        ctas=draw(st.none() | st.integers(1, 64)),
        statement=draw(text),
    )
    kernel = st.builds(KernelRow, name=text, grid=st.none() | st.integers(1, 132), count=st.integers(0, 512))
    evidence = st.builds(
        RankEvidence,
        rank=st.integers(0, 71),
        source=text,
        kernels=st.lists(kernel, max_size=2).map(tuple),
        counters=st.dictionaries(text, st.integers(-(2**63), 2**63), max_size=3),
    )
    return Proof(verdict=verdict, path=path, items=(item,), evidence=tuple(draw(st.lists(evidence, max_size=2))))


verifications = st.builds(
    Verification,
    num_slots=st.integers(1, 256),
    poisoned=st.booleans(),
    num_wrong=st.integers(0, 2**40),
    num_checked=st.integers(0, 2**40),
    max_error=numbers,
    rms_error=numbers,
    tolerance=numbers,
)
executions = st.builds(
    Execution,
    run_id=text,
    attempt=st.integers(0, 9),
    set_id=st.integers(0, 9),
    seed=st.integers(0, 2**70),
    block_order=st.lists(st.lists(text, max_size=2).map(tuple), max_size=3).map(tuple),
    case_position=st.integers(0, 99),
    group_ranks=st.lists(st.integers(0, 71), max_size=3).map(tuple),
    num_iterations=st.integers(0, 2**40),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any record that its own validator accepts."""
    status = draw(st.sampled_from(get_args(Status)))
    is_ok = status == "ok"
    case, arm = draw(st.sampled_from(PLAN.cases)), draw(st.sampled_from(PLAN.arms))
    named = st.dictionaries(text, series(), min_size=1, max_size=2)
    reason = st.builds(Reason, code=text, text=text)
    return Record(
        tool_version=draw(text),
        case_id=case.case_id,
        arm=arm.name,
        status=status,
        origin=draw(st.sampled_from(get_args(Origin))),
        reason=draw(st.none() | reason if is_ok else reason),
        valid_step=draw(st.none() | st.booleans()),
        case=case,
        arm_spec=arm,
        case_digest=draw(text),
        arm_digest=draw(text),
        plan_digest=PLAN.digest,
        launch=draw(st.integers(0, 10**6)),
        environment_id=draw(st.none() | text),
        execution=draw(st.none() | executions),
        samples=draw(named) if is_ok else {},
        warmup=draw(st.just({}) | named) if is_ok else {},
        proof=draw(proofs() if is_ok else st.none() | proofs()),
        verification=draw(verifications if is_ok else st.none() | verifications),
        traffic=draw(
            st.none()
            | st.builds(
                Traffic,
                essential_bytes=st.integers(0, 2**50),
                wire_bytes=st.lists(st.integers(0, 2**50), max_size=3).map(tuple),
            )
        ),
        block_states=tuple(
            draw(st.lists(st.builds(BlockState, rank=st.integers(0, 7), block=st.integers(0, 9)), max_size=2))
        ),
        costs=Costs(registration_us=draw(st.none() | st.lists(numbers, max_size=3).map(tuple))),
        stage_seconds=draw(st.dictionaries(text, numbers, max_size=3)),
        test_fault=draw(st.none() | text),
    )


@given(st.lists(records(), max_size=3), st.booleans())
def test_record_round_trip_through_a_file(written: list[Record], torn: bool) -> None:
    """What was appended is read back equal, to the last bit; a torn line after it changes nothing."""
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        path.touch()
        for record in written:
            append_line(path, record)
        if torn:
            with path.open("ab") as file:
                file.write(b'{"schema_version":')
        assert written == read_records(path, warn=told.append)
        assert len(written) == path.read_bytes().count(b"\n")
    assert len(told) == torn


@given(records())
def test_a_record_never_spans_two_lines(record: Record) -> None:
    """Line ends inside texts are escaped, so that one line is one record for every tool."""
    line = record.model_dump_json()
    assert [line] == line.split("\n")
    assert record == Record.model_validate_json(line)
