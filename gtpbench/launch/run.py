"""A run on one node: launches, attempts after failures, and every cell's record. No torch here."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from gtpbench.errors import ExitCode, RunError, UsageError, worst
from gtpbench.launch.assemble import failed_record, measured_record, skipped_record
from gtpbench.launch.attempt import Attempt, CountKey, Failure, Finished, Live, set_variables
from gtpbench.launch.faults import VARIABLE as FAULT_VARIABLE
from gtpbench.launch.path_log import PathLog, read_paths
from gtpbench.launch.pipes import Message
from gtpbench.launch.place import Place
from gtpbench.launch.probe import host_facts, libraries
from gtpbench.launch.registration_record import registration_record
from gtpbench.launch.results import RunFolder
from gtpbench.measure.cell import RankCell
from gtpbench.measure.registration import RankRegistration
from gtpbench.plan import Case, Plan, RegistrationCase, Skips, WorkerSet
from gtpbench.record.environment import NCCL, Environment, Finding, Library, RankPlace
from gtpbench.record.model import Execution, Record
from gtpbench.schedule import case_order, turns

MAX_FAILURES_PER_ARM = 2
"""An arm that failed this often in a launch is not tried again in it: its cells get the last failure."""


class Observer(Protocol):
    """What a run tells whoever watches it."""

    def warn(self, text: str) -> None:
        """One line about something that went wrong but does not end the run."""

    def progress(self, *, done: int, total: int, text: str) -> None:
        """Turns done of all turns of the run, and what is running."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One node's part of a run. `folder` is None on nodes that do not write."""

    plan: Plan
    skipped: Skips
    place: Place
    folder: RunFolder | None
    scratch: Path
    """Where rank logs go."""
    command: tuple[str, ...]
    conclude: Callable[[list[Record]], ExitCode]
    """Called on the deciding node with all records when the last launch is done; gives the exit code."""
    examine: Callable[[Environment], tuple[Finding, ...]]
    """Called on the deciding node when a launch's ranks have met, before anything is timed."""
    observer: Observer
    run_id: str = field(default_factory=lambda: secrets.token_hex(6))
    counts: dict[CountKey, tuple[int, int]] = field(default_factory=dict)
    """case index -> (samples, k), the same in every launch of the folder."""
    failures: list[str] = field(default_factory=list)
    """Failures that cost no cell: ranks that did not end."""
    paths: PathLog = field(default_factory=dict)
    """What NCCL's log says of each cell; empty without NCCL."""
    _told: set[str] = field(default_factory=set)
    """Codes of findings."""
    _signals: int = 0

    def execute(self) -> ExitCode:
        """All launches; returns the run's exit code, the same on every node.

        Raises:
            Interrupted: SIGINT or SIGTERM came; every finished cell is on disk.
        """
        first = self.folder.next_launch if self.folder else 0
        if self.folder:
            self.counts.update(_known_counts(self.plan, self.folder.records))
        launches = range(first, first + self.plan.scenario.measure.launches)
        with self._signals_caught():
            self._read_paths(first)
            for launch in launches:
                code = _Launch(run=self, number=launch, last=launch == launches[-1]).execute()
                if code is not None:
                    return code
        return self.final_code()

    def _read_paths(self, launch: int) -> None:
        """Ask NCCL for its choices, in processes of their own."""
        sets = [worker_set for worker_set in self.live_sets() if worker_set.backend.startswith("nccl")]
        arms = [arm for worker_set in sets for arm in worker_set.arms]
        by_case = [
            (index, [arm for arm in arms if (case.case_id, arm) not in self.skipped])
            for index, case in enumerate(self.plan.cases)
            if isinstance(case, Case)
        ]
        live = [(index, runnable) for index, runnable in by_case if runnable]
        if not live:
            return
        self.observer.progress(done=0, total=len(live), text="reading NCCL's choices")
        found = read_paths(
            self.plan,
            place=self.place,
            launch=launch,
            live=live,
            sets=sets,
            log_dir=self.scratch,
            interrupted=self.interrupted,
        )
        if isinstance(found, Failure):
            self.observer.warn(f"no log of NCCL's choices: {found.text}; ring, NVLS and PAT are not told apart")
            return
        self.paths = found

    def final_code(self) -> ExitCode:
        """Conclude; a failure that no record shows still makes the run one."""
        code = self.conclude(self.folder.records if self.folder else [])
        return worst([code, ExitCode.FAILED] if self.failures else [code])

    @property
    def fault(self) -> str | None:
        """The injected fault of a test, for the records."""
        return os.environ.get(FAULT_VARIABLE)

    def tell(self, findings: tuple[Finding, ...]) -> None:
        """Each finding once a run, in one line."""
        for finding in findings:
            if finding.code not in self._told:
                self._told.add(finding.code)
                self.observer.warn(str(finding))

    def live_sets(self) -> list[WorkerSet]:
        """The sets with at least one cell that can run."""
        case_ids = [case.case_id for case in self.plan.cases]
        return [
            worker_set
            for worker_set in self.plan.sets
            if any((case_id, arm) not in self.skipped for case_id in case_ids for arm in worker_set.arms)
        ]

    def interrupted(self) -> bool:
        """Whether a signal asked the run to end."""
        return self._signals > 0

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        def note(_number: int, _frame: FrameType | None) -> None:
            self._signals += 1

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            # After an interrupt the process only has to end: further signals must not turn that into a traceback.
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if self._signals else handler)


