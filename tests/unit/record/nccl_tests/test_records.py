"""From an output to records."""

from pathlib import Path
from typing import Any

import pytest

from gtpbench.arms import arm_named
from gtpbench.record import Record
from gtpbench.record.nccl_tests.read import read_output
from gtpbench.record.nccl_tests.records import arm_record, records_of
from tests.unit.record.nccl_tests.files import DATA, changed_json, made_of, number_line, silent


def _records(path: Path, *, warn: Any = silent, arm: str = "nccltests:0") -> tuple[dict[str, Record], int]:
    output = read_output(path, warn=warn)
    found, left_out = records_of(output, arm_record(arm_named(arm)), plan_digest="p", launch=3, warn=warn)
    assert len({record.case_id for record in found}) == len(found)
    return {record.case_id: record for record in found}, left_out


def _text(path: Path, *rows: str, **header: Any) -> Path:
    path.write_text(made_of(list(rows), **header), encoding="utf-8")
    return path


def test_every_row_becomes_a_case_for_each_placement() -> None:
    """Ids as planning gives them, sizes to the byte, and the identity of an imported record."""
    found, left_out = _records(DATA / "reduce_scatter_R0.json")
    assert left_out == 0
    assert list(found)[:3] == [
        "reduce_scatter/sum/bf16/65536/n2/out_of_place",
        "reduce_scatter/sum/bf16/65536/n2/in_place",
        "reduce_scatter/sum/bf16/262144/n2/out_of_place",
    ]
    assert len(found) == 14
    record = found["reduce_scatter/sum/bf16/262144/n2/in_place"]
    assert (record.origin, record.status, record.arm, record.launch) == ("imported", "ok", "nccltests:0", 3)
    assert (record.arm_spec.backend, record.arm_spec.family) == ("nccl-tests", "nccltests")
    assert (record.case.requested_bytes, record.case.size_bytes, record.case.hot) == (262144, 262144, False)
    assert record.execution is None


def test_the_loop_is_one_sample_on_the_graph_clock() -> None:
    """`-G 10 -n 20`: the mean over 10 x 20 operations; its label says who averaged."""
    found, _ = _records(DATA / "all_gather_R0.json")
    record = found["all_gather/bf16/268435456/n2/in_place"]
    assert list(record.samples) == ["step.graph"]
    samples = record.samples["step.graph"]
    assert (samples.clock, samples.k, samples.time_us) == ("graph", 200, (((219.074145,),),))
    assert samples.alignment == "barrier before the loop"
    assert samples.aggregation == "mean over ranks of the host-timed loop"
    assert (samples.block_start_us, samples.block_wall_us) == ((), ())


def test_single_iterations_are_a_series_of_their_own() -> None:
    """Without a graph the loop is on the host clock; event times are raw, of each process, on the stream clock."""
    found, _ = _records(DATA / "all_gather_periter.json", arm="nccltests:2")
    record = found["all_gather/bf16/65536/n2/out_of_place"]
    assert list(record.samples) == ["step.host", "step.stream"]
    loop, events = record.samples["step.host"], record.samples["step.stream"]
    assert (loop.clock, loop.k, loop.time_us) == ("host", 20, (((13.4987,),),))
    assert (events.clock, events.k, events.aggregation) == ("stream", 1, None)
    assert events.alignment == "none: event to event"
    assert [[len(block) for block in rank] for rank in events.time_us] == [[20], [20]]
    assert events.time_us[0][0][:2] == (19.872, 24.800001)
    assert events.time_us[1][0][:2] == (20.896001, 25.536001)
    assert record.warmup == {}


def test_isolated_iterations_and_those_left_out_of_summaries(tmp_path: Path) -> None:
    """`-z 3` puts a barrier before each; `-K 2` makes warm-up of the first two; `-g 4` leaves maxima of processes."""

    def change(values: Any) -> None:
        values["config"] |= {"blocking_collectives": "true", "ngpus": 4, "per_iter_skip": 2}
        values["args"] += ["-z", "3", "-K", "2"]
        for row in values["results"]:
            row["count"] //= 4
            for name in ("out_of_place_per_iter", "in_place_per_iter"):
                row[name]["skipped_iterations"] = 2

    found, _ = _records(changed_json(tmp_path / "f", change, name="all_gather_periter"), arm="nccltests:2")
    record = found["all_gather/bf16/65536/n8/out_of_place"]
    assert list(record.samples) == ["step.host", "step.isolated"]
    events, warmup = record.samples["step.isolated"], record.warmup["step.isolated"]
    assert (events.clock, events.alignment) == ("isolated", "barrier before each iteration")
    assert events.aggregation == "maximum over each process's GPUs of each iteration"
    assert "-z 3" in record.samples["step.host"].alignment
    assert [len(rank[0]) for rank in events.time_us] == [18, 18]
    assert warmup.time_us == (((19.872, 24.800001),), ((20.896001, 25.536001),))
    assert list(record.warmup) == ["step.isolated"]


