"""What the ranks of a cell send, made by hand, and the record of it."""

from typing import Any

from gtpbench.launch.assemble import measured_record
from gtpbench.measure.cell import RankCell, RankClock, RankSeries
from gtpbench.plan import Plan
from gtpbench.record import Record
from gtpbench.record.model import BlockState, Execution, Memory, ProcessState, Side, Verification
from tests.examples import make_plan

PLAN = make_plan(workload={"collectives": ["all_gather"], "sizes": ["64K"], "dtypes": ["fp32"]})
ESSENTIAL = 32768
"""Half of 64 KiB: what one of two ranks sends."""


def make_clock(rank: int, *, k: int = 2, alignment: str = "flag barrier", issue_us: float = 1.0) -> RankClock:
    """Two blocks of three intervals, after warm-ups of one interval each."""
    return RankClock(
        k=k,
        alignment=alignment,
        timed=RankSeries(
            time_us=((10.0 + rank, 11.0, 12.0), (13.0, 14.0, 15.0)),
            issue_us=((issue_us,) * 3,) * 2,
            start_us=(0.0, 100.0),
            wall_us=(50.0, 60.0),
        ),
        warmup=RankSeries(
            time_us=((90.0,), (91.0,)), issue_us=((issue_us,),) * 2, start_us=(0.0, 90.0), wall_us=(5.0, 6.0)
        ),
    )


def make_cell(rank: int, *, checked: dict[str, Any] | None = None, **changed: Any) -> RankCell:
    """Two blocks of three intervals of two operations, after a warm-up of two operations each; on a CPU."""
    side = Side(
        allocator="gloo:plain",
        registration="plain",
        window_offset_bytes=None,
        window_bytes=None,
        alignment_bytes=4096,
        num_slots=4,
        slot_stride_bytes=65536,
        in_place=False,
        l2_resident=True,
    )
    fields: dict[str, Any] = {
        "rank": rank,
        "clocks": {"host": make_clock(rank)},
        "operations": 16,
        "counters": {"sent_bytes": 2 * 16 * ESSENTIAL} if rank == 0 else {},
        "evidence": (),
        "verification": Verification(
            **{
                "num_slots": 4,
                "poisoned": True,
                "num_wrong": 0,
                "num_checked": 100,
                "max_error": 0.25 * rank,
                "rms_error": 0.3 if rank == 0 else 0.4,
                "tolerance": 0.5,
                **(checked or {}),
            }
        ),
        "essential_bytes": ESSENTIAL,
        "wire_bytes": ESSENTIAL + rank,
        "sides": {"send": side, "recv": side},
        "process": ProcessState(
            rank=rank, process_group="gloo", num_communicators=1, num_windows=0, num_pools=1, coalesced="emulated"
        ),
        "memory": Memory(rank=rank, buffers_bytes=1, registered_bytes=0, free_before_bytes=None, free_after_bytes=None),
        "communicator_us": 1000.0 + rank,
        "registration_us": 0.0,
        "num_registrations": 0,
        "first_registration": False,
        "deregistration_us": 0.0,
        "capture_us": None,
        "block_states": tuple(
            BlockState(rank=rank, block=block, load_average=load) for block, load in enumerate((0.5, 0.75))
        ),
        "stage_seconds": {"warmup": 1.0 + rank, "verify": 2.0 - rank},
    }
    return RankCell(**{**fields, **changed})


EXECUTION = Execution(
    run_id="run",
    attempt=0,
    set_id=0,
    seed=0,
    block_order=(("none", "symm"), ("symm", "none")),
    case_position=0,
    group_ranks=(0, 1),
    num_iterations=12,
)


def measured(
    *cells: RankCell, plan: Plan = PLAN, arm: str = "none", log_lines: tuple[str, ...] | None = None
) -> Record:
    """The record of these cells, or of two ranks' of `make_cell`."""
    return measured_record(
        plan,
        plan.cases[0],
        plan.arm(arm),
        cells or (make_cell(0), make_cell(1)),
        execution=EXECUTION,
        launch=3,
        environment_id="e3",
        nccl_version="2.30.7",
        log_lines=log_lines,
        fault=None,
    )
