"""Registration cases for rank processes: what each runs, whatever the backend."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gtpbench.backends.base import Backend
from gtpbench.cases import RegistrationCase, registration_cases
from gtpbench.measure.calibrate import Counts
from gtpbench.measure.ranks import Ranks
from gtpbench.measure.registration import RegistrationRun
from gtpbench.plan import Arm, build_plan
from gtpbench.scenario.load import build_scenario
from gtpbench.scenario.schema import RegistrationWorkload


def make_case(num_ranks: int, *sizes: int) -> RegistrationCase:
    """One listed set."""
    workload = RegistrationWorkload(kind="registration", buffer_sizes=(), max_total_bytes=1, buffers=sizes)
    (case,) = registration_cases(workload, num_ranks=num_ranks)
    return case


def make_arm(backend: str, name: str = "symm") -> Arm:
    """The arm as planning makes it for this backend."""
    table: dict[str, Any] = {"name": "x", "arms": [name], "backend": backend, "num_ranks": 2}
    workload = {"kind": "registration", "buffer_sizes": [], "max_total_bytes": 1, "buffers": [64]}
    return build_plan(build_scenario({**table, "workload": workload}, origin="test")).arms[0]


@contextmanager
def stage(_: str) -> Iterator[None]:
    """No watchdog looks."""
    yield


def whole_case(backend: Backend, arm: str, sizes: tuple[int, ...], corrupt: bool) -> Any:
    """All turns; what rank 0 gathered, and what is left of it."""
    context = backend.context
    ranks = Ranks(context.exchange, prefix="agree", rank=context.rank, num_ranks=context.num_ranks, timeout_s=20.0)
    run = RegistrationRun(
        backend,
        make_case(context.num_ranks, *sizes),
        make_arm(backend.name, arm),
        ranks,
        stage,
        seed=3,
        is_first=True,
        epoch_ns=time.perf_counter_ns(),
    )
    run.prepare()
    for _ in range(3):
        run.block({"host": Counts(samples=1, k=1)}, warmup_iterations=0)
    told = run.finish(corrupt=corrupt and context.rank == 0, stage_seconds=dict, communicator_us=0.0)
    memory = backend.memory()
    return told, (memory.buffers_bytes, memory.registered_bytes, memory.num_windows)