def test_a_maximum_over_ranks_is_labelled(tmp_path: Path) -> None:
    """One process: nothing but the maximum is in the file."""

    def change(values: Any) -> None:
        values["config"]["devices"] = values["config"]["devices"][:1]
        values["config"]["ngpus"] = 2
        for row in values["results"]:
            for name in ("out_of_place_per_iter", "in_place_per_iter"):
                del row[name]["per_process_max_times_us"]

    found, _ = _records(changed_json(tmp_path / "f", change, name="all_gather_periter"), arm="nccltests:2")
    samples = found["all_gather/bf16/65536/n2/in_place"].samples["step.stream"]
    assert samples.aggregation == "maximum over ranks of each iteration"
    assert samples.time_us[0][0][0] == 43.264002
    assert len(samples.time_us) == 1


def test_iterations_of_several_operations_are_left_out(tmp_path: Path) -> None:
    """`-m 4`: the loop's time is divided, an event interval is not known to be."""
    told: list[str] = []

    def change(values: Any) -> None:
        values["config"]["aggregated_iterations"] = 4

    path = changed_json(tmp_path / "f", change, name="all_gather_periter")
    found, left_out = _records(path, warn=told.append)
    samples = found["all_gather/bf16/65536/n2/in_place"].samples
    assert {name: series.k for name, series in samples.items()} == {"step.host": 80}
    assert left_out == 0
    assert told == [f"{path}: left out: times of single iterations, which hold several operations each (-m)"]


def test_a_size_that_comes_again_is_a_block(tmp_path: Path) -> None:
    """`-N 2` prints every size twice: one record, two blocks."""
    path = _text(tmp_path / "f", number_line(64, count=8, time="2.00"), number_line(64, count=8, time="4.00"))
    found, _ = _records(path)
    assert list(found) == ["all_gather/fp32/64/n2/out_of_place", "all_gather/fp32/64/n2/in_place"]
    assert found["all_gather/fp32/64/n2/in_place"].samples["step.host"].time_us == (((2.0,), (4.0,)),)
    verification = found["all_gather/fp32/64/n2/in_place"].verification
    assert verification is not None
    assert verification.num_checked == 2 * 2 * 16


