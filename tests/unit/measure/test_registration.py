"""One registration case through its turns, on a backend that writes a log."""

import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from gtpbench.backends.base import Buffer, Capabilities, CheckResult, KernelSeen, MemoryState, Witness
from gtpbench.errors import UnsupportedError
from gtpbench.measure.calibrate import Counts
from gtpbench.measure.registration import RankRegistration, RegistrationRun
from gtpbench.plan import RegistrationCase
from tests.examples import make_plan

COUNTS = {"host": Counts(samples=1, k=1)}


class Handle:
    """A view of a buffer."""


class Graph:
    """Captured work."""


class FakeBackend:
    """Plays a GPU: logs what is made, registered, used and let go of. A registration takes 40 us a buffer."""

    name = "fake"

    def __init__(self, *, capture: bool = True, cta_policy: str = "default") -> None:
        self.log: list[str] = []
        self.owners: list[str] = []
        """Of registrations, in order."""
        self.context = SimpleNamespace(rank=0, num_ranks=2, device=0, cta_policy=cta_policy, mark=lambda number: None)
        self.refuses = False
        self.wrong = 0
        self._capture = capture
        self._sizes: dict[str, list[int]] = {}
        self._gathers = 0

    def _handle(self) -> Handle:
        handle = Handle()
        weakref.finalize(handle, self.log.append, "view gone").atexit = False
        return handle

    def alloc(self, count: int, *, dtype: str, pool: Any, owner: str = "") -> Buffer:
        made = self._sizes.setdefault(owner, [])
        made.append(count)
        self.log.append(f"alloc {pool} {count}")
        return Buffer(
            dtype=dtype, count=count, offset=0, allocation=len(made) - 1, pool=pool, owner=owner, handle=self._handle()
        )

    def slice(self, buffer: Buffer, start: int, count: int) -> Buffer:
        assert 0 <= start <= start + count <= buffer.count
        return Buffer(
            dtype=buffer.dtype,
            count=count,
            offset=buffer.offset + start,
            allocation=buffer.allocation,
            pool=buffer.pool,
            owner=buffer.owner,
            handle=self._handle(),
        )

    def register(self, pool: Any, *, owner: str = "") -> float:
        self.log.append(f"register {pool}")
        self.owners.append(owner)
        return 40.0 * len(self._sizes[owner])

    def release(self, pool: Any, *, owner: str = "") -> float:
        self.log.append(f"release {pool}")
        return 3.0 * len(self._sizes.pop(owner))

    def memory(self) -> MemoryState:
        held = sum(map(sum, self._sizes.values()))
        return MemoryState(
            buffers_bytes=held,
            registered_bytes=held,
            free_bytes=10**9 - held,
            num_communicators=1,
            num_windows=sum(map(len, self._sizes.values())),
            num_pools=len(self._sizes),
        )

    def capabilities(self) -> Capabilities:
        return Capabilities(
            pools=frozenset({"window"}),
            dtypes=frozenset({"uint8"}),
            reduce_ops=frozenset({"sum"}),
            capture=self._capture,
            asynchronous=True,
            coalescing="grouped",
            process_group="fake",
        )

    def poison(self, buffer: Buffer) -> None:
        self.log.append(f"poison {buffer.allocation} {buffer.count}")

    def fill(self, buffer: Buffer, *, seed: int, kind: Any, start: int = 0) -> None:
        self.log.append(f"fill {buffer.allocation} {buffer.offset}+{buffer.count}")

    def flip(self, buffer: Buffer, index: int) -> None:
        self.wrong = 1

    def check_all(self, pairs: Any, *, tolerance: float) -> CheckResult:
        self.log.append("check")
        checked = sum(buffer.count for buffer, _ in pairs)
        return CheckResult(num_wrong=self.wrong, num_checked=checked, max_error=0.0, sum_squared_error=0.0)

    def queue(self, name: str) -> str:
        return name

    def barrier(self, queue: Any) -> None:
        self.log.append("barrier")

    def host_sync(self, queue: Any) -> None:
        pass

    def all_gather(self, send: Buffer, recv: Buffer, *, queue: Any) -> None:
        self._gathers += 1
        self.log.append(f"gather {send.allocation} {send.offset}+{send.count} of {recv.count}")

    def capture(self, work: Callable[[], None], *, queue: Any) -> Graph:
        self.log.append("capture")
        work()
        graph = Graph()
        weakref.finalize(graph, self.log.append, "graph gone").atexit = False
        return graph

    def observe(self, replay: Any) -> tuple[KernelSeen, ...]:
        if self.refuses:
            raise UnsupportedError("no package", code="package")
        return (KernelSeen(name="ncclSymkDevKernel_AllGather_ST", grid=16, count=2),)

    def witness(self) -> Witness:
        return Witness(counters={"windows": 4, "null_windows": 0, "sent_bytes": 1000 + self._gathers})


