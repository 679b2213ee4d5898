"""Attaching to a launcher: its variables, and how the processes of one host meet."""

import contextlib
import json
import multiprocessing
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from gtpbench.errors import ExitCode, RunError, UsageError
from gtpbench.launch import attach
from gtpbench.launch.attach import Attached, Peers, attached, first_host, wait_for_supervisor
from gtpbench.launch.place import Place

TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_RANK": "5",
    "ROLE_WORLD_SIZE": "8",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29511",
    "TORCHELASTIC_RUN_ID": "job7",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
"""What torchrun --nnodes 2 --nproc-per-node 4 sets for local rank 1 of the second node."""
SRUN = {
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_STEP_NODELIST": "gpu[07-09,12]",
}
"""What srun -N 2 --ntasks-per-node 4 sets for the same process."""
PLAIN = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


def _without(variables: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in names}


def test_torchruns_variables() -> None:
    """The agent serves a store, the node is the group's rank, restarts are jobs of their own."""
    assert Attached(
        launcher="torchrun",
        rank=5,
        world_size=8,
        local_rank=1,
        local_size=4,
        node=1,
        num_nodes=2,
        master_address="node0",
        master_port=29511,
        agent_store=True,
        job="job7.0.29511",
    ) == attached(TORCHRUN)


def test_torchrun_without_an_agent_store() -> None:
    """Then rank 0 serves it."""
    found = attached({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "False"})
    assert found is not None
    assert not found.agent_store


def test_sruns_variables() -> None:
    """The first host of the step is the master; the port follows from the job (29500 + 456)."""
    assert Attached(
        launcher="slurm",
        rank=5,
        world_size=8,
        local_rank=1,
        local_size=4,
        node=1,
        num_nodes=2,
        master_address="gpu07",
        master_port=29956,
        agent_store=False,
        job="123456.0",
    ) == attached(SRUN)


def test_variables_of_the_user_go_before_slurms() -> None:
    """MASTER_ADDR and MASTER_PORT may be exported."""
    found = attached({**SRUN, "MASTER_ADDR": "ib0", "MASTER_PORT": "1234"})
    assert found is not None
    assert ("ib0", 1234) == (found.master_address, found.master_port)


def test_torchs_variables_go_before_slurms() -> None:
    """torchrun inside a Slurm step is torchrun."""
    found = attached({**SRUN, **TORCHRUN})
    assert found is not None
    assert "torchrun" == found.launcher


def test_the_least_that_a_launcher_must_say() -> None:
    """Four variables; the size of the host is then not known, and the port is torch's usual one."""
    found = attached(PLAIN)
    assert found is not None
    assert ("env", None, None, None, 29500, False) == (
        found.launcher,
        found.local_size,
        found.node,
        found.num_nodes,
        found.master_port,
        found.agent_store,
    )


