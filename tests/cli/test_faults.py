"""Faults: the watchdog, dead ranks, wrong data, a dead supervisor, Ctrl-C.

Each ends with the documented code, one clear line, no orphan, and every earlier record whole.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.cli.command import Command, gtpbench, records, write_scenario
from tests.markers import ranks, slow

STANDIN = """
name = "faults"
arms = ["none", "symm"]
backend = "standin"
num_ranks = 2
[workload]
collectives = ["all_gather"]
sizes = ["64K", "128K"]
dtypes = ["fp32"]
[measure]
blocks = 2
iters = 4
hot = true
[timeouts]
start_s = 10.0
rendezvous_s = 2.5
communicator_s = 2.5
registration_s = 2.5
first_collective_s = 2.5
warmup_s = 2.5
blocks_s = 2.5
proof_s = 2.5
verify_s = 2.5
teardown_s = 2.5
"""
CPU = STANDIN.replace('"standin"', '"cpu"').replace("_s = 2.5", "_s = 5.0")
# Ranks import torch one after the other on few cores, and the first waits for the last in its rendezvous.
CPU = CPU.replace("start_s = 10.0", "start_s = 60.0").replace("rendezvous_s = 5.0", "rendezvous_s = 30.0")
CPU = CPU.replace("communicator_s = 5.0", "communicator_s = 30.0")


def _run(tmp_path: Path, text: str, fault: str) -> Command:
    path = write_scenario(tmp_path / "s.toml", text)
    return gtpbench("run", path, "--out", "out", cwd=tmp_path, env={"GTPBENCH_TEST_FAULT": fault})


def _by_status(folder: Path) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, list[tuple[str, int]]] = {}
    for record in records(folder):
        found.setdefault(record["status"], []).append((record["arm"], record["case"]["size_bytes"]))
    return found


@ranks
@pytest.mark.parametrize(
    ("stage", "rank"),
    [
        ("registration", 1),
        ("registration", 0),
        ("first_collective", 1),
        ("warmup", 1),
        ("blocks", 1),
        ("blocks", 0),
        ("proof", 1),
        ("verify", 1),
    ],
)
def test_hang_in_a_case_costs_that_cell_only(tmp_path: Path, stage: str, rank: int) -> None:
    """The stuck rank, stage, case and arm are named, stacks are saved, and the rest of the plan is measured."""
    outcome = _run(tmp_path, STANDIN, f"hang stage={stage} rank={rank} arm=symm case=65536").run()
    assert outcome.code == 5
    assert (
        f"rank {rank} stuck in stage {stage}, case all_gather/fp32/65536/n2/out_of_place/hot, arm symm"
        in outcome.stderr
    )
    found = _by_status(tmp_path / "out")
    assert found["timeout"] == [("symm", 65536)]
    assert sorted(found["ok"]) == [("none", 65536), ("none", 131072), ("symm", 131072)]
    stacks = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "logs").iterdir())
    assert "most recent call first" in stacks


@ranks
@pytest.mark.parametrize("stage", ["start", "rendezvous", "communicator"])
def test_hang_before_the_first_case_fails_the_set(tmp_path: Path, stage: str) -> None:
    """Without its ranks a set can measure nothing: every cell says so, once, and the run ends."""
    text = STANDIN.replace("start_s = 10.0", "start_s = 3.0")
    outcome = _run(tmp_path, text, f"hang stage={stage} rank=1").run()
    assert outcome.code == 5
    assert f"rank 1 stuck in stage {stage}, arm none, symm" in outcome.stderr
    assert {status: len(cells) for status, cells in _by_status(tmp_path / "out").items()} == {"timeout": 4}


@ranks
@pytest.mark.parametrize("kind", ["hang", "die"])
def test_ranks_that_do_not_end_cost_no_record_and_no_launch(tmp_path: Path, kind: str) -> None:
    """All cells are on disk before the processes end: the run goes on, reports, and fails with a trace."""
    path = write_scenario(tmp_path / "s.toml", STANDIN)
    env = {"GTPBENCH_TEST_FAULT": f"{kind} stage=teardown rank=1 arm="}
    outcome = gtpbench("run", path, "--launches", "2", "--out", "out", cwd=tmp_path, env=env).run()
    assert outcome.code == 5
    assert "in stage teardown" in outcome.stderr
    assert outcome.stdout.splitlines()[-1].endswith("exit 5 (failed) · out")
    found = records(tmp_path / "out")
    assert [record["status"] for record in found] == ["ok"] * 8
    assert {record["launch"] for record in found} == {0, 1}
    assert "in stage teardown" in (tmp_path / "out" / "logs" / "failures.txt").read_text(encoding="utf-8")


@ranks
@pytest.mark.parametrize("text", [STANDIN, CPU], ids=["one set", "two sets"])
def test_an_arm_that_always_hangs_is_given_up(tmp_path: Path, text: str) -> None:
    """After two failures an arm is not tried again; the other arm is complete, in the same set or another."""
    outcome = _run(tmp_path, text, "hang stage=warmup rank=0 arm=symm always=1").run()
    assert outcome.code == 5
    found = _by_status(tmp_path / "out")
    assert sorted(found["timeout"]) == [("symm", 65536), ("symm", 131072)]
    assert sorted(found["ok"]) == [("none", 65536), ("none", 131072)]


@ranks
def test_killed_rank_is_named(tmp_path: Path) -> None:
    """A rank that dies is named with its signal, not its peers' complaints."""
    outcome = _run(tmp_path, STANDIN, "die stage=blocks rank=1 arm=none case=131072").run()
    assert outcome.code == 5
    assert "rank 1 was ended by SIGKILL, in stage blocks" in outcome.stderr
    found = _by_status(tmp_path / "out")
    assert found["error"] == [("none", 131072)]
    assert len(found["ok"]) == 3


