"""Two hosts on one machine: network namespaces joined by a veth pair, torchrun in each."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command, records, write_scenario
from tests.markers import ranks, root

SCENARIO = """
name = "hosts"
arms = ["none", "symm"]
backend = "cpu"
[workload]
collectives = ["all_gather"]
sizes = ["64K", "256K"]
[measure]
blocks = 4
time_budget_s = 0.4
[timeouts]
rendezvous_s = 20.0
blocks_s = 8.0
warmup_s = 8.0
registration_s = 8.0
verify_s = 8.0
proof_s = 8.0
teardown_s = 8.0
"""
ADDRESSES = ("10.213.7.1", "10.213.7.2")


class Hosts:
    """Two namespaces; host 0 is the master."""

    def __init__(self) -> None:
        tag = os.getpid() % 10000
        self.names = (f"gtpb{tag}a", f"gtpb{tag}b")

    def create(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        links = [f"v{name}" for name in self.names]
        _ip("link", "add", links[0], "type", "veth", "peer", "name", links[1])
        for name, link, address in zip(self.names, links, ADDRESSES, strict=True):
            _ip("link", "set", link, "netns", name)
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            _ip("-n", name, "link", "set", link, "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def cut(self) -> None:
        """Take host 1 off the network."""
        _ip("-n", self.names[1], "link", "set", f"v{self.names[1]}", "down")

    def torchrun(self, host: int, *words: str | Path, cwd: Path) -> Command:
        """`torchrun … -m gtpbench WORDS` on one host, two processes."""
        launcher = ["ip", "netns", "exec", self.names[host], sys.executable, "-m", "torch.distributed.run"]
        options = ["--nnodes", "2", "--node-rank", str(host), "--nproc-per-node", "2"]
        master = ["--master-addr", ADDRESSES[0], "--master-port", "29611"]
        return Command(words=[*launcher, *options, *master, "-m", "gtpbench", *map(str, words)], cwd=cwd)

    def plain(self, host: int, local_rank: int, *words: str | Path, cwd: Path) -> Command:
        """One process of a launcher that sets only the four variables everybody sets."""
        variables = {
            "RANK": str(2 * host + local_rank),
            "WORLD_SIZE": "4",
            "LOCAL_RANK": str(local_rank),
            "MASTER_ADDR": ADDRESSES[0],
            "MASTER_PORT": "29612",
        }
        launcher = ["ip", "netns", "exec", self.names[host], sys.executable, "-m", "gtpbench"]
        return Command(words=[*launcher, *map(str, words)], cwd=cwd, env=variables)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Two connected hosts, removed afterwards."""
    pair = Hosts()
    pair.remove()
    try:
        pair.create()
        yield pair
    finally:
        pair.remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@root
@ranks
def test_two_by_two_ranks_under_torchrun(tmp_path: Path, hosts: Hosts) -> None:
    """Host 0 plans and writes; windows do not span hosts; gloo's bytes are seen on both hosts' interfaces."""
    path = write_scenario(tmp_path / "s.toml", SCENARIO)
    for host in (0, 1):
        (tmp_path / str(host)).mkdir()
    first = hosts.torchrun(0, "run", path, "--allow-skip", "--out", "out", cwd=tmp_path / "0")
    second = hosts.torchrun(1, "run", path, "--allow-skip", "--out", "out", cwd=tmp_path / "1")
    with first.started() as one, second.started() as two:
        _, stderr = one.communicate(timeout=120)
        other_stdout, other_stderr = two.communicate(timeout=30)
    assert (one.returncode, two.returncode) == (0, 0), stderr + other_stderr
    assert other_stdout == ""
    assert not (tmp_path / "1" / "out").exists()
    found = records(tmp_path / "0" / "out")
    assert {(r["arm"], r["status"]) for r in found} == {("none", "ok"), ("symm", "skipped")}
    assert {r["reason"]["code"] for r in found if r["reason"]} == {"one_host"}
    for record in found:
        if record["status"] == "ok":
            assert (record["proof"]["verdict"], record["proof"]["path"]) == ("by_construction", "socket")
            assert len(record["samples"]["step.host"]["time_us"]) == 4
    environment = json.loads((tmp_path / "0" / "out" / "environments.jsonl").read_text().splitlines()[0])
    assert [place["node"] for place in environment["ranks"]["0"]] == [0, 0, 1, 1]
    assert environment["num_nodes"] == 2
    assert first.processes() == second.processes() == []


@root
@ranks
def test_a_host_cut_off_in_mid_run_ends_both_with_code_5(tmp_path: Path, hosts: Hosts) -> None:
    """Both sides say which stage lost contact, keep what was recorded, and end by their own timeouts."""
    text = SCENARIO.replace("time_budget_s = 0.4", "time_budget_s = 30.0").replace(
        "rendezvous_s = 20.0", "rendezvous_s = 8.0"
    )
    path = write_scenario(tmp_path / "s.toml", text)
    for host in (0, 1):
        (tmp_path / str(host)).mkdir()
    commands = [
        hosts.plain(host, local_rank, "run", path, "--allow-skip", "--out", "out", cwd=tmp_path / str(host))
        for host in (0, 1)
        for local_rank in (0, 1)
    ]
    with commands[0].started() as a, commands[1].started() as b, commands[2].started() as c, commands[3].started() as d:
        deadline = time.monotonic() + 60
        while not (tmp_path / "0" / "out" / "environments.jsonl").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(3)
        hosts.cut()
        outputs = [process.communicate(timeout=90) for process in (a, b, c, d)]
    assert [process.returncode for process in (a, b, c, d)] == [5, 5, 5, 5], outputs
    for _, stderr in outputs:
        assert "Traceback" not in stderr
    assert "stuck in stage" in outputs[0][1] + outputs[2][1]
    for record in records(tmp_path / "0" / "out"):
        assert record["status"] in {"ok", "skipped", "timeout", "error"}
    assert [command.processes() for command in commands] == [[], [], [], []]
