"""A rank's way through the launch that only reads NCCL's log: every cell once, nothing timed."""

from pathlib import Path

from gtpbench.backends.base import Backend
from gtpbench.launch.rank import Live, Rank
from gtpbench.launch.turns import make_workload, my_turns
from gtpbench.measure.nccl_log import parse_log, record_lines
from gtpbench.workloads.base import Workload


def log_pass(rank: Rank, backend: Backend, live: Live) -> None:
    """Run this set's cells; the rank whose NCCL writes a log sends each cell's lines to the supervisor."""
    log = _Log(Path(rank.spec.nccl_log)) if rank.spec.nccl_log else None
    cells = [(case, arm) for case, arms in live for arm in arms]
    for number in my_turns(rank, [arm for _, arm in cells]):
        rank.case, arm = cells[number]
        _run_once(rank, backend, make_workload(rank, backend, rank.plan.cases[rank.case], arm))
        if log is not None:
            rank.events.send({"event": "cell", "case": rank.case, "arm": arm, "lines": log.new_lines()})


def _run_once(rank: Rank, backend: Backend, workload: Workload) -> None:
    """Call the operation and, where graphs are timed, capture it: NCCL may choose and register differently there."""
    queue = backend.queue("compute")
    with rank.stage("registration"):
        workload.prepare()
    with rank.stage("copy_engine" if backend.context.cta_policy == "zero" else "first_collective"):
        workload.step(0)
        backend.host_sync(queue)
    if rank.plan.scenario.measure.clock in {"graph", "both"}:
        with rank.stage("capture"):
            graph = backend.capture(lambda: workload.step(0), queue=queue)
            graph.replay()
            backend.host_sync(queue)
            del graph
    with rank.stage("teardown"):
        workload.release()


class _Log:
    """NCCL's log file of this process, read cell by cell."""

    def __init__(self, path: Path) -> None:
        """Of what is there already, only what holds for all cells is kept."""
        self._path = path
        self._place = 0
        self._lasting: list[str] = []
        """What NCCL says once, in this form or that of its versions at start or with the first window."""
        self.new_lines()

    def new_lines(self) -> list[str]:
        """Lines since the last call that `nccl_log` reads, each once."""
        if not self._path.exists():
            return []
        with self._path.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._place)
            text = file.read()
            self._place = file.tell()
        lines = list(dict.fromkeys([*self._lasting, *record_lines(text.splitlines())]))
        self._lasting = [line for line in lines if parse_log([line]).symmetric_va_bytes is not None]
        return lines