def test_mpi_tells_the_local_size() -> None:
    """Open MPI's variable stands in where LOCAL_WORLD_SIZE is missing."""
    found = attached({**PLAIN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert found is not None
    assert 2 == found.local_size


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"MASTER_ADDR": "x", "MASTER_PORT": "1"},
        {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8"},
        {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"},
    ],
)
def test_without_a_launcher_there_is_none(environ: dict[str, str]) -> None:
    """A Slurm allocation without a step is none either."""
    assert attached(environ) is None


@pytest.mark.parametrize("name", ["WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"])
@pytest.mark.parametrize("empty", [False, True])
def test_missing_torch_variables_are_named(name: str, empty: bool) -> None:
    """An empty value is a missing one."""
    environ = {**PLAIN, name: ""} if empty else _without(PLAIN, name)
    with pytest.raises(
        UsageError, match=rf"launcher variables missing: {name} \(a launcher sets all of them, or none\)"
    ):
        attached(environ)


def test_a_missing_rank_is_named() -> None:
    """WORLD_SIZE and LOCAL_RANK alone look like a launcher."""
    with pytest.raises(UsageError, match="launcher variables missing: RANK "):
        attached(_without(PLAIN, "RANK"))


@pytest.mark.parametrize("name", ["SLURM_LOCALID", "SLURM_STEP_NODELIST"])
def test_missing_slurm_variables_are_named(name: str) -> None:
    """With what to do."""
    with pytest.raises(UsageError, match=f"launcher variables missing: {name}; start gtpbench with srun"):
        attached(_without(SRUN, name))


def test_a_slurm_step_must_tell_its_size() -> None:
    """The step's own number, else the job's."""
    assert attached(_without(SRUN, "SLURM_STEP_NUM_TASKS")) == attached(SRUN)
    with pytest.raises(UsageError, match="SLURM_STEP_NUM_TASKS or SLURM_NTASKS"):
        attached(_without(SRUN, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "GROUP_RANK"])
@pytest.mark.parametrize("text", ["x", "-1", "1.0", " 1", "1e1"])
def test_what_is_no_number_is_quoted(name: str, text: str) -> None:
    """Variable and value."""
    with pytest.raises(UsageError, match=f"{name}='{text}' is not a whole number"):
        attached({**TORCHRUN, name: text})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"RANK": "8"}, "rank 8 of 8"),
        ({"WORLD_SIZE": "5"}, "rank 5 of 5"),
        ({"WORLD_SIZE": "0", "RANK": "0"}, "rank 0 of 0"),
        ({"LOCAL_RANK": "4"}, "local rank 4 of 4 on this host"),
        ({"LOCAL_WORLD_SIZE": "9"}, "local rank 1 of 9 on this host, 8 in all"),
        ({"LOCAL_RANK": "3", "RANK": "2"}, "local rank 3, rank 2"),
        ({"GROUP_RANK": "2"}, "node 2 of 2"),
        ({"GROUP_WORLD_SIZE": "9"}, "node 1 of 9, 8 ranks in all"),
    ],
)
def test_contradictions_are_told(changed: dict[str, str], told: str) -> None:
    """With the numbers that cannot go together."""
    with pytest.raises(UsageError, match=f"contradict one another: {told}"):
        attached({**TORCHRUN, **changed})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"SLURM_PROCID": "8"}, "rank 8 of 8"),
        ({"SLURM_LOCALID": "4"}, "local rank 4 of 4 on this host"),
        ({"SLURM_NODEID": "2"}, "node 2 of 2"),
    ],
)
def test_slurms_contradictions_are_told(changed: dict[str, str], told: str) -> None:
    """As torch's."""
    with pytest.raises(UsageError, match=told):
        attached({**SRUN, **changed})


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("login1", "login1"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("gpu[3]", "gpu3"),
        ("gpu[3,5]", "gpu3"),
        ("gpu-a,gpu-b", "gpu-a"),
        ("gpu[0001-1024]", "gpu0001"),
        ("rack[2-3]n[01-04]", "rack2n01"),
        ("a.example.org", "a.example.org"),
        ("n[1-2]-ib,x", "n1-ib"),
    ],
)
def test_first_host_of_a_node_list(nodelist: str, host: str) -> None:
    """Leading zeros stay; several ranges each give their first."""
    assert host == first_host(nodelist)


@pytest.mark.parametrize("nodelist", ["", "[1-2", "gpu[", ",a", "gpu[a-b]"])
def test_a_node_list_without_a_host_is_refused(nodelist: str) -> None:
    """It is quoted."""
    with pytest.raises(UsageError, match="names no host"):
        first_host(nodelist)


@pytest.mark.parametrize(
    ("tasks", "node", "local_size"),
    [
        ("4(x2)", 1, 4),
        ("4", 0, 4),
        ("4(x2),3", 2, 3),
        ("2,4(x3)", 0, 2),
        ("2,4(x3)", 3, 4),
        ("1(x1)", 0, 1),
        ("4", 1, None),
    ],
)
def test_tasks_of_this_node(tasks: str, node: int, local_size: int | None) -> None:
    """`4(x2),3` are two nodes of four and one of three; beyond the list the size is not known."""
    changed = {"SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": str(node), "SLURM_LOCALID": "0"}
    found = attached({**_without(SRUN, "SLURM_STEP_NUM_NODES"), **changed})
    assert found is not None
    assert local_size == found.local_size


@pytest.mark.parametrize("missing", ["SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"])
def test_without_a_list_of_tasks_or_a_node_the_local_size_is_not_known(missing: str) -> None:
    """The ranks of the host are then counted as they come."""
    found = attached(_without(SRUN, missing))
    assert found is not None
    assert found.local_size is None


def test_a_bad_list_of_tasks_is_refused() -> None:
    """It is quoted."""
    with pytest.raises(UsageError, match=r"SLURM_STEP_TASKS_PER_NODE='4\(x\)' is not a list"):
        attached({**SRUN, "SLURM_STEP_TASKS_PER_NODE": "4(x)"})


