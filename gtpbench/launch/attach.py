"""Attaching to a launcher: torchrun, srun, or anything that sets RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR.

The process with local rank 0 supervises its node; the others tell it their rank and wait for its exit code. They meet
on a socket in the abstract namespace, which leaves nothing behind and stays within the host.
"""

import contextlib
import json
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from gtpbench.errors import ExitCode, RunError, UsageError
from gtpbench.launch.place import Place

PEER_TIMEOUT_S = 60.0
_QUIET_S = 5.0
"""Without a local world size, the local ranks are complete when no further one came for so long."""
_DEFAULT_PORT = 29500


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What the launcher's variables say of this process."""

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int | None
    node: int | None
    num_nodes: int | None
    master_address: str
    master_port: int
    agent_store: bool
    job: str
    """Distinguishes runs that share a host."""


def attached(environ: Mapping[str, str]) -> Attached | None:
    """The launcher's description of this process, or None where no launcher started it.

    Raises:
        UsageError: variables are missing, no whole numbers, or contradict one another.
    """
    if any(name in environ for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")):
        found = _from_torch_variables(environ)
    elif "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        found = _from_slurm(environ)
    else:
        return None
    _check(found)
    # A shell inside `srun --pty` looks like a step of one task; nobody launches one rank to communicate.
    return None if found.launcher == "slurm" and found.world_size == 1 else found


def wait_for_supervisor(me: Attached, *, run_digest: str) -> ExitCode:
    """Tell the node's supervisor who this is, and return the exit code it ends with.

    Raises:
        RunError: there is no supervisor, or it went away.
    """
    deadline = time.monotonic() + PEER_TIMEOUT_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        while True:
            try:
                connection.connect(_socket_name(me))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RunError(
                        f"local rank {me.local_rank}: no process with local rank 0 on this host within "
                        f"{PEER_TIMEOUT_S:.0f} s"
                    ) from error
                time.sleep(0.05)
        hello = {"rank": me.rank, "local_rank": me.local_rank, "world_size": me.world_size, "digest": run_digest}
        try:
            connection.sendall(json.dumps(hello).encode() + b"\n")
            answer = connection.makefile().readline()
        except OSError:  # it closed its socket before it read the line
            answer = ""
    if not answer:
        raise RunError(f"local rank {me.local_rank}: the supervisor of this host ended without an exit code")
    return ExitCode(int(answer))


class Peers:
    """The supervisor's side: the other local ranks of this node."""

    def __init__(self, me: Attached, *, run_digest: str) -> None:
        """Listen.

        Raises:
            UsageError: another run with the same launcher variables listens on this host.
        """
        self._me = me
        self._digest = run_digest
        self._connections: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._server.bind(_socket_name(me))
        except OSError as error:
            self._server.close()
            raise UsageError(
                "two processes of this host have local rank 0 of the same job: check LOCAL_RANK and the launcher"
            ) from error
        self._server.listen(1024)

    def gather(self) -> Place:
        """Wait for the other local ranks and describe this node.

        Raises:
            UsageError: their variables or their runs contradict this one's.
            RunError: not all came in time.
        """
        me = self._me
        ranks = {0: me.rank}
        deadline = time.monotonic() + PEER_TIMEOUT_S
        while not self._complete(ranks):
            quiet = _QUIET_S if me.local_size is None else deadline - time.monotonic()
            self._server.settimeout(max(quiet, 0.01))
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                if me.local_size is None:
                    break
                raise RunError(
                    f"{len(ranks)} of {me.local_size} processes of this host came within {PEER_TIMEOUT_S:.0f} s"
                ) from None
            self._connections.append(connection)
            connection.settimeout(PEER_TIMEOUT_S)
            try:
                hello = json.loads(connection.makefile().readline())
            except (OSError, ValueError) as error:
                raise RunError("a process of this host went away before it told its rank") from error
            self._admit(hello, ranks)
        return self._place(ranks)

    def release(self, code: ExitCode) -> None:
        """Tell every waiting process the exit code, those that came late too."""
        self._server.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                self._connections.append(self._server.accept()[0])
        for connection in self._connections:
            try:
                connection.sendall(f"{int(code)}\n".encode())
            except OSError:
                continue

    def close(self) -> None:
        """Close all sockets. May be called twice."""
        for connection in self._connections:
            connection.close()
        self._server.close()

    def _complete(self, ranks: dict[int, int]) -> bool:
        return len(ranks) == (self._me.local_size or self._me.world_size)

    def _admit(self, hello: dict[str, int | str], ranks: dict[int, int]) -> None:
        if hello["digest"] != self._digest:
            raise UsageError(
                f"ranks disagree: rank {hello['rank']} was started with scenario {hello['digest']}, "
                f"rank {self._me.rank} with {self._digest}; start all ranks with the same command"
            )
        if hello["world_size"] != self._me.world_size:
            raise UsageError(
                f"WORLD_SIZE is {hello['world_size']} on rank {hello['rank']} and {self._me.world_size} here"
            )
        local_rank = int(hello["local_rank"])
        if local_rank in ranks or int(hello["rank"]) in ranks.values():
            raise UsageError(f"rank {hello['rank']} (local rank {local_rank}) came twice on this host")
        ranks[local_rank] = int(hello["rank"])

    def _place(self, ranks: dict[int, int]) -> Place:
        me, size = self._me, len(ranks)
        if sorted(ranks) != list(range(size)):
            raise UsageError(f"local ranks of this host are {sorted(ranks)}, not 0 to {size - 1}")
        num_nodes = me.num_nodes or -(-me.world_size // size)
        return Place(
            launcher=me.launcher,
            node=me.node if me.node is not None else me.rank // size,
            num_nodes=num_nodes,
            world_size=me.world_size,
            global_ranks=tuple(ranks[local_rank] for local_rank in range(size)),
            master_address=me.master_address,
            master_port=me.master_port,
            agent_store=me.agent_store,
            store_prefix=f"gtpbench/{me.job}",
        )


def _from_torch_variables(environ: Mapping[str, str]) -> Attached:
    missing = [name for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR") if not environ.get(name)]
    if missing:
        raise UsageError(f"launcher variables missing: {', '.join(missing)} (a launcher sets all of them, or none)")
    torchrun = "TORCHELASTIC_RUN_ID" in environ
    agent_store = environ.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true"
    local_size = _optional_number(environ, "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    num_nodes = _optional_number(environ, "GROUP_WORLD_SIZE")
    port = _optional_number(environ, "MASTER_PORT") or _DEFAULT_PORT
    job = [environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("TORCHELASTIC_RESTART_COUNT", ""), str(port)]
    return Attached(
        launcher="torchrun" if torchrun else "env",
        rank=_number(environ, "RANK"),
        world_size=_number(environ, "WORLD_SIZE"),
        local_rank=_number(environ, "LOCAL_RANK"),
        local_size=local_size,
        node=_optional_number(environ, "GROUP_RANK"),
        num_nodes=num_nodes,
        master_address=environ["MASTER_ADDR"],
        master_port=port,
        agent_store=agent_store,
        job=".".join(part for part in job if part),
    )


def _from_slurm(environ: Mapping[str, str]) -> Attached:
    missing = [name for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NODELIST") if not environ.get(name)]
    if missing:
        raise UsageError(f"launcher variables missing: {', '.join(missing)}; start gtpbench with srun")
    world_size = _optional_number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if world_size is None:
        raise UsageError("launcher variables missing: SLURM_STEP_NUM_TASKS or SLURM_NTASKS")
    job_id = environ.get("SLURM_JOB_ID", "0")
    port = _optional_number(environ, "MASTER_PORT")
    if port is None:
        port = _DEFAULT_PORT + int(re.sub(r"\D", "", job_id) or 0) % 1000
    node = _number(environ, "SLURM_NODEID") if "SLURM_NODEID" in environ else None
    return Attached(
        launcher="slurm",
        rank=_number(environ, "SLURM_PROCID"),
        world_size=world_size,
        local_rank=_number(environ, "SLURM_LOCALID"),
        local_size=_slurm_local_size(environ, node),
        node=node,
        num_nodes=_optional_number(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
        master_address=environ.get("MASTER_ADDR") or first_host(environ["SLURM_STEP_NODELIST"]),
        master_port=port,
        agent_store=False,
        job=f"{job_id}.{environ['SLURM_STEP_ID']}",
    )


def first_host(nodelist: str) -> str:
    """First host of a Slurm node list: `gpu[07-09,12],login1` gives `gpu07`, `rack[2-3]n[01-04]` gives `rack2n01`."""
    match = re.match(r"(?:[^\[\],\s]|\[\d[^\[\]]*\])+(?=,|$)", nodelist)
    if match is None:
        raise UsageError(f"SLURM_STEP_NODELIST={nodelist!r} names no host")
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", match[0])


def _slurm_local_size(environ: Mapping[str, str], node: int | None) -> int | None:
    """This node's entry in a list such as `4(x2),3`."""
    text = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE")
    if not text or node is None:
        return None
    sizes: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise UsageError(f"SLURM_STEP_TASKS_PER_NODE={text!r} is not a list of task counts")
        sizes += [int(match[1])] * int(match[2] or 1)
    return sizes[node] if node < len(sizes) else None


def _check(me: Attached) -> None:
    if not 1 <= me.master_port <= 65535:
        raise UsageError(f"MASTER_PORT={me.master_port} is not a port: 1 to 65535")
    if not 0 <= me.rank < me.world_size:
        raise UsageError(f"launcher variables contradict one another: rank {me.rank} of {me.world_size}")
    if me.local_size is not None and not me.local_rank < me.local_size <= me.world_size:
        raise UsageError(
            f"launcher variables contradict one another: local rank {me.local_rank} of {me.local_size} on this host, "
            f"{me.world_size} in all"
        )
    if me.node is not None and me.num_nodes is not None and not me.node < me.num_nodes <= me.world_size:
        raise UsageError(
            f"launcher variables contradict one another: node {me.node} of {me.num_nodes}, {me.world_size} ranks in all"
        )
    if me.local_rank > me.rank:
        raise UsageError(f"launcher variables contradict one another: local rank {me.local_rank}, rank {me.rank}")


def _socket_name(me: Attached) -> str:
    return f"\0gtpbench/{os.getuid()}/{me.launcher}/{me.master_address}/{me.job}"


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    if not re.fullmatch(r"\d+", text):
        raise UsageError(f"{name}={text!r} is not a whole number")
    return int(text)


def _optional_number(environ: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        if environ.get(name):
            return _number(environ, name)
    return None
