"""`--registration-cost` on real CPU ranks, from one command to its reports."""

import csv
import json
from pathlib import Path

import pytest

from gtpbench.record.model import Record
from tests.cli.command import gtpbench, records, write_scenario
from tests.markers import ranks

STANDIN = """
name = "sets"
arms = ["registered", "symm"]
backend = "standin"
num_ranks = 2
[workload]
kind = "registration"
buffer_sizes = ["64K", "1M"]
num_buffers = [1, 3]
[measure]
blocks = 2
"""


@ranks
def test_a_sweep_on_cpu_ranks(tmp_path: Path) -> None:
    """Every set has its row, its times on every rank, and a proof; nothing is compared; code 0."""
    words = ("allgather", "--registration-cost", "--arm", "symm", "-b", "64K", "-e", "1M", "-f", "16", "-n", "3")
    outcome = gtpbench(*words, "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 0, outcome.stderr
    assert "registration cost · 2 ranks · CPU ranks, a demonstration" in outcome.stdout
    assert "for the first buffer of a process" in outcome.stdout
    last = outcome.stdout.splitlines()[-1]
    assert last.startswith("CPU demonstration: registration, a buffer: symm ")
    assert last.endswith("every arm by construction · exit 0 · out")
    found = [Record.model_validate(record, strict=False) for record in records(tmp_path / "out")]
    assert len({record.case_id for record in found}) == len(found) == 8
    assert [record.costs.first_registration for record in found].count(True) == 1
    for record in found:
        assert (record.status, record.origin) == ("ok", "cpu")
        assert list(record.samples) == ["allocate.host", "register.host", "deregister.host"]
        for samples in record.samples.values():
            assert [[1, 1, 1]] * 2 == [list(map(len, rank)) for rank in samples.time_us]
        assert record.verification is not None and record.verification.num_wrong == 0
        assert record.proof is not None
        assert (record.proof.verdict, record.proof.path) == ("by_construction", "shared_memory")
    for name in ("report.md", "report.json", "results.csv", "scenario.toml"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert not list((tmp_path / "out").glob("*.svg"))


@ranks
def test_arms_that_cannot_run_are_rows_with_a_reason(tmp_path: Path) -> None:
    """Plain registration has no counterpart on CPU ranks, and an arm that registers nothing has nothing to time."""
    words = (
        "reducescatter",
        "--registration-cost",
        "--arm",
        "none,registered,symm",
        "-b",
        "64K",
        "-e",
        "64K",
        "-n",
        "2",
    )
    outcome = gtpbench(*words, "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 12
    assert "registered at every set: registered is an NCCL feature without a counterpart" in outcome.stdout
    assert "none at every set: none registers nothing, so there is no registration to time" in outcome.stdout


@ranks
def test_a_listed_set_replays_without_its_file(tmp_path: Path) -> None:
    """Its sizes are in the saved scenario, and in every record."""
    (tmp_path / "llama.txt").write_text("# two layers\nembed 2M\n64K\n64K # norm\n", encoding="utf-8")
    words = ("allgather", "--registration-cost", "--buffers", "llama.txt", "--arm", "symm", "-n", "2")
    outcome = gtpbench(*words, "--save-scenario", "s.toml", "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 0, outcome.stderr
    (tmp_path / "llama.txt").unlink()
    (record,) = records(tmp_path / "out")
    assert record["case_id"] == "registration/llama/2228224/n2"
    assert record["case"]["buffer_bytes"] == [2 * 2**20, 65536, 65536]
    planned = json.loads(gtpbench("plan", "s.toml", "--format", "json", cwd=tmp_path).run().stdout)
    assert planned["digest"] == record["plan_digest"]
    assert planned["cases"] == [record["case"]]


@ranks
def test_launches_append_and_render_again(tmp_path: Path) -> None:
    """A run folder like any other; each launch has a first registration of each kind."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    for words in (("run", path, "--launches", "2", "--out", "out"), ("run", path, "--out", "out", "--append")):
        assert gtpbench(*words, cwd=tmp_path).run().code == 0
    found = records(tmp_path / "out")
    assert {record["launch"] for record in found} == {0, 1, 2}
    firsts = [(r["launch"], r["arm"]) for r in found if r["costs"]["first_registration"]]
    assert sorted(firsts) == [(launch, arm) for launch in range(3) for arm in ("registered", "symm")]
    before = (tmp_path / "out" / "report.md").read_bytes()
    printed = gtpbench("report", "out", "--format", "csv", cwd=tmp_path).run().stdout
    assert before == (tmp_path / "out" / "report.md").read_bytes()
    lines = list(csv.DictReader(printed.splitlines()))
    assert len(lines) == 8
    # The stand-in takes 50 us for each buffer.
    assert {(line["num_buffers"], line["register_median_us"]) for line in lines} == {("1", "50"), ("3", "150")}


@ranks
def test_wrong_data_is_found(tmp_path: Path) -> None:
    """A flipped element behind a registered set ends the run with 5."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    env = {"GTPBENCH_TEST_FAULT": "corrupt rank=1 arm=symm case=registration/3x65536/n2"}
    outcome = gtpbench("run", path, "--out", "out", cwd=tmp_path, env=env).run()
    assert outcome.code == 5
    statuses = {(r["case_id"], r["arm"]): r["status"] for r in records(tmp_path / "out")}
    assert statuses.pop(("registration/3x65536/n2", "symm")) == "wrong_result"
    assert set(statuses.values()) == {"ok"}


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (["--registration-cost", "--format", "nccl-tests"], "nccl-tests' layout has no place"),
        (["--registration-cost", "--buffers", "bad.txt"], "buffers bad.txt:2: '64X' is not a size"),
        (["--registration-cost", "-b", "1G", "-e", "1G"], "workload.max_total_bytes = 512MiB leaves no case"),
    ],
)
def test_what_cannot_be_asked_ends_with_code_2(tmp_path: Path, words: list[str], needle: str) -> None:
    """In one line, before anything is started or written."""
    (tmp_path / "bad.txt").write_text("64M\nqkv 64X\n", encoding="utf-8")
    outcome = gtpbench("allgather", *words, cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": ""}).run()
    assert (outcome.code, outcome.stdout, len(outcome.stderr.splitlines())) == (2, "", 1)
    assert needle in outcome.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"bad.txt"}
