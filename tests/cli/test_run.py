"""From one command to a comparison on real CPU ranks, and what else the run's folder is good for."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtpbench.record.model import Record
from tests.cli.command import gtpbench, records, write_scenario
from tests.markers import ranks, root

FAST = ("-b", "64K", "-e", "256K", "--num-ranks", "2", "--time-budget", "0.3")
STANDIN = """
name = "tiny"
arms = ["none", "symm"]
backend = "standin"
num_ranks = 2
[workload]
collectives = ["all_gather", "reduce_scatter"]
sizes = ["64K", "128K"]
dtypes = ["fp32"]
placements = ["out_of_place", "in_place"]
[measure]
blocks = 2
iters = 4
hot = true
"""


@ranks
def test_symm_prints_both_arms_with_ratio_and_interval(tmp_path: Path) -> None:
    """The table has both arms at every size, a ratio with an interval, and the last line says how it ended."""
    outcome = gtpbench("allgather", "--symm", *FAST, "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 0, outcome.stderr
    lines = outcome.stdout.splitlines()
    for size in ("64KiB", "256KiB"):
        assert any(size in line and "none" in line and "baseline" in line and "socket" in line for line in lines)
        (symm,) = [line for line in lines if size in line and " symm" in line and "shared_memory" in line]
        assert symm.count("[") == symm.count("]") == 1
    assert lines[-1].endswith("exit 0 · out")
    found = [Record.model_validate(record, strict=False) for record in records(tmp_path / "out")]
    assert {(r.arm, r.status, r.origin) for r in found} == {("none", "ok", "cpu"), ("symm", "ok", "cpu")}
    for record in found:
        (samples,) = record.samples.values()
        assert len(samples.time_us) == 2
        assert {len(rank) for rank in samples.time_us} == {10}
        assert record.verification is not None
        assert (record.verification.num_wrong, record.verification.poisoned) == (0, True)
    for name in ("report.md", "report.json", "results.csv", "busbw.svg", "busbw.png", "scenario.toml"):
        assert (tmp_path / "out" / name).stat().st_size > 0


@ranks
@pytest.mark.parametrize(("extra", "code"), [((), 12), (("--allow-skip",), 0)])
def test_an_arm_that_cannot_run_is_a_row_with_a_reason(tmp_path: Path, extra: tuple[str, ...], code: int) -> None:
    """`--nvls` on CPU ranks: skipped with its reason, code 12, or 0 where skips are allowed."""
    words = ("allgather", "--arm", "none", "--nvls", "-b", "64K", "-e", "64K", "--time-budget", "0.1")
    outcome = gtpbench(*words, *extra, "--out", "out", cwd=tmp_path).run()
    assert outcome.code == code
    assert "symm:nvls is an NCCL feature without a counterpart on CPU ranks" in outcome.stdout
    assert {(r["arm"], r["status"]) for r in records(tmp_path / "out")} == {("none", "ok"), ("symm:nvls", "skipped")}


def test_nccl_arms_are_skipped_without_starting_anything(tmp_path: Path) -> None:
    """Where no arm can run the run still leaves a row for each, and says why."""
    words = ("reducescatter", "--symm", "--backend", "nccl_torch", "--num-ranks", "2", "-b", "64K", "-e", "64K")
    outcome = gtpbench(*words, "--out", "out", cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": ""}).run()
    assert outcome.code == 12
    assert "needs an NVIDIA GPU and NCCL" in outcome.stdout
    assert {r["reason"]["code"] for r in records(tmp_path / "out")} == {"no_gpu"}


@ranks
def test_rounded_sizes_are_shown_with_what_was_asked(tmp_path: Path) -> None:
    """A size that is no multiple of ranks x element size is rounded down, and the row shows both."""
    words = ("allgather", "-b", "65535", "-e", "65535", "--num-ranks", "2", "--time-budget", "0.1", "--out", "out")
    outcome = gtpbench(*words, cwd=tmp_path).run()
    assert outcome.code == 0
    assert "65535B → 65532B" in outcome.stdout


@ranks
def test_saved_scenario_replays_the_same_plan(tmp_path: Path) -> None:
    """Flags, `auto` values included, become a file that plans to the same digest."""
    words = ("allgather", "--symm", *FAST, "--functional", "--save-scenario", "s.toml", "--out", "one")
    assert gtpbench(*words, cwd=tmp_path).run().code == 0
    assert gtpbench("run", "s.toml", "--out", "two", cwd=tmp_path).run().code == 0
    digests = {r["plan_digest"] for folder in ("one", "two") for r in records(tmp_path / folder)}
    assert len(digests) == 1
    planned = gtpbench("plan", "s.toml", "--format", "json", cwd=tmp_path).run()
    assert json.loads(planned.stdout)["digest"] in digests


@ranks
def test_functional_runs_have_no_ratio(tmp_path: Path) -> None:
    """Paths and correctness only: verified, proved, no word about speed."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    outcome = gtpbench("run", path, "--functional", "--out", "out", cwd=tmp_path).run()
    assert outcome.code == 0
    assert "functional only" in outcome.stdout.splitlines()[-1]
    assert "faster" not in outcome.stdout


