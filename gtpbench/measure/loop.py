"""The only timing loop."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gtpbench.backends.base import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTimes:
    """One block on one rank, microseconds; `time_us` and `issue_us` are for one operation."""

    time_us: tuple[float, ...]
    issue_us: tuple[float, ...]
    start_us: float
    wall_us: float


def run_block(
    backend: Backend,
    interval: Callable[[int], None],
    *,
    align: Callable[[], None],
    align_once: bool,
    queue: Any,
    samples: int,
    k: int,
    first_iteration: int,
    epoch_ns: int,
) -> BlockTimes:
    """Time `samples` intervals of `k` operations each. Collective.

    Args:
        interval: enqueues `k` operations from the iteration whose number it is given, so that buffers keep rotating.
        align: lines the ranks up on the queue.
        align_once: align before the first interval only; each interval then lines up the next.
        epoch_ns: `time.perf_counter_ns` value that start times count from.
    """
    record, mark, now_ns = backend.record, backend.context.mark, time.perf_counter_ns
    events, issued_ns = [], []
    iteration = first_iteration
    began_ns = now_ns()
    for number in range(samples):
        mark(iteration)
        if number == 0 or not align_once:
            align()
        start = record(queue)
        before_ns = now_ns()
        interval(iteration)
        issued_ns.append(now_ns() - before_ns)
        iteration += k
        events.append((start, record(queue)))
    backend.host_sync(queue)
    ended_ns = now_ns()
    return BlockTimes(
        time_us=tuple(round(backend.elapsed_us(start, end) / k, 4) for start, end in events),
        issue_us=tuple(round(each / k / 1e3, 4) for each in issued_ns),
        start_us=round((began_ns - epoch_ns) / 1e3, 1),
        wall_us=round((ended_ns - began_ns) / 1e3, 1),
    )