class OneRank:
    """Agreement of a rank with itself."""

    def agree_max(self, value: float) -> float:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]


def _case(*sizes: int) -> RegistrationCase:
    plan = make_plan(
        workload={"kind": "registration", "buffer_sizes": [], "max_total_bytes": "1G", "buffers": list(sizes)},
        arms=["symm"],
    )
    (case,) = plan.cases
    assert isinstance(case, RegistrationCase)
    return case


def _run(
    backend: FakeBackend, *sizes: int, arm: str = "symm", is_first: bool = True, prepared: bool = True
) -> tuple[RegistrationRun, list[str]]:
    """A run and the stages it enters; the log begins after its preparation, unless that is left to the test."""
    stages: list[str] = []

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        stages.append(name)
        backend.log.append(f"stage {name}")
        yield

    arms = make_plan(arms=["registered", "symm"], backend="nccl_torch", measure={"clock": "graph"})
    run = RegistrationRun(
        backend,  # type: ignore[arg-type]
        _case(*sizes),
        arms.arm(arm),
        OneRank(),  # type: ignore[arg-type]
        stage,
        seed=1,
        is_first=is_first,
        epoch_ns=0,
    )
    if prepared:
        run.prepare()
        backend.log.clear()
        stages.clear()
    return run, stages


def _finish(run: RegistrationRun, *, corrupt: bool = False) -> RankRegistration:
    (told,) = run.finish(corrupt=corrupt, stage_seconds=lambda: {"blocks": 1.0}, communicator_us=7.0)
    return RankRegistration.model_validate_json(told)


def _without_stages(log: list[str]) -> list[str]:
    return [line for line in log if not line.startswith("stage") and line != "barrier"]


def test_one_buffer_comes_first_and_by_itself() -> None:
    """Its time is told apart from all others'; a block may take four times as long as its buffers one by one."""
    backend = FakeBackend()
    run, stages = _run(backend, 64, 32, 16, prepared=False)
    estimates = run.prepare()
    assert ["barrier", "alloc window 64", "register window", "view gone", "release window"] == backend.log[1:]
    assert ["registration"] == stages
    assert {"host": 1} == {clock: found.k for clock, found in estimates.items()}
    cell = _finish(run)
    assert (40.0, 3.0, True) == (cell.single_us, cell.single_deregistration_us, cell.is_first)
    assert estimates["host"].us > 0.0


def test_a_block_is_the_life_of_a_whole_set() -> None:
    """Ranks line up, all is allocated, registered once, and gone; nothing is touched, and nothing warms up."""
    backend = FakeBackend()
    run, stages = _run(backend, 64, 32, 16)
    run.block(COUNTS, warmup_iterations=3)
    assert [
        "stage blocks",
        "barrier",
        "alloc window 64",
        "alloc window 32",
        "alloc window 16",
        "register window",
        "view gone",
        "view gone",
        "view gone",
        "release window",
    ] == backend.log
    assert ["blocks"] == stages


def test_blocks_are_kept_apart_by_phase() -> None:
    """One time a block for the whole set, as the backend tells it; allocation is the host's own."""
    run, _ = _run(FakeBackend(), 64, 32, 16)
    for _ in range(3):
        run.block(COUNTS, warmup_iterations=0)
    phases = _finish(run).phases
    assert ["allocate", "register", "deregister"] == list(phases)
    assert (120.0,) * 3 == phases["register"].time_us
    assert (9.0,) * 3 == phases["deregister"].time_us
    for times in phases.values():
        assert 3 == len(times.time_us) == len(times.start_us) == len(times.wall_us)
        assert sorted(times.start_us) == list(times.start_us)
    assert all(us > 0.0 for us in phases["allocate"].time_us)


def test_no_allocation_is_registered_twice() -> None:
    """Every set has an owner of its own, also where two arms and cases share a process."""
    backend = FakeBackend()
    for arm in ("symm", "registered"):
        for sizes in ((64,), (64, 64)):
            run, _ = _run(backend, *sizes, arm=arm)
            run.block(COUNTS, warmup_iterations=0)
            run.block(COUNTS, warmup_iterations=0)
            _finish(run)
    assert 16 == len(backend.owners) == len(set(backend.owners))


