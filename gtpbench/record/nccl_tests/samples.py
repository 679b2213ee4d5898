"""From measured times to series of samples. What nccl-tests reduced is said in each series; the two kinds never mix.

| Series | Clock | One sample is |
|---|---|---|
| `step.host` | host | the loop's time over its operations, host clock, reduced over ranks by nccl-tests |
| `step.graph` | graph | the same with `-G`: over the operations of all launches of the graph |
| `step.stream` | stream | with `-I`: from one event to the next, of each process |
| `step.isolated` | isolated | the same with `-z 3`: one iteration by itself, the barrier outside |
"""

from collections.abc import Sequence

from gtpbench.record.model import Clock, Samples
from gtpbench.record.nccl_tests.options import average_of
from gtpbench.record.nccl_tests.output import EventTimes, Measured, Output, OutputRow

_BLOCKING = {
    0: "",
    1: "; host wait and barrier after each operation (-z 1)",
    2: "; host wait after each operation (-z 2)",
    3: "; host wait and barrier after each iteration, the barrier outside the time (-z 3)",
    None: "; host wait after each operation (-z)",
}
"""`-z` -> what it adds to the alignment."""


def samples_of(output: Output, blocks: Sequence[Measured], row: OutputRow, *, skipped: bool) -> dict[str, Samples]:
    """The series of a cell, a block for each of `blocks`.

    Args:
        row: the first of its rows.
        skipped: only what the user wanted out of summaries (`-K`), which is of events; else all the rest.
    """
    settings = output.settings
    found: dict[str, Samples] = {}
    if not skipped:
        clock: Clock = "graph" if settings.graph_launches else "host"
        found[f"step.{clock}"] = _series(
            clock,
            k=row.iterations * settings.aggregated * max(1, settings.graph_launches),
            alignment=f"barrier before the loop{_BLOCKING[settings.blocking]}",
            aggregation=f"{average_of(output)} host-timed loop",
            time_us=(tuple((block.time_us,) for block in blocks),),
        )
    events = [block.events for block in blocks if block.events]
    if len(events) < len(blocks) or settings.aggregated > 1:
        return found
    alone = settings.blocking == 3
    clock = "isolated" if alone else "stream"
    rows = list(zip(*(_cut(block, skipped=skipped) for block in events), strict=True))
    if rows[0][0]:
        found[f"step.{clock}"] = _series(
            clock,
            k=1,
            alignment="barrier before each iteration"
            if alone
            else f"none: event to event{_BLOCKING[settings.blocking]}",
            aggregation=_reduced(output, events[0]),
            time_us=tuple(rows),
        )
    return found


def _cut(events: EventTimes, *, skipped: bool) -> list[tuple[float, ...]]:
    number = events.num_skipped
    return [times[:number] if skipped else times[number:] for times in events.time_us]


def _reduced(output: Output, events: EventTimes) -> str | None:
    """What was reduced before the event times were written: nothing where each process has one GPU."""
    if not events.of_processes:
        return "maximum over ranks of each iteration"
    one_each = len(output.processes) == output.num_ranks
    return None if one_each else "maximum over each process's GPUs of each iteration"


def _series(
    clock: Clock, *, k: int, alignment: str, aggregation: str | None, time_us: tuple[tuple[tuple[float, ...], ...], ...]
) -> Samples:
    return Samples.model_validate(
        {
            "clock": clock,
            "k": k,
            "alignment": alignment,
            "aggregation": aggregation,
            "time_us": time_us,
            "block_start_us": (),
            "block_wall_us": (),
        }
    )
