"""The one way from a request to an exit code: scenario, plan, place, run, report."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gtpbench.cli.output import Watcher, emit, say
from gtpbench.cli.show import show
from gtpbench.doctor import preflight
from gtpbench.errors import ExitCode, GtpbenchError, Interrupted, UsageError, worst
from gtpbench.launch.attach import Attached, Peers, attached, wait_for_supervisor
from gtpbench.launch.outcome import records_code
from gtpbench.launch.place import Place, builtin_place
from gtpbench.launch.probe import machine_facts, num_gpus
from gtpbench.launch.results import RunFolder
from gtpbench.launch.run import Run
from gtpbench.plan import Plan, build_plan, run_digest, skips
from gtpbench.record.model import Record
from gtpbench.report.closing import closing_line
from gtpbench.report.model import RunView
from gtpbench.report.nccl_tests import NO_LAYOUT
from gtpbench.report.render import write_reports
from gtpbench.scenario.load import dump_scenario
from gtpbench.scenario.resolve import MachineFacts, resolve
from gtpbench.scenario.schema import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command asks for."""

    scenario: Callable[[int], Scenario]
    """From the number of visible GPUs."""
    out: Path | None
    append: bool
    format: str
    save_scenario: Path | None


def execute(request: Request) -> None:
    """Run and report; exits the process with the run's code.

    Raises:
        SystemExit: always, with the documented code.
        GtpbenchError: before or while running; the code is in the error.
    """
    if request.append and request.out is None:
        raise UsageError("--append needs --out DIR, the folder to add launches to")
    me = attached(os.environ)
    scenario = request.scenario(num_gpus())
    asked = run_digest(scenario)
    if me is None:
        sys.exit(int(_run(request, scenario, None)))
    if me.local_rank > 0:
        sys.exit(int(wait_for_supervisor(me, run_digest=asked)))
    sys.exit(int(_supervise(request, scenario, me, asked)))


def _supervise(request: Request, scenario: Scenario, me: Attached, asked: str) -> ExitCode:
    """Run as the supervisor of a launcher's node; the waiting processes end with the same code whatever happens."""
    peers = Peers(me, run_digest=asked)
    code = ExitCode.FAILED
    try:
        code = _run(request, scenario, peers.gather())
    except GtpbenchError as error:
        code = error.exit_code
        raise
    except Interrupted:
        code = ExitCode.INTERRUPTED
        raise
    finally:
        peers.release(code)
        peers.close()
    return code


def _run(request: Request, scenario: Scenario, place: Place | None) -> ExitCode:
    facts = machine_facts(num_nodes=place.num_nodes if place else 1, world_size=place.world_size if place else None)
    plan = build_plan(resolve(scenario, facts))
    if request.format == "nccl-tests" and scenario.workload.kind == "registration":
        raise UsageError(NO_LAYOUT)
    place = place or builtin_place(plan.num_ranks)
    if request.save_scenario and place.decides:
        _save(plan, request.save_scenario)
    if place.decides:
        return _decide(request, plan, facts, place)
    with _kept_if_used(Path(tempfile.mkdtemp(prefix="gtpbench-logs-"))) as logs:
        run = _node(
            plan,
            facts=facts,
            place=place,
            folder=None,
            scratch=logs,
            conclude=lambda _: ExitCode.OK,
            watcher=Watcher(),
        )
        return _guarded(run)


def _decide(request: Request, plan: Plan, facts: MachineFacts, place: Place) -> ExitCode:
    """The node that plans, writes and prints."""
    out = request.out or _default_out(plan.scenario.name)
    folder = RunFolder.reopen(out, plan, warn=say) if request.append else RunFolder.create(out, plan)
    watcher = Watcher()
    views: list[RunView] = []

    def conclude(records: list[Record]) -> ExitCode:
        code = records_code(records, allow_skip=plan.scenario.allow_skip)
        try:
            views.append(write_reports(out, warn=watcher.warn))
        except GtpbenchError as error:
            watcher.warn(f"error: {error}")
            return worst([code, error.exit_code])
        return code

    num_before = len(folder.records)
    try:
        run = _node(
            plan, facts=facts, place=place, folder=folder, scratch=out / "logs", conclude=conclude, watcher=watcher
        )
        code = _guarded(run)
        if not views and len(folder.records) > num_before:
            conclude(folder.records)
    finally:
        watcher.clear()
        folder.close()
    if views:
        _print(views[-1], code, out, request.format)
    return code


def _print(view: RunView, code: ExitCode, out: Path, format: str) -> None:
    """The tables and the last line; an interrupted run is not compared, only summed up."""
    last = closing_line(view, exit_code=int(code), directory=out)
    if code != ExitCode.INTERRUPTED:
        show(view, format)
    if format == "table" and code != ExitCode.INTERRUPTED:
        emit(last)
    else:
        say(last)


def _node(
    plan: Plan,
    *,
    facts: MachineFacts,
    place: Place,
    folder: RunFolder | None,
    scratch: Path,
    conclude: Callable[[list[Record]], ExitCode],
    watcher: Watcher,
) -> Run:
    return Run(
        plan=plan,
        skipped=skips(plan, facts),
        place=place,
        folder=folder,
        scratch=scratch,
        command=("gtpbench", *(word.encode(errors="replace").decode() for word in sys.argv[1:])),
        conclude=conclude,
        examine=lambda environment: preflight(environment, plan),
        observer=watcher,
    )


def _guarded(run: Run) -> ExitCode:
    """Execute; an interrupt or a failure of the whole run is an outcome, and what was finished stays."""
    try:
        return run.execute()
    except Interrupted:
        say("interrupted; what was finished is kept")
        return ExitCode.INTERRUPTED
    except GtpbenchError as error:
        say(f"error: {error}")
        return error.exit_code


@contextmanager
def _kept_if_used(folder: Path) -> Iterator[Path]:
    """A folder for rank logs on a node that writes nothing else; removed if no rank said anything."""
    try:
        yield folder
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()


def _save(plan: Plan, path: Path) -> None:
    try:
        path.write_text(dump_scenario(plan.scenario), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--save-scenario {path}: {error.strerror}") from error


def _default_out(name: str) -> Path:
    return Path("gtpbench-results") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