def test_the_ends_are_gathered_through_after_poison() -> None:
    """In place, this rank's part of the same size in the first and the last buffer; then proof, then the end."""
    backend = FakeBackend()
    run, stages = _run(backend, 64, 16, 40)
    cell = _finish(run)
    assert [
        "alloc window 64",
        "alloc window 16",
        "alloc window 40",
        "register window",
        "poison 0 32",
        "fill 0 0+16",
        "poison 2 32",
        "fill 2 0+16",
        "gather 0 0+16 of 32",
        "gather 2 0+16 of 32",
        "check",
        "capture",
        "gather 0 0+16 of 32",
        "gather 2 0+16 of 32",
        "graph gone",
        *["view gone"] * 7,
        "release window",
    ] == _without_stages(backend.log)
    assert ["blocks", "first_collective", "verify", "proof", "teardown"] == stages
    assert (2, 2, True, 0, 64) == (
        cell.gathers,
        cell.verification.num_slots,
        cell.verification.poisoned,
        cell.verification.num_wrong,
        cell.verification.num_checked,
    )


def test_one_buffer_is_gathered_through_once() -> None:
    """First and last are the same."""
    cell = _finish(_run(FakeBackend(), 64)[0])
    assert (1, 1) == (cell.gathers, cell.verification.num_slots)


def test_counters_are_differences_but_for_levels() -> None:
    """Two gathers sent two bytes; windows are what was there."""
    assert {"windows": 4, "null_windows": 0, "sent_bytes": 2} == _finish(_run(FakeBackend(), 64, 64)[0]).counters


def test_evidence_is_a_graph_of_the_same_gathers() -> None:
    """Two calls, with the counters of their process beside them."""
    (piece,) = _finish(_run(FakeBackend(), 64, 64)[0]).evidence
    assert ("graph_nodes", 2, None, None) == (piece.source, piece.calls, piece.clock, piece.error)
    assert [("ncclSymkDevKernel_AllGather_ST", 16, 2)] == [(row.name, row.grid, row.count) for row in piece.kernels]
    assert 0 == piece.counters["null_windows"]


def test_who_cannot_look_says_why() -> None:
    """And who runs no kernels has no such evidence."""
    backend = FakeBackend()
    backend.refuses = True
    (piece,) = _finish(_run(backend, 64)[0]).evidence
    assert ("no package", None, ()) == (piece.error, piece.calls, piece.kernels)
    assert () == _finish(_run(FakeBackend(capture=False), 64)[0]).evidence


def test_memory_before_with_and_after() -> None:
    """The set is alive in the middle alone."""
    cell = _finish(_run(FakeBackend(), 64, 36)[0])
    free = (cell.memory.free_before_bytes, cell.memory.free_after_bytes, cell.memory.free_released_bytes)
    assert (10**9, 10**9 - 100, 10**9) == free
    assert (100, 100, 2) == (cell.memory.buffers_bytes, cell.memory.registered_bytes, cell.process.num_windows)
    assert (7.0, {"blocks": 1.0}) == (cell.communicator_us, cell.stage_seconds)


@pytest.mark.parametrize(("arm", "pool", "window_bytes"), [("symm", "window", 96), ("registered", "registered", None)])
def test_the_arm_decides_the_pool(arm: str, pool: str, window_bytes: int | None) -> None:
    """Windows have bytes of their own."""
    side = _finish(_run(FakeBackend(), 64, 32, arm=arm)[0]).side
    assert (pool, window_bytes, 2, 64, f"fake:{pool}") == (
        side.registration,
        side.window_bytes,
        side.num_slots,
        side.slot_stride_bytes,
        side.allocator,
    )


def test_copy_engines_have_a_stage_of_their_own() -> None:
    """Their first collective has hung in its own way."""
    _, stages = (made := _run(FakeBackend(cta_policy="zero"), 64))
    _finish(made[0])
    assert "copy_engine" in stages and "first_collective" not in stages


def test_a_flipped_element_is_wrong() -> None:
    """Tests ask for it."""
    assert 1 == _finish(_run(FakeBackend(), 64)[0], corrupt=True).verification.num_wrong


def test_a_cell_survives_its_journey() -> None:
    """It travels as JSON."""
    cell = _finish(_run(FakeBackend(), 64, is_first=False)[0])
    assert cell == RankRegistration.model_validate_json(json.dumps(json.loads(cell.model_dump_json())))
    assert not cell.is_first
