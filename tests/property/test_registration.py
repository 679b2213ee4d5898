"""What must hold for every registration scenario, case and record."""

import tempfile
import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gtpbench.cases import RegistrationCase
from gtpbench.errors import UsageError
from gtpbench.plan import build_plan
from gtpbench.record import append_line, read_records
from gtpbench.scenario.buffers import read_buffers, set_name
from gtpbench.scenario.load import build_scenario, dump_scenario
from gtpbench.scenario.schema import RegistrationWorkload, Scenario
from gtpbench.units import format_size
from tests.unit.report.registration import make_registration_record

sizes = st.integers(1, 2**40)
num_ranks = st.integers(1, 64)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Any resolved scenario that times registration and can be planned."""
    ranks = draw(num_ranks)
    some = st.integers(ranks, 2**40)
    swept = tuple(draw(st.lists(some, max_size=4)))
    listed = draw(st.none() | st.lists(some, min_size=1, max_size=20).map(tuple))
    if not swept and listed is None:
        listed = (ranks,)
    numbers = tuple(draw(st.lists(st.integers(1, 1000), min_size=1, max_size=4)))
    least = min(swept, default=1) * min(numbers)
    workload = RegistrationWorkload(
        kind="registration",
        buffer_sizes=swept,
        num_buffers=numbers,
        max_total_bytes=draw(st.integers(least, 2**52)),
        buffers=listed,
        buffers_name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", fullmatch=True)),
    )
    return Scenario(name="x", workload=workload, arms=("registered", "symm"), backend="standin", num_ranks=ranks)


@given(scenarios())
def test_scenario_round_trip(scenario: Scenario) -> None:
    """Dumped as TOML and loaded again, a scenario is the same, and so is its plan."""
    again = build_scenario(tomllib.loads(dump_scenario(scenario)), origin="test")
    assert scenario == again == Scenario.model_validate_json(scenario.model_dump_json())
    assert build_plan(scenario) == build_plan(again)


@given(scenarios())
def test_cases_are_numbers_by_sizes_within_the_total(scenario: Scenario) -> None:
    """And the listed set; each once, with the bytes of all its buffers."""
    workload = scenario.workload
    assert isinstance(workload, RegistrationWorkload) and not isinstance(workload.buffer_sizes, str)
    assert isinstance(workload.max_total_bytes, int)
    pairs = {
        (number, size)
        for number in workload.num_buffers
        for size in workload.buffer_sizes
        if number * size <= workload.max_total_bytes
    }
    cases = [case for case in build_plan(scenario).cases if isinstance(case, RegistrationCase)]
    swept = [case for case in cases if case.name is None]
    assert pairs == {(case.num_buffers, case.buffer_bytes) for case in swept} and len(pairs) == len(swept)
    assert [workload.buffers] * bool(workload.buffers) == [case.sizes for case in cases if case.name]
    assert len(cases) == len({case.case_id for case in cases})
    for case in cases:
        assert (case.num_buffers, case.total_bytes) == (len(case.sizes), sum(case.sizes))


@given(scenarios())
def test_what_is_gathered_fits(scenario: Scenario) -> None:
    """In the first and the last buffer, at least a byte of each rank, no more than 1 MiB."""
    for case in build_plan(scenario).cases:
        assert isinstance(case, RegistrationCase)
        gathered = case.gathered
        assert 0 == gathered.size_bytes % case.num_ranks
        assert case.num_ranks <= gathered.size_bytes <= min(case.sizes[0], case.sizes[-1], 2**20)


@given(scenarios(), st.sampled_from(["ok", "skipped", "wrong_result"]), st.booleans())
def test_record_round_trip(scenario: Scenario, status: str, is_first: bool) -> None:
    """Written and read again, a record is the same, whichever kind of case it is about."""
    case = build_plan(scenario).cases[-1]
    assert isinstance(case, RegistrationCase)
    reason = None if status == "ok" else ("because", "because")
    record = make_registration_record(case=case, status=status, reason=reason, is_first=is_first)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        append_line(path, record)
        assert [record] == read_records(path, warn=lambda text: None)


@given(st.lists(st.tuples(sizes, st.none() | st.from_regex(r"[A-Za-z][\w.]*", fullmatch=True)), min_size=1))
def test_buffers_file_round_trip(listed: list[tuple[int, str | None]]) -> None:
    """Sizes come back in order, with or without names."""
    lines = [f"{name} {format_size(size)}" if name else format_size(size) for size, name in listed]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.txt"
        path.write_text("\n".join(lines), encoding="utf-8")
        assert [size for size, _ in listed] == list(read_buffers(path))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but our own error comes of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.txt"
        path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
        try:
            assert all(size > 0 for size in read_buffers(path))
        except UsageError as error:
            assert str(path) in str(error)


@given(st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=120))
def test_any_file_has_a_name_that_scenarios_take(name: str) -> None:
    """So that no file is refused for what it is called."""
    workload = RegistrationWorkload(kind="registration", buffers=(1,), buffers_name=set_name(Path(name)))
    assert workload.buffers_name
