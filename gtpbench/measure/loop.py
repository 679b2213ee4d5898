"""The only timing loop."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gtpbench.backends.base import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTimes:
    """One block on one rank, microseconds; `time_us` is for one operation."""

    time_us: tuple[float, ...]
    start_us: float
    wall_us: float


def run_block(
    backend: Backend,
    step: Callable[[int], None],
    *,
    queue: Any,
    samples: int,
    k: int,
    first_iteration: int,
    epoch_ns: int,
) -> BlockTimes:
    """Time `samples` intervals of `k` steps each, the ranks lined up before every interval. Collective.

    Args:
        step: enqueues the iteration whose number it is given.
        first_iteration: number of the first step; steps are numbered through so that buffers keep rotating.
        epoch_ns: `time.perf_counter_ns` value that start times count from.
    """
    barrier, record, mark = backend.barrier, backend.record, backend.context.mark
    events = []
    iteration = first_iteration
    began_ns = time.perf_counter_ns()
    for _ in range(samples):
        mark(iteration)
        barrier(queue)
        start = record(queue)
        for _ in range(k):
            step(iteration)
            iteration += 1
        events.append((start, record(queue)))
    backend.host_sync(queue)
    ended_ns = time.perf_counter_ns()
    return BlockTimes(
        time_us=tuple(round(backend.elapsed_us(start, end) / k, 4) for start, end in events),
        start_us=round((began_ns - epoch_ns) / 1e3, 1),
        wall_us=round((ended_ns - began_ns) / 1e3, 1),
    )