@pytest.mark.parametrize(
    ("program", "dtype", "op", "case_id"),
    [
        ("all_gather_perf", "half", "none", "all_gather/fp16/64/n2/in_place"),
        ("all_gather_perf_mpi", "double", "none", "all_gather/fp64/64/n2/in_place"),
        ("all_gather_perf", "f8e4m3", "none", "all_gather/fp8_e4m3/64/n2/in_place"),
        ("reduce_scatter_perf", "bfloat16", "avg", "reduce_scatter/avg/bf16/64/n2/in_place"),
    ],
)
def test_names_of_types_and_operations(tmp_path: Path, program: str, dtype: str, op: str, case_id: str) -> None:
    """nccl-tests' words become ours."""
    element = {"half": 2, "double": 8, "f8e4m3": 1, "bfloat16": 2}[dtype]
    found, _ = _records(
        _text(tmp_path / "f", number_line(64, count=32 // element, dtype=dtype, op=op), program=program)
    )
    assert list(found)[1] == case_id


@pytest.mark.parametrize(
    ("program", "row", "needle"),
    [
        ("all_gather_perf", number_line(64, count=4, dtype="int64"), "unknown dtype 'int64': one of bf16,"),
        ("reduce_scatter_perf", number_line(64, count=8, op="prod"), "unknown operation 'prod': one of sum, avg"),
        ("all_reduce_perf", number_line(64, count=16, op="sum"), "unknown collective of program 'all_reduce_perf'"),
        ("benchmark", number_line(64, count=8), "unknown collective of program 'benchmark'"),
        ("all_gather_perf", number_line(0, count=0), "nothing was sent"),
        ("all_gather_perf", number_line(68, count=8), "size is not count x 4 B x 2 ranks"),
    ],
)
def test_a_row_without_a_case_is_left_out_and_told(tmp_path: Path, program: str, row: str, needle: str) -> None:
    """Each reason once, with the first line and how many rows it has."""
    told: list[str] = []
    path = _text(tmp_path / "f", row, row, program=program)
    found, left_out = _records(path, warn=told.append)
    assert (found, left_out) == ({}, 2)
    assert len(told) == 1
    assert told[0].startswith(f"{path}:10: left out: {needle}")
    assert told[0].endswith("(2 rows)")


def test_a_row_of_nothing_is_left_out(tmp_path: Path) -> None:
    """JSON may have null for both placements."""
    told: list[str] = []

    def change(values: Any) -> None:
        values["results"][0] |= {"out_of_place": None, "in_place": None}

    found, left_out = _records(changed_json(tmp_path / "f", change), warn=told.append)
    assert (len(found), left_out) == (12, 1)
    assert told == [f"{tmp_path / 'f'}: results.0: left out: no placement was measured"]


def test_wrong_elements_make_a_wrong_result(tmp_path: Path) -> None:
    """Without a time, with the count."""
    found, _ = _records(_text(tmp_path / "f", number_line(64, count=8, wrong="3")))
    record = found["all_gather/fp32/64/n2/out_of_place"]
    assert (record.status, record.samples) == ("wrong_result", {})
    assert record.reason is not None
    assert (record.reason.code, record.reason.text) == ("wrong_data", "3 wrong elements, counted by nccl-tests")
    assert record.verification is not None
    assert (record.verification.num_wrong, record.verification.counts_only) == (3, True)


@pytest.mark.parametrize("time", ["nan", "inf", "0.00", "-1.00"])
def test_a_time_that_is_none_is_an_errornumber_line(tmp_path: Path, time: str) -> None:
    """Rows never vanish."""
    found, left_out = _records(_text(tmp_path / "f", number_line(64, count=8, time=time)))
    record = found["all_gather/fp32/64/n2/in_place"]
    assert (record.status, left_out, record.samples) == ("error", 0, {})
    assert record.reason is not None
    assert record.reason.code == "no_time"


@pytest.mark.parametrize(("wrong", "num_slots", "num_checked"), [("0", 1, 32), ("N/A", 0, 0)])
def test_what_was_checked(tmp_path: Path, wrong: str, num_slots: int, num_checked: int) -> None:
    """An all-gather's receive buffers are 2 x 64 B = 32 floats; with `-c 0` nothing was."""
    found, _ = _records(_text(tmp_path / "f", number_line(64, count=8, wrong=wrong)))
    verification = found["all_gather/fp32/64/n2/in_place"].verification
    assert verification is not None
    assert (verification.num_slots, verification.num_checked, verification.poisoned) == (num_slots, num_checked, False)


def test_a_reduce_scatter_receives_its_share(tmp_path: Path) -> None:
    """2 ranks x 32 B = 16 floats."""
    found, _ = _records(_text(tmp_path / "f", number_line(64, count=8, op="sum"), program="reduce_scatter_perf"))
    verification = found["reduce_scatter/sum/fp32/64/n2/in_place"].verification
    assert verification is not None
    assert verification.num_checked == 16


def test_nothing_is_proved() -> None:
    """The file holds no evidence of the path."""
    found, _ = _records(DATA / "all_gather_R2.json", arm="nccltests:2")
    for record in found.values():
        assert record.proof is not None
        assert (record.proof.verdict, record.proof.path, record.proof.evidence) == ("unproven", "unknown", ())
        assert record.proof.items[0].statement == "imported: no evidence of the path in the file"


def test_ranks_that_share_a_gpu_are_recorded(tmp_path: Path) -> None:
    """Equal host and PCI address: one other process. Devices of their own: none."""
    shared = _records(DATA / "all_gather_R0.json")[0].popitem()[1]
    assert [(state.rank, state.other_processes) for state in shared.block_states] == [(0, 1), (1, 1)]
    apart = _records(_text(tmp_path / "f", number_line(64, count=8)))[0].popitem()[1]
    assert [(state.rank, state.other_processes) for state in apart.block_states] == [(0, 0), (1, 0)]
