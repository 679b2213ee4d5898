"""What may spoil a run is said before it is measured, once, and kept with the environment."""

import json
from pathlib import Path

from tests.cli.command import gtpbench, write_scenario
from tests.markers import ranks

GLOO = """
name = "watched"
arms = ["none"]
backend = "gloo"
num_ranks = 2
[workload]
collectives = ["all_gather"]
sizes = ["64K"]
[measure]
blocks = 2
iters = 4
launches = 2
hot = true
"""
SAID = "gtpbench: warning: TORCH_DISTRIBUTED_DEBUG=INFO: torch checks its collectives, and times include that; unset"


@ranks
def test_a_finding_is_printed_once_and_stored_with_every_launch(tmp_path: Path) -> None:
    """On stderr, in one line; stdout and the exit code are as ever."""
    path = write_scenario(tmp_path / "s.toml", GLOO)
    watched = {"TORCH_DISTRIBUTED_DEBUG": "INFO"}
    outcome = gtpbench("run", path, "--out", "out", cwd=tmp_path, env=watched).run()
    assert outcome.code == 0, outcome.stderr
    assert [True] == [line.startswith(SAID) for line in outcome.stderr.splitlines() if "warning" in line]
    lines = (tmp_path / "out" / "environments.jsonl").read_text(encoding="utf-8").splitlines()
    assert [["torch_debug"]] * 2 == [[item["code"] for item in json.loads(line)["findings"]] for line in lines]


@ranks
def test_what_concerns_nccl_alone_is_not_told_to_cpu_ranks(tmp_path: Path) -> None:
    """Nothing is printed and nothing stored."""
    path = write_scenario(tmp_path / "s.toml", GLOO)
    variables = {"NCCL_ALGO": "Ring", "NCCL_DEBUG": "TRACE", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    outcome = gtpbench("run", path, "--launches", "1", "--out", "out", cwd=tmp_path, env=variables).run()
    assert outcome.code == 0, outcome.stderr
    assert "warning" not in outcome.stderr
    (line,) = (tmp_path / "out" / "environments.jsonl").read_text(encoding="utf-8").splitlines()
    assert [] == json.loads(line)["findings"]


def test_ranks_that_share_a_gpu_are_for_gpus(tmp_path: Path) -> None:
    """On CPU ranks the flag is a mistake, said before anything starts."""
    words = ("allgather", "--backend", "cpu", "--ranks-per-gpu", "2", "--out", "out")
    outcome = gtpbench(*words, cwd=tmp_path).run()
    assert (2, "") == (outcome.code, outcome.stdout)
    assert outcome.stderr == "gtpbench: error: ranks_per_gpu = 2: cpu ranks use no GPU; leave it out\n"
    assert not (tmp_path / "out").exists()