# The processes of one host


@pytest.fixture
def variables() -> Callable[..., dict[str, str]]:
    """torchrun's variables of local rank r on the second of two nodes with two ranks each; a job of its own."""
    job = uuid.uuid4().hex

    def make(local_rank: int, **changed: str) -> dict[str, str]:
        return {
            **TORCHRUN,
            "WORLD_SIZE": "4",
            "LOCAL_WORLD_SIZE": "2",
            "RANK": str(2 + local_rank),
            "LOCAL_RANK": str(local_rank),
            "TORCHELASTIC_RUN_ID": job,
            **changed,
        }

    return make


Variables = Callable[..., dict[str, str]]


def _me(variables: dict[str, str]) -> Attached:
    found = attached(variables)
    assert found is not None
    return found


class Waiting:
    """A process that waits for its supervisor, in a thread."""

    def __init__(self, me: Attached, digest: str = "d") -> None:
        self.outcome: Any = None
        self._thread = threading.Thread(target=self._wait, args=(me, digest))
        self._thread.start()

    def _wait(self, me: Attached, digest: str) -> None:
        try:
            self.outcome = wait_for_supervisor(me, run_digest=digest)
        except RunError as error:
            self.outcome = error

    def end(self) -> Any:
        """Its exit code or error."""
        self._thread.join(5.0)
        assert not self._thread.is_alive()
        return self.outcome


@contextlib.contextmanager
def _peers(me: Attached, digest: str = "d") -> Iterator[Peers]:
    peers = Peers(me, run_digest=digest)
    try:
        yield peers
    finally:
        peers.close()
        peers.close()


def test_a_host_is_described_once_all_have_come(variables: Variables) -> None:
    """Rank numbers by local rank; the store of the launcher's agent; the code reaches everyone."""
    with _peers(_me(variables(0))) as peers:
        other = Waiting(_me(variables(1)))
        place = peers.gather()
        peers.release(ExitCode.NOT_AS_ASKED)
        assert ExitCode.NOT_AS_ASKED is other.end()
    job = variables(0)["TORCHELASTIC_RUN_ID"]
    assert place == Place(
        launcher="torchrun",
        node=1,
        num_nodes=2,
        world_size=4,
        global_ranks=(2, 3),
        master_address="node0",
        master_port=29511,
        agent_store=True,
        store_prefix=f"gtpbench/{job}.0.29511",
    )
    assert not place.decides


