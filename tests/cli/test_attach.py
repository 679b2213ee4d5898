"""The same command under launchers on one host."""

import sys
from pathlib import Path

import pytest

from tests.cli.command import Command, Outcome, gtpbench, records, write_scenario
from tests.markers import ranks

SCENARIO = """
name = "attach"
arms = ["none", "symm"]
backend = "cpu"
[workload]
collectives = ["all_gather"]
sizes = ["64K"]
[measure]
blocks = 2
iters = 4
[timeouts]
rendezvous_s = 30.0
"""


def _together(commands: list[Command]) -> list[Outcome]:
    """Run all commands at the same time."""
    processes = []
    contexts = [command.started() for command in commands]
    try:
        processes = [context.__enter__() for context in contexts]
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for context in contexts:
            context.__exit__(None, None, None)
    for command in commands:
        assert command.processes() == []
    return [
        Outcome(code=process.returncode, stdout=stdout, stderr=stderr, seconds=0.0)
        for process, (stdout, stderr) in zip(processes, outputs, strict=True)
    ]


def _env_launcher(rank: int, port: int, **more: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }


def _slurm(rank: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "localhost",
    }


@ranks
def test_torchrun_gives_the_same_set_of_records_as_the_builtin_start(tmp_path: Path) -> None:
    """Cases, arms, statuses and plan are equal; only the launcher differs."""
    words = ["allgather", "--symm", "-b", "64K", "-e", "256K", "--time-budget", "0.2"]
    builtin = gtpbench(*words, "--num-ranks", "2", "--out", "builtin", cwd=tmp_path).run()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "gtpbench"]
    attached = Command(words=[*launcher, *words, "--out", "attached"], cwd=tmp_path).run()
    assert (builtin.code, attached.code) == (0, 0), attached.stderr
    sets = [
        {(r["case_id"], r["arm"], r["status"], r["proof"]["path"], r["plan_digest"]) for r in records(tmp_path / name)}
        for name in ("builtin", "attached")
    ]
    assert sets[0] == sets[1]
    assert '"launcher":"torchrun"' in (tmp_path / "attached" / "environments.jsonl").read_text(encoding="utf-8")


@ranks
@pytest.mark.parametrize("launcher", ["env", "slurm"])
def test_other_launchers(tmp_path: Path, launcher: str) -> None:
    """Four variables are enough, and srun's own are understood; only rank 0 prints and writes."""
    path = write_scenario(tmp_path / "s.toml", SCENARIO)
    commands = [
        gtpbench(
            "run",
            path,
            "--out",
            "out",
            cwd=tmp_path,
            env=_slurm(rank) if launcher == "slurm" else _env_launcher(rank, 29621),
        )
        for rank in (0, 1)
    ]
    first, second = _together(commands)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert second.stdout == ""
    assert {(r["arm"], r["status"]) for r in records(tmp_path / "out")} == {("none", "ok"), ("symm", "ok")}
    assert f'"launcher":"{launcher}"' in (tmp_path / "out" / "environments.jsonl").read_text(encoding="utf-8")


@ranks
def test_every_process_ends_with_the_same_code(tmp_path: Path) -> None:
    """A skipped arm is code 12 on all ranks."""
    words = ("allgather", "--arm", "none,symm:ce", "-b", "64K", "-e", "64K", "--time-budget", "0.1", "--out", "out")
    outcomes = _together([gtpbench(*words, cwd=tmp_path, env=_env_launcher(rank, 29622)) for rank in (0, 1)])
    assert [outcome.code for outcome in outcomes] == [12, 12]


def test_ranks_of_one_host_must_mean_the_same_run(tmp_path: Path) -> None:
    """Another scenario on one rank is refused on both, before anything starts."""
    commands = [
        gtpbench("allgather", "-b", size, "-e", size, cwd=tmp_path, env=_env_launcher(rank, 29623))
        for rank, size in enumerate(("64K", "128K"))
    ]
    outcomes = _together(commands)
    assert [outcome.code for outcome in outcomes] == [2, 2]
    assert "ranks disagree" in outcomes[0].stderr


@ranks
def test_hosts_must_mean_the_same_run(tmp_path: Path) -> None:
    """Two hosts (here one, told that it is two) compare scenarios when they meet."""
    for host in (0, 1):
        (tmp_path / str(host)).mkdir()
    commands = [
        gtpbench(
            "allgather",
            "-b",
            "64K",
            "-e",
            "64K",
            "--seed",
            str(host),
            cwd=tmp_path / str(host),
            env={
                **_env_launcher(host, 29624),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "GROUP_RANK": str(host),
                "GROUP_WORLD_SIZE": "2",
                # Another spelling of the same address: the two "hosts" share a machine, but not a supervisor.
                "MASTER_ADDR": ("127.0.0.1", "localhost")[host],
            },
        )
        for host in (0, 1)
    ]
    outcomes = _together(commands)
    assert [outcome.code for outcome in outcomes] == [2, 2], outcomes
    assert "ranks disagree: rank 1" in outcomes[0].stderr + outcomes[1].stderr


@ranks
def test_unreachable_master_is_named(tmp_path: Path) -> None:
    """Nobody listens at the master's port: the address is in the message, code 5."""
    path = write_scenario(tmp_path / "s.toml", SCENARIO.replace("rendezvous_s = 30.0", "rendezvous_s = 4.0"))
    variables = _env_launcher(1, 29625, LOCAL_WORLD_SIZE="1", GROUP_RANK="1", GROUP_WORLD_SIZE="2")
    outcome = gtpbench("run", path, cwd=tmp_path, env={**variables, "LOCAL_RANK": "0"}).run()
    assert outcome.code == 5
    assert "cannot reach the run's store at 127.0.0.1:29625" in outcome.stderr


def test_a_missing_local_rank_is_noticed(tmp_path: Path) -> None:
    """A process that finds no supervisor on its host says so instead of waiting for ever."""
    variables = _env_launcher(1, 29626)
    command = gtpbench("allgather", "-b", "64K", "-e", "64K", cwd=tmp_path, env=variables)
    with command.started() as process:
        try:
            process.communicate(timeout=3)
        except Exception:  # noqa: BLE001 - it is expected to wait
            process.terminate()
        _, stderr = process.communicate(timeout=10)
    assert "Traceback" not in stderr