@ranks
def test_launches_append_and_merge(tmp_path: Path) -> None:
    """Launches are numbered through over --launches, --append and merge; counts stay the same."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    run = ("run", path, "--launches", "2")
    assert gtpbench(*run, "--out", "a", cwd=tmp_path).run().code == 0
    again = gtpbench(*run, "--out", "a", cwd=tmp_path).run()
    assert again.code == 2
    assert gtpbench(*run, "--out", "a", "--append", cwd=tmp_path).run().code == 0
    assert {r["launch"] for r in records(tmp_path / "a")} == {0, 1, 2, 3}
    other = gtpbench("run", path, "--seed", "7", "--out", "a", "--append", cwd=tmp_path).run()
    assert other.code == 2
    assert "another scenario or version" in other.stderr
    assert gtpbench(*run, "--out", "b", cwd=tmp_path).run().code == 0
    assert gtpbench("merge", "a", "b", "--out", "c", cwd=tmp_path).run().code == 0
    merged = records(tmp_path / "c")
    assert {r["launch"] for r in merged} == set(range(6))
    assert len(merged) == 6 * 16
    assert len({(r["case_id"], r["arm"], r["launch"]) for r in merged}) == len(merged)


@ranks
def test_torn_last_line_is_dropped_by_every_reader(tmp_path: Path) -> None:
    """A run that was cut off in a write loses that line and nothing else."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    assert gtpbench("run", path, "--out", "a", cwd=tmp_path).run().code == 0
    results = tmp_path / "a" / "results.jsonl"
    whole = results.read_bytes()
    results.write_bytes(whole[:-100])
    report = gtpbench("report", "a", cwd=tmp_path).run()
    assert report.code == 0
    assert "last line is torn" in report.stderr
    appended = gtpbench("run", path, "--out", "a", "--append", cwd=tmp_path).run()
    assert appended.code == 0
    assert "last line is torn" in appended.stderr
    assert len(records(tmp_path / "a")) == 15 + 16


@ranks
def test_formats_are_clean_on_stdout(tmp_path: Path) -> None:
    """stdout is the format alone; what people read goes to stderr."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    outcome = gtpbench("run", path, "--out", "a", "--format", "json", cwd=tmp_path).run()
    assert json.loads(outcome.stdout)["schema_version"] == 1
    assert "exit 0" in outcome.stderr
    csv = gtpbench("report", "a", "--format", "csv", cwd=tmp_path).run().stdout.splitlines()
    assert len(csv) == 1 + 16
    table = gtpbench("report", "a", "--format", "nccl-tests", cwd=tmp_path).run().stdout
    assert "out-of-place" in table


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@root
@ranks
def test_full_disk_keeps_what_is_written(tmp_path: Path, small_disk: Path) -> None:
    """One line says what could not be written; every record before it is whole; no rank is left behind."""
    path = write_scenario(
        tmp_path / "s.toml", STANDIN.replace("blocks = 2", "blocks = 40").replace("iters = 4", "iters = 400")
    )
    outcome = gtpbench("run", path, "--out", small_disk / "out", cwd=tmp_path).run()
    assert outcome.code == 5
    assert "No space left on device" in outcome.stderr
    assert 1 <= len(records(small_disk / "out")) < 16


@ranks
def test_two_runs_cannot_write_to_one_folder(tmp_path: Path) -> None:
    """The second one is refused in one line, and the first one's launches stay whole."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    assert gtpbench("run", path, "--out", "a", cwd=tmp_path).run().code == 0
    first = gtpbench("run", path, "--out", "a", "--append", "--launches", "100", cwd=tmp_path)
    with first.started() as process:
        deadline = time.monotonic() + 20
        while not list((tmp_path / "a").glob("logs/launch1*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second = gtpbench("run", path, "--out", "a", "--append", cwd=tmp_path).run()
        process.terminate()
        process.communicate(timeout=20)
    assert second.code == 2
    assert "another run is writing to a" in second.stderr


@ranks
def test_appending_on_another_machine_is_refused_without_a_trace(tmp_path: Path) -> None:
    """A variable that NCCL or gloo reads makes another machine; the folder stays as it was."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    assert gtpbench("run", path, "--out", "a", cwd=tmp_path).run().code == 0
    before = (tmp_path / "a" / "results.jsonl").read_bytes()
    other = gtpbench("run", path, "--out", "a", "--append", cwd=tmp_path, env={"GLOO_X": "1"}).run()
    assert other.code == 12
    assert "GLOO_X: 1 / None" in other.stderr
    assert (tmp_path / "a" / "results.jsonl").read_bytes() == before


@ranks
def test_windows_add_up_to_what_is_registered(tmp_path: Path) -> None:
    """Each side says its own slots: all-gather sends half of what it receives on two ranks."""
    words = ("allgather", "--arm", "symm", "-b", "64K", "-e", "64K", "--time-budget", "0.1", "--out", "out")
    assert gtpbench(*words, cwd=tmp_path).run().code == 0
    (record,) = records(tmp_path / "out")
    send, recv = record["sides"]["send"], record["sides"]["recv"]
    assert (send["slot_stride_bytes"], recv["slot_stride_bytes"]) == (32768, 65536)
    assert send["window_bytes"] + recv["window_bytes"] == record["memory"][0]["registered_bytes"]


@pytest.mark.parametrize("words", ["list schema", "env"])
def test_a_reader_that_stops_changes_nothing(tmp_path: Path, words: str) -> None:
    """`| true` ends with the command's own code, quietly."""
    shell = f"set -o pipefail; {sys.executable} -m gtpbench {words} | true"
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A full disk behind stdout is a failure (5), not a bug (1)."""
    shell = f"{sys.executable} -m gtpbench list schema > /dev/full"
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert done.stderr == "gtpbench: error: cannot write to standard output: No space left on device\n"
