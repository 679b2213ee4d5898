"""From an output of nccl-tests to records: one for each size, type, operation and placement.

A size that the file holds several times (`-N`) has a block for each.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from gtpbench import __version__
from gtpbench.arms import ArmSpec
from gtpbench.collectives import COLLECTIVES, CollectiveName, ReduceOp, dtype_named
from gtpbench.errors import UsageError
from gtpbench.plan import Arm, Case, digest, make_case
from gtpbench.record.model import BlockState, Proof, ProofItem, Reason, Record, Verification
from gtpbench.record.nccl_tests.environment import shared_gpus
from gtpbench.record.nccl_tests.output import Measured, Output, OutputRow
from gtpbench.record.nccl_tests.samples import samples_of

Warn = Callable[[str], None]
NO_EVIDENCE = "imported: no evidence of the path in the file"
_OPS: dict[str, ReduceOp] = {"sum": "sum", "avg": "avg"}


class _LeftOut(Exception):
    """Why a row has no case here."""


def arm_record(spec: ArmSpec) -> Arm:
    """The arm as records carry it."""
    return Arm(
        name=spec.name,
        backend="nccl-tests",
        registration=spec.registration,
        sides=spec.sides,
        multicast=spec.multicast,
        cta_policy=spec.cta_policy,
        family=spec.family,
        env={},
    )


def plan_part(output: Output, arm: Arm) -> list[Any]:
    """What decides whether runs were of one plan."""
    return [output.program, arm.name, dict(output.settings.plan)]


def records_of(output: Output, arm: Arm, *, plan_digest: str, launch: int, warn: Warn) -> tuple[list[Record], int]:
    """The records of one output, and how many rows were left out; each reason for that is told once."""
    cells: dict[str, tuple[Case, list[Measured], OutputRow]] = {}
    left_out: Counter[str] = Counter()
    first: dict[str, str] = {}
    for row in output.rows:
        try:
            cases = _cases(output, row)
        except (_LeftOut, UsageError) as error:
            first.setdefault(str(error), row.where)
            left_out[str(error)] += 1
            continue
        for case, measured in cases:
            cells.setdefault(case.case_id, (case, [], row))[1].append(measured)
    for reason, number in left_out.items():
        more = f" ({number} rows)" if number > 1 else ""
        warn(f"{first[reason]}: left out: {reason}{more}")
    if output.settings.aggregated > 1 and any(m.events for _, blocks, _ in cells.values() for m in blocks):
        warn(f"{output.path}: left out: times of single iterations, which hold several operations each (-m)")
    records = [
        _record(output, case, blocks, row, arm=arm, plan_digest=plan_digest, launch=launch)
        for case, blocks, row in cells.values()
    ]
    return records, left_out.total()


def _cases(output: Output, row: OutputRow) -> list[tuple[Case, Measured]]:
    """The cases of a row, one for each placement.

    Raises:
        _LeftOut: the collective or the operation is not known, the size does not fit, or nothing was measured.
        UsageError: the type is not known.
    """
    collective = _collective(output.program)
    reduces = COLLECTIVES[collective].reduces
    if reduces and row.op not in _OPS:
        raise _LeftOut(f"unknown operation {row.op!r}: one of {', '.join(_OPS)}")
    dtype = dtype_named(row.dtype)
    if not row.size_bytes:
        raise _LeftOut("nothing was sent: less than an element for each rank")
    if row.size_bytes != row.count * dtype.size_bytes * output.num_ranks:
        raise _LeftOut(f"size is not count x {dtype.size_bytes} B x {output.num_ranks} ranks")
    if not row.placements:
        raise _LeftOut("no placement was measured")
    return [
        (
            make_case(
                collective,
                op=_OPS[row.op] if reduces else None,
                dtype=dtype.name,
                requested_bytes=row.size_bytes,
                size_bytes=row.size_bytes,
                num_ranks=output.num_ranks,
                placement=placement,
                hot=False,  # nccl-tests moves through its largest buffer; only its largest size has no room to
            ),
            measured,
        )
        for placement, measured in row.placements.items()
    ]


def _collective(program: str) -> CollectiveName:
    match = re.fullmatch(r"(\w+)_perf\w*", program)
    if match is None or match[1] not in COLLECTIVES:
        raise _LeftOut(f"unknown collective of program {program!r}: one of {', '.join(COLLECTIVES)}")
    return COLLECTIVES[match[1]].name


def _record(
    output: Output, case: Case, blocks: Sequence[Measured], row: OutputRow, *, arm: Arm, plan_digest: str, launch: int
) -> Record:
    status, reason = _status(blocks)
    timed = status == "ok"
    return Record.model_validate(
        {
            "tool_version": __version__,
            "case_id": case.case_id,
            "arm": arm.name,
            "status": status,
            "reason": reason,
            "origin": "imported",
            "case": case,
            "arm_spec": arm,
            "case_digest": digest(case.model_dump(mode="json")),
            "arm_digest": digest(arm.model_dump(mode="json")),
            "plan_digest": plan_digest,
            "launch": launch,
            "environment_id": output.identity,
            "samples": samples_of(output, blocks, row, skipped=False) if timed else {},
            "warmup": samples_of(output, blocks, row, skipped=True) if timed else {},
            "proof": _proof(case),
            "verification": _verification(case, blocks),
            "block_states": tuple(
                BlockState(rank=rank, block=block, other_processes=others)
                for block in range(len(blocks))
                for rank, others in shared_gpus(output).items()
            ),
        }
    )


def _status(blocks: Sequence[Measured]) -> tuple[str, Reason | None]:
    num_wrong = sum(block.num_wrong or 0 for block in blocks)
    if num_wrong:
        return "wrong_result", Reason(code="wrong_data", text=f"{num_wrong} wrong elements, counted by nccl-tests")
    bad = next((block.time_us for block in blocks if not (math.isfinite(block.time_us) and block.time_us > 0)), None)
    if bad is not None:
        return "error", Reason(code="no_time", text=f"the file gives {bad} us as its time")
    return "ok", None


def _proof(case: Case) -> Proof:
    item = ProofItem(
        role="collective",
        collective=case.collective,
        size_bytes=case.size_bytes,
        verdict="unproven",
        path="unknown",
        statement=NO_EVIDENCE,
    )
    return Proof(verdict="unproven", path="unknown", items=(item,), evidence=())


def _verification(case: Case, blocks: Sequence[Measured]) -> Verification:
    """nccl-tests checks one more operation after each loop; the timed ones are not looked at."""
    num_checked = sum(block.num_wrong is not None for block in blocks)
    elements = COLLECTIVES[case.collective].recv_bytes(case.size_bytes, num_ranks=case.num_ranks) * case.num_ranks
    return Verification(
        num_slots=min(num_checked, 1),
        poisoned=False,
        num_wrong=sum(block.num_wrong or 0 for block in blocks),
        num_checked=num_checked * elements // dtype_named(case.dtype).size_bytes,
        max_error=0.0,
        rms_error=0.0,
        tolerance=0.0,
        counts_only=True,
    )
