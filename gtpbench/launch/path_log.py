"""What NCCL itself says of its choices: a launch of its own, before any is timed, with NCCL's log switched on.

Kernel names tell symmetric paths from legacy ones; ring, NVLS and PAT are told apart by the log alone. Nothing of it
may run in a process that is timed.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from gtpbench.launch.attempt import Attempt, Failure, Live
from gtpbench.launch.pipes import Message
from gtpbench.launch.place import Place
from gtpbench.plan import Plan, WorkerSet

ATTEMPT = -1
"""Number of this attempt in its launch: no timed one has it, so their keys in the store differ."""

PathLog = dict[tuple[int, str], tuple[str, ...]]
"""(case index, arm) -> NCCL's lines of that cell, without the host's name."""


def read_paths(
    plan: Plan,
    *,
    place: Place,
    launch: int,
    live: Live,
    sets: Sequence[WorkerSet],
    log_dir: Path,
    interrupted: Callable[[], bool],
) -> PathLog | Failure:
    """Run every cell once with the log on; what rank 0 of each set read of it, or why there is nothing.

    Raises:
        Interrupted: `interrupted` became true.
    """
    found: PathLog = {}

    def keep(message: Message) -> None:
        found[message["case"], message["arm"]] = tuple(message["lines"])

    outcome = Attempt(
        plan=plan,
        place=place,
        launch=launch,
        number=ATTEMPT,
        live=live,
        sets=sets,
        counts={},
        num_cases=len(live),
        log_dir=log_dir,
        on_hello=lambda _set_id, _message: None,
        on_cell=keep,
        decide=lambda: None,
        interrupted=interrupted,
        on_turn=lambda _turn: None,
        reads_paths=True,
    ).run()
    return outcome if isinstance(outcome, Failure) else found