@dataclass(slots=True, kw_only=True)
class _Launch:
    """One launch: attempts until no cell is pending."""

    run: Run
    number: int
    last: bool
    _pending: set[tuple[int, str]] = field(default_factory=set)
    _failures: dict[str, int] = field(default_factory=dict)
    _attempt: int = 0
    _num_cases: int = 0
    _host: dict[str, Any] = field(default_factory=dict)
    """This host just before the attempt's ranks start, so that nothing of theirs is in it."""
    _hellos: dict[int, Message] = field(default_factory=dict)
    _environment_id: str | None = None
    _early: list[Message] = field(default_factory=list)
    """Cells read before the last set's hello: pipes of different processes have no order."""
    _skips_recorded: bool = False

    def execute(self) -> ExitCode | None:
        """The run's exit code if it is known now, None where another launch follows."""
        run = self.run
        self._plan_cells()
        while (sets := self._sets()) and (self._pending or (self._attempt > 0 and run.place.num_nodes > 1)):
            outcome = self._try(sets)
            if isinstance(outcome, Finished):
                return None if outcome.code is None else ExitCode(outcome.code)
            self._fail(outcome)
            self._attempt += 1
        if not self._skips_recorded and run.folder:
            run.folder.add_environment(self._environment())
            self._record_skips()
        return None

    def _plan_cells(self) -> None:
        skipped = self.run.skipped
        for index, case in enumerate(self.run.plan.cases):
            for arm in self.run.plan.arms:
                if (case.case_id, arm.name) not in skipped:
                    self._pending.add((index, arm.name))
        self._num_cases = len({case for case, _ in self._pending})

    def _record_skips(self) -> None:
        """Write the launch's skipped cells, once; not before the folder has accepted the launch's environment."""
        run = self.run
        if self._skips_recorded or run.folder is None:
            return
        self._skips_recorded = True
        for case in run.plan.cases:
            for arm in run.plan.arms:
                reason = run.skipped.get((case.case_id, arm.name))
                if reason is not None:
                    record = skipped_record(run.plan, case, arm, reason, launch=self.number, fault=run.fault)
                    run.folder.add_record(record)

    def _sets(self) -> list[WorkerSet]:
        """The sets to start; on several nodes always the same ones, since no node knows what the others finished."""
        sets = self.run.live_sets()
        if self.run.place.num_nodes > 1:
            return sets
        pending = {arm for _, arm in self._pending}
        return [worker_set for worker_set in sets if pending & set(worker_set.arms)]

    def _live(self) -> Live:
        plan = self.run.plan
        indices = {case.case_id: index for index, case in enumerate(plan.cases)}
        order = case_order(list(indices), seed=plan.scenario.measure.seed, launch=self.number)
        by_case = [(indices[case_id], self._arms(indices[case_id])) for case_id in order]
        return [(case, arms) for case, arms in by_case if arms]

    def _arms(self, case: int) -> list[str]:
        return [arm.name for arm in self.run.plan.arms if (case, arm.name) in self._pending]

    def _try(self, sets: list[WorkerSet]) -> Finished | Failure:
        run, live = self.run, self._live()
        self._host = host_facts()
        self._hellos.clear()
        self._environment_id = None
        self._early.clear()
        total = sum(len(turns(run.plan.rounds(case, arms, launch=self.number))) for case, arms in live)
        launches = run.plan.scenario.measure.launches
        return Attempt(
            plan=run.plan,
            place=run.place,
            launch=self.number,
            number=self._attempt,
            live=live,
            sets=sets,
            counts=run.counts,
            num_cases=self._num_cases,
            log_dir=run.scratch,
            on_hello=self._hello(sets, on_cell := self._cell(live)),
            on_cell=on_cell,
            decide=lambda: int(run.final_code()) if self.last else None,
            interrupted=run.interrupted,
            on_turn=lambda turn: run.observer.progress(
                done=turn + 1, total=total, text=f"launch {self.number + 1} of {launches}"
            ),
        ).run()

    def _hello(self, sets: list[WorkerSet], on_cell: Callable[[Message], None]) -> Callable[[int, Message], None]:
        def on_hello(set_id: int, message: Message) -> None:
            self._hellos[set_id] = message
            if len(self._hellos) == len(sets) and self.run.folder:
                environment = self._environment()
                findings = self.run.examine(environment)
                self._environment_id = environment.environment_id
                self.run.folder.add_environment(environment.model_copy(update={"findings": findings}))
                self.run.tell(findings)
                self._record_skips()
                for cell in self._early:
                    on_cell(cell)

        return on_hello

    def _environment(self) -> Environment:
        """The launch's environment; of a launch in which no set could start, what this host alone can say."""
        run, host = self.run, self._host or host_facts()
        first = next(iter(self._hellos.values()), None)
        return Environment(
            environment_id=f"{run.run_id}.{self.number}.{self._attempt}",
            run_id=run.run_id,
            launch=self.number,
            created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            command=run.command,
            num_nodes=run.place.num_nodes,
            launcher=run.place.launcher,
            libraries=(
                tuple(Library.model_validate_json(item) for item in first["libraries"])
                if first
                else libraries(with_torch=False)
            ),
            # Of all sets the run has, also those that this attempt no longer needs: they are part of the fingerprint.
            set_variables={str(item.set_id): set_variables(item, run.place) for item in run.live_sets()},
            ranks={
                str(set_id): tuple(RankPlace.model_validate_json(place) for place in message["places"])
                for set_id, message in sorted(self._hellos.items())
            },
            interfaces=tuple(first["interfaces"]) if first else (),
            **host,
        )

    def _nccl_version(self) -> str | None:
        """Of the library that the ranks have loaded; None where they have none."""
        told = next(iter(self._hellos.values()))["libraries"]
        loaded = [Library.model_validate_json(item) for item in told]
        return next((library.version for library in loaded if library.name == NCCL), None)

    def _cell(self, live: Live) -> Callable[[Message], None]:
        position = {case: number for number, (case, _) in enumerate(live)}
        arms_of = dict(live)

        def on_cell(message: Message) -> None:
            if self._environment_id is None:
                self._early.append(message)
                return
            run, case, arm = self.run, message["case"], message["arm"]
            assert run.folder is not None
            record = self._record(message, arms=arms_of[case], position=position[case])
            self._pending.discard((case, arm))
            run.folder.add_record(record)
            if record.reason:
                run.observer.warn(f"{record.case_id}, arm {arm}: {record.reason.text}")

        return on_cell

    def _record(self, message: Message, *, arms: list[str], position: int) -> Record:
        """Of a cell that ran to its end."""
        run, number, arm = self.run, message["case"], self.run.plan.arm(message["arm"])
        case = run.plan.cases[number]
        assert self._environment_id is not None
        known: dict[str, Any] = {
            "launch": self.number,
            "environment_id": self._environment_id,
            "nccl_version": self._nccl_version(),
            "fault": run.fault,
        }
        if isinstance(case, RegistrationCase):
            sets = [RankRegistration.model_validate_json(text) for text in message["ranks"]]
            num_blocks = len(sets[0].phases["register"].time_us)
            execution = self._execution(number, arm.name, arms, position, num_iterations=num_blocks)
            return registration_record(run.plan, case, arm, sets, execution=execution, **known)
        cells = [RankCell.model_validate_json(text) for text in message["ranks"]]
        timed = [clock.k * sum(map(len, clock.timed.time_us)) for clock in cells[0].clocks.values()]
        execution = self._execution(number, arm.name, arms, position, num_iterations=sum(timed))
        log_lines = run.paths.get((number, arm.name))
        return measured_record(run.plan, case, arm, cells, execution=execution, log_lines=log_lines, **known)

    def _execution(self, case: int, arm: str, arms: list[str], position: int, *, num_iterations: int) -> Execution:
        plan = self.run.plan
        return Execution(
            run_id=self.run.run_id,
            attempt=self._attempt,
            set_id=next(item.set_id for item in plan.sets if arm in item.arms),
            seed=plan.scenario.measure.seed,
            block_order=tuple(plan.rounds(case, arms, launch=self.number)),
            case_position=position,
            group_ranks=tuple(range(plan.num_ranks)),
            num_iterations=num_iterations,
        )

    def _fail(self, failure: Failure) -> None:
        """Record what the failure cost and decide what is not tried again.

        Raises:
            UsageError: ranks disagree about the run.
            RunError: another host cannot be reached.
        """
        run = self.run
        if failure.exit_code == ExitCode.USAGE:
            raise UsageError(failure.text)
        before_work = failure.case < 0
        if (before_work and run.place.num_nodes > 1) or failure.stage == "waiting":
            for cell in sorted(self._pending):
                self._record_failure(*cell, failure)
            raise RunError(failure.text)
        run.observer.warn(f"{failure.status}: {failure.text}")
        if not self._pending:
            run.failures.append(failure.text)
            (run.scratch / "failures.txt").write_text("\n".join(run.failures) + "\n", encoding="utf-8")
            return
        plan = run.plan
        worker_set = next(item for item in plan.sets if item.set_id == failure.set_id)
        blamed = worker_set.arms if failure.arm < 0 else (plan.arms[failure.arm].name,)
        for arm in blamed:
            self._failures[arm] = self._failures.get(arm, 0) + 1
            hopeless = before_work or self._failures[arm] >= MAX_FAILURES_PER_ARM
            for case, name in sorted(self._pending):
                if name == arm and (hopeless or case == failure.case):
                    self._record_failure(case, arm, failure)
                    self._pending.discard((case, arm))

    def _record_failure(self, case: int, arm: str, failure: Failure) -> None:
        folder = self.run.folder
        if folder is None:
            return
        plan = self.run.plan
        record = failed_record(
            plan,
            plan.cases[case],
            plan.arm(arm),
            failure,
            execution=None,
            launch=self.number,
            environment_id=self._environment_id,
            fault=self.run.fault,
        )
        folder.add_record(record)


def _known_counts(plan: Plan, records: list[Record]) -> dict[CountKey, tuple[int, int]]:
    """Counts that earlier launches of the folder used."""
    indices = {case.case_id: index for index, case in enumerate(plan.cases)}
    known: dict[CountKey, tuple[int, int]] = {}
    for record in records:
        for samples in record.samples.values():
            known[indices[record.case_id], record.arm, samples.clock] = (len(samples.time_us[0][0]), samples.k)
    return known
