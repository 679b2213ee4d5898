"""How a rank meets the others and leaves them: exchange, agreement on the run, places, exit code."""

from typing import Any

from gtpbench import __version__
from gtpbench.errors import RunError, UsageError
from gtpbench.launch import probe
from gtpbench.launch.pipe_exchange import PipeExchange
from gtpbench.launch.rank import FOREVER_S, Live, MarkedExchange, Rank
from gtpbench.measure.calibrate import Counts
from gtpbench.measure.ranks import Ranks


def join(rank: Rank) -> None:
    """Connect to the run's exchange and make sure that all ranks mean the same run."""
    spec = rank.spec
    timeout_s = spec.scenario.timeouts.rendezvous_s
    if spec.store.kind == "pipe":
        inner: Any = PipeExchange(rank.events, rank.control)
    else:
        from gtpbench.backends.exchange import TcpExchange
        from gtpbench.backends.tcp_store import open_store

        serve = spec.store.kind == "host"
        port = spec.store.port if serve or spec.store.port else _port_of_host(rank)
        # Shorter than the stage, so that this error names the address before the watchdog names the stage.
        store, port = open_store(spec.store.address, port, serve=serve, timeout_s=0.75 * timeout_s)
        inner = TcpExchange(store, prefix=f"{spec.store.prefix}/{spec.launch}.{spec.attempt}")
        if serve:
            rank.events.send({"event": "store", "port": port})
    rank.exchange = MarkedExchange(inner, rank)
    rank.ranks = Ranks(
        rank.exchange, prefix=f"set{spec.set_id}", rank=spec.rank, num_ranks=spec.num_ranks, timeout_s=2 * timeout_s
    )
    hellos = rank.ranks.gather({"digest": spec.run_digest, "version": __version__, "host": probe.host_name()})
    complaint = rank.ranks.broadcast(_complaint(hellos) if hellos else None)
    if complaint:
        raise UsageError(complaint)


def _port_of_host(rank: Rank) -> int:
    """The port that the serving rank got, from the supervisor."""
    message = rank.control.wait()
    if message is None:
        raise RunError("the supervisor is gone")
    port: int = message["port"]
    return port


def _complaint(hellos: list[dict[str, str]]) -> str | None:
    first = hellos[0]
    for number, hello in enumerate(hellos):
        for what in ("version", "digest"):
            if hello[what] != first[what]:
                name = "gtpbench version" if what == "version" else "scenario"
                return (
                    f"ranks disagree: rank {number} on {hello['host']} has {name} {hello[what]}, "
                    f"rank 0 on {first['host']} has {first[what]}; start all ranks with the same command"
                )
    return None


def introduce(rank: Rank) -> Live:
    """Tell the supervisor where the set's ranks run; learn from rank 0 what is to be run."""
    spec = rank.spec
    place = probe.rank_place(
        rank=spec.rank,
        local_rank=spec.local_rank,
        node=spec.node,
        device=spec.device,
    )
    places = rank.ranks.gather(place.model_dump_json())
    if places is not None:
        software = probe.libraries(with_torch=spec.store.kind != "pipe")
        rank.events.send(
            {
                "event": "hello",
                "places": places,
                "libraries": [library.model_dump_json() for library in software],
                "interfaces": probe.interfaces(spec.num_nodes) if spec.store.kind != "pipe" else [],
            }
        )
        rank.exchange.set(f"met/{spec.set_id}", b"")
    decided = rank.ranks.broadcast(
        {
            "live": [[case, list(arms)] for case, arms in spec.live],
            "counts": [list(item) for item in spec.counts],
            "num_cases": spec.num_cases,
        }
    )
    rank.num_cases = decided["num_cases"]
    for case, arm, clock, samples, k in decided["counts"]:
        rank.counts.setdefault((case, arm), {})[clock] = Counts(samples=samples, k=k)
    return [(case, arms) for case, arms in decided["live"]]


def await_all_sets(rank: Rank) -> None:
    """Wait until the ranks of every set have met: nothing is timed beside processes that still start."""
    for set_id in rank.spec.set_ids:
        rank.exchange.wait(f"met/{set_id}", timeout_s=FOREVER_S)


def await_code(rank: Rank) -> int | None:
    """Say that all turns are done; learn the exit code of the run, or None where another launch follows."""
    rank.events.send({"event": "done"})
    rank.board.enter(rank.spec.row, "waiting", case=rank.case, arm=rank.arm, turn=rank.turn)
    if rank.spec.decides:
        command = rank.control.wait()
        if command is None:
            raise RunError("the supervisor is gone")
        rank.exchange.set("finish", repr(command["code"]).encode())
    code = rank.exchange.wait("finish", timeout_s=FOREVER_S).decode()
    return None if code == "None" else int(code)


def leave(rank: Rank) -> None:
    """The rank that serves the store leaves last."""
    spec = rank.spec
    if spec.store.kind == "pipe":
        return
    if spec.store.kind == "client":
        rank.exchange.set(f"bye/{spec.set_id}/{spec.rank}", b"")
        return
    for set_id in spec.set_ids:
        for peer in range(spec.num_ranks):
            if (set_id, peer) != (spec.set_id, spec.rank):
                rank.exchange.wait(f"bye/{set_id}/{peer}", timeout_s=spec.scenario.timeouts.teardown_s)
