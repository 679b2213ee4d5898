"""One rank process: meets the others, walks the turns, reports to its supervisor.

python -m gtpbench.launch.worker EVENT_FD CONTROL_FD
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time
import traceback

from gtpbench.backends.base import RankContext, open_backend
from gtpbench.errors import ExitCode, GtpbenchError
from gtpbench.launch import probe
from gtpbench.launch.board import Board
from gtpbench.launch.faults import Fault
from gtpbench.launch.log_pass import log_pass
from gtpbench.launch.meeting import await_all_sets, await_code, introduce, join, leave
from gtpbench.launch.pipes import Receiver, Sender
from gtpbench.launch.rank import Rank
from gtpbench.launch.spec import WorkerSpec
from gtpbench.launch.turns import walk
from gtpbench.plan import build_plan


def main(argv: list[str]) -> None:
    """Run one rank; its outcome is what it sends, its exit code only says whether it could send."""
    _die_with_parent()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events, control = Sender(int(argv[0])), Receiver(int(argv[1]))
    message = control.wait()
    if message is None:
        return
    spec = WorkerSpec.model_validate_json(message["spec"])
    try:
        _run(spec, events, control)
    except GtpbenchError as error:
        events.send({"event": "error", "exit_code": int(error.exit_code), "text": str(error), "known": True})
    except Exception as error:  # noqa: BLE001 - the supervisor must hear of every failure
        traceback.print_exc()
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        events.send({"event": "error", "exit_code": int(ExitCode.FAILED), "text": text, "known": False})
    finally:
        sys.stderr.flush()


def _run(spec: WorkerSpec, events: Sender, control: Receiver) -> None:
    rank = Rank(
        spec=spec,
        plan=build_plan(spec.scenario),
        board=Board(spec.board_fd, spec.board_rows),
        events=events,
        control=control,
        fault=Fault.from_environment(),
        epoch_ns=spec.epoch_ns,
    )
    with rank.stage("start"):
        _preload(rank)
    with rank.stage("rendezvous"):
        join(rank)
    with rank.stage("communicator"):
        backend = open_backend(_backend_name(rank), _context(rank))
        began = time.perf_counter_ns()
        backend.open()
        communicator_us = (time.perf_counter_ns() - began) / 1e3
        if spec.cpu is not None:
            # This thread alone: a library's own threads, made by open(), would wait on its core for a scheduler tick.
            os.sched_setaffinity(0, {spec.cpu})
        live = introduce(rank)
    if spec.reads_paths:
        log_pass(rank, backend, live)
    else:
        await_all_sets(rank)
        walk(rank, backend, live, communicator_us)
    code = await_code(rank)
    rank.case = rank.arm = -1
    with rank.stage("teardown"):
        backend.close()
        leave(rank)
    events.send({"event": "finished", "code": code})


def _preload(rank: Rank) -> None:
    """Import what the backend needs, so that the rendezvous stage times the rendezvous."""
    if rank.spec.store.kind != "pipe":
        probe.load_torch(threads=1 if rank.spec.cpu is not None else None)


def _context(rank: Rank) -> RankContext:
    spec, worker_set = rank.spec, rank.plan.sets[rank.spec.set_id]
    return RankContext(
        rank=spec.rank,
        num_ranks=spec.num_ranks,
        local_rank=spec.local_rank,
        local_size=spec.local_size,
        node=spec.node,
        num_nodes=spec.num_nodes,
        set_id=spec.set_id,
        exchange=rank.exchange,
        device=spec.device,
        cta_policy=rank.plan.arm(worker_set.arms[0]).cta_policy,
        timeout_s=2 * max(spec.scenario.timeouts.model_dump().values()),
        mark=rank.mark,
    )


def _backend_name(rank: Rank) -> str:
    worker_set = rank.plan.sets[rank.spec.set_id]
    if rank.fault and rank.fault.kind == "backend" and rank.fault.conditions["arm"] in worker_set.arms:
        return rank.fault.conditions["use"]
    return worker_set.backend


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the supervisor dies, however it dies."""
    pr_set_pdeathsig = 1
    parent = os.getppid()
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(int(ExitCode.FAILED))


if __name__ == "__main__":
    main(sys.argv[1:])