@ranks
def test_failing_rank_is_one_line(tmp_path: Path) -> None:
    """An exception in a rank reaches the user as one line; the traceback is in the rank's log."""
    outcome = _run(tmp_path, STANDIN, "raise stage=warmup rank=1 arm=symm case=65536").run()
    assert outcome.code == 5
    assert "rank 1 failed: RuntimeError: injected fault" in outcome.stderr
    logs = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "logs").iterdir())
    assert "Traceback" in logs


@ranks
def test_wrong_data_carries_no_timings(tmp_path: Path) -> None:
    """One flipped element makes the record `wrong_result`, without samples, and the run a failure."""
    outcome = _run(tmp_path, STANDIN, "corrupt rank=1 arm=symm case=65536").run()
    assert outcome.code == 5
    (wrong,) = [record for record in records(tmp_path / "out") if record["status"] == "wrong_result"]
    assert (wrong["arm"], wrong["samples"], wrong["verification"]["num_wrong"]) == ("symm", {}, 2)
    assert "checked elements are wrong" in outcome.stderr


@ranks
@pytest.mark.parametrize("victim", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_supervisor_leaves_no_orphans(tmp_path: Path, victim: signal.Signals) -> None:
    """However the supervisor ends, its ranks end, and finished records stay whole."""
    command = _run(
        tmp_path, STANDIN.replace("blocks_s = 2.5", "blocks_s = 60.0"), "hang stage=blocks rank=1 case=131072"
    )
    with command.started() as process:
        _wait_for_rank(tmp_path / "out")
        process.send_signal(victim)
        _, stderr = process.communicate(timeout=20)
    assert command.processes() == []
    assert "Traceback" not in stderr
    if victim == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert "interrupted" in stderr
    results = tmp_path / "out" / "results.jsonl"
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else []:
        json.loads(line)


@ranks
def test_ctrl_c_twice_is_quiet(tmp_path: Path) -> None:
    """Two interrupts in a row end like one."""
    command = _run(tmp_path, STANDIN.replace("blocks_s = 2.5", "blocks_s = 60.0"), "hang stage=blocks rank=1")
    with command.started() as process:
        _wait_for_rank(tmp_path / "out")
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert command.processes() == []


@ranks
def test_unequal_allocation_is_found_before_registration(tmp_path: Path) -> None:
    """A rank that allocates in another order is named before anything collective is registered."""
    outcome = _run(tmp_path, CPU, "unequal rank=1 arm=symm case=65536").run()
    assert outcome.code == 5
    assert "rank 1 and rank 0 differ at allocation 0 of the window pool" in outcome.stderr
    assert sorted(_by_status(tmp_path / "out")) == ["error", "ok"]


@ranks
def test_wrong_backend_is_caught_by_the_proof(tmp_path: Path) -> None:
    """An arm that asks for windows and is wired to sockets reads `fell_back`: code 12."""
    outcome = _run(tmp_path, CPU, "backend arm=symm use=gloo").run()
    assert outcome.code == 12
    verdicts = {(r["arm"], r["proof"]["verdict"], r["proof"]["path"]) for r in records(tmp_path / "out")}
    assert verdicts == {("none", "by_construction", "socket"), ("symm", "fell_back", "socket")}


@ranks
@slow
@pytest.mark.parametrize("arm", ["none", "symm"])
@pytest.mark.parametrize("stage", ["registration", "first_collective", "warmup", "blocks", "verify"])
def test_hang_on_real_backends(tmp_path: Path, arm: str, stage: str) -> None:
    """The watchdog works the same on gloo and on windows."""
    outcome = _run(tmp_path, CPU, f"hang stage={stage} rank=1 arm={arm} case=65536").run()
    assert outcome.code == 5
    assert f"rank 1 stuck in stage {stage}, case all_gather/fp32/65536/n2/out_of_place/hot, arm {arm}" in outcome.stderr
    found = _by_status(tmp_path / "out")
    assert found["timeout"] == [(arm, 65536)]
    assert len(found["ok"]) == 3


def _wait_for_rank(folder: Path) -> None:
    """Until the hanging rank is in its hang: its set has written an environment, and a little more."""
    deadline = time.monotonic() + 20
    while not (folder / "environments.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