def test_ranks_may_come_before_the_supervisor_and_in_any_order(variables: Variables) -> None:
    """They try until it listens."""
    sizes = {"LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "6"}
    waiting = [Waiting(_me(variables(local, RANK=str(3 + local), **sizes))) for local in (2, 1)]
    with _peers(_me(variables(0, RANK="3", **sizes))) as peers:
        assert (3, 4, 5) == peers.gather().global_ranks
        peers.release(ExitCode.OK)
        assert [ExitCode.OK, ExitCode.OK] == [one.end() for one in waiting]


def test_the_exit_code_crosses_processes(variables: Variables) -> None:
    """A real process of its own, as a launcher starts it."""
    with _peers(_me(variables(0))) as peers:
        child = multiprocessing.get_context("fork").Process(target=_child, args=(_me(variables(1)),))
        child.start()
        peers.gather()
        peers.release(ExitCode.REGRESSED)
        child.join(5.0)
        assert 10 == child.exitcode


def _child(me: Attached) -> None:
    os._exit(int(wait_for_supervisor(me, run_digest="d")))


def test_a_supervisor_that_ends_without_a_code_is_a_failure(variables: Variables) -> None:
    """Killed, say: the others do not wait for ever."""
    with _peers(_me(variables(0))) as peers:
        other = Waiting(_me(variables(1)))
        peers.gather()
    outcome = other.end()
    assert isinstance(outcome, RunError)
    assert str(outcome) == "local rank 1: the supervisor of this host ended without an exit code"


def test_a_supervisor_that_ends_before_it_listened_to_a_rank_is_a_failure(variables: Variables) -> None:
    """Its socket closes with the rank's words unread: the same message, no traceback."""
    with _peers(_me(variables(0))) as peers:
        other = Waiting(_me(variables(1)))
        threading.Event().wait(0.15)
        peers.close()
    assert isinstance(other.end(), RunError)


def test_without_a_supervisor_a_rank_gives_up(monkeypatch: pytest.MonkeyPatch, variables: Variables) -> None:
    """And says whom it missed."""
    monkeypatch.setattr(attach, "PEER_TIMEOUT_S", 0.02)
    with pytest.raises(RunError, match="local rank 1: no process with local rank 0 on this host"):
        wait_for_supervisor(_me(variables(1)), run_digest="d")


def test_a_rank_that_does_not_come_is_missed(monkeypatch: pytest.MonkeyPatch, variables: Variables) -> None:
    """How many of how many."""
    monkeypatch.setattr(attach, "PEER_TIMEOUT_S", 0.05)
    with _peers(_me(variables(0))) as peers, pytest.raises(RunError, match="1 of 2 processes of this host came"):
        peers.gather()


def test_without_a_local_size_quiet_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the four ranks are here; nodes and their number follow from that."""
    monkeypatch.setattr(attach, "_QUIET_S", 0.15)
    plain = {"WORLD_SIZE": "4", "MASTER_ADDR": uuid.uuid4().hex}
    with _peers(_me({**plain, "RANK": "2", "LOCAL_RANK": "0"})) as peers:
        other = Waiting(_me({**plain, "RANK": "3", "LOCAL_RANK": "1"}))
        place = peers.gather()
        peers.release(ExitCode.OK)
        other.end()
    assert (1, 2, (2, 3)) == (place.node, place.num_nodes, place.global_ranks)


@pytest.mark.parametrize(
    ("changed", "digest", "told"),
    [
        ({}, "other", "ranks disagree: rank 3 was started with scenario other, rank 2 with d"),
        ({"WORLD_SIZE": "6"}, "d", "WORLD_SIZE is 6 on rank 3 and 4 here"),
        ({"RANK": "2"}, "d", r"rank 2 \(local rank 1\) came twice"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3"}, "d", r"local ranks of this host are \[0, 2\], not 0 to 1"),
    ],
)
def test_ranks_that_contradict_the_supervisor_are_refused(
    variables: Variables, changed: dict[str, str], digest: str, told: str
) -> None:
    """Both sides are named, and the refused rank ends with the supervisor's code."""
    with _peers(_me(variables(0))) as peers:
        other = Waiting(_me(variables(1, **changed)), digest)
        with pytest.raises(UsageError, match=told):
            peers.gather()
        peers.release(ExitCode.USAGE)
        assert ExitCode.USAGE is other.end()


def test_two_supervisors_of_one_job_on_one_host_are_refused(variables: Variables) -> None:
    """A launcher that gives LOCAL_RANK=0 to two processes of a host; another job does not matter."""
    with _peers(_me(variables(0))):
        with pytest.raises(UsageError, match="two processes of this host have local rank 0"):
            Peers(_me(variables(0)), run_digest="d")
        with _peers(_me(variables(0, TORCHELASTIC_RESTART_COUNT="1"))):
            pass


def test_a_job_can_be_started_again(variables: Variables) -> None:
    """Nothing of the socket stays behind."""
    for _ in range(2):
        with _peers(_me(variables(0))):
            pass


@pytest.mark.parametrize("said", [b"", b"hello\n", b'{"rank": 3'])
def test_a_process_that_dies_before_it_told_its_rank_is_a_failure(variables: Variables, said: bytes) -> None:
    """Not a traceback."""
    me = _me(variables(0))
    with _peers(me) as peers, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(attach._socket_name(me))
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with pytest.raises(RunError, match="went away before it told its rank"):
            peers.gather()


def test_a_rank_that_died_meanwhile_does_not_stop_the_others(variables: Variables) -> None:
    """The code is told to whoever still listens."""
    sizes = {"LOCAL_WORLD_SIZE": "3", "WORLD_SIZE": "6"}
    me = _me(variables(0, RANK="3", **sizes))
    with _peers(me) as peers:
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dead.connect(attach._socket_name(me))
        dead.sendall(json.dumps({"rank": 4, "local_rank": 1, "world_size": 6, "digest": "d"}).encode() + b"\n")
        other = Waiting(_me(variables(2, RANK="5", **sizes)))
        assert (3, 4, 5) == peers.gather().global_ranks
        dead.close()
        peers.release(ExitCode.FAILED)
        assert ExitCode.FAILED is other.end()
