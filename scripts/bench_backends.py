"""Times cpu_window against gloo, interleaved, and against a memcpy run by all ranks at once.

    python scripts/bench_backends.py

16 MiB in total, main threads pinned to cores, one compute thread each. A figure is the median over iterations of the
maximum over ranks. `wire` is what rank 0's node sent over loopback for one gloo operation, over what `wire_bytes` says.
"""

import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

from gtpbench.backends.base import Backend, Buffer, RankContext, open_backend

TOTAL_BYTES = 16 * 2**20
NUM_ROUNDS = 15
ITERATIONS = 3
CASES = tuple((collective, dtype) for collective in ("all_gather", "reduce_scatter") for dtype in ("bf16", "fp32"))
TARGETS = {
    ("all_gather", "bf16"): 3.0,
    ("all_gather", "fp32"): 3.0,
    ("reduce_scatter", "bf16"): 2.5,
    ("reduce_scatter", "fp32"): 5.0,
}
Work = Callable[[], None]


def main() -> None:
    """Print one table for 2 and one for 4 ranks."""
    for num_ranks in (2, 4):
        print(f"\n{num_ranks} ranks, 16 MiB in total, {os.cpu_count()} cores")
        print("case                    gloo ms  window ms  ratio  target  memcpy ms  share   wire")
        for case, row in measure(num_ranks).items():
            ratio, share = row["gloo"] / row["window"], row["memcpy"] / row["window"]
            name = " ".join(case)
            print(
                f"{name:22} {row['gloo'] / 1e3:8.2f} {row['window'] / 1e3:10.2f} {ratio:6.2f} {TARGETS[case]:7.1f} "
                f"{row['memcpy'] / 1e3:10.2f} {share:6.0%} {row['wire']:6.3f}"
            )


def measure(num_ranks: int) -> dict[tuple[str, str], dict[str, float]]:
    """Medians in microseconds of the maximum over ranks, per case."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed"])
    pool = [context.Pipe(duplex=False) for _ in range(num_ranks)]
    processes = [
        context.Process(target=rank_main, args=(rank, num_ranks, store.port, pool[rank][1]))
        for rank in range(num_ranks)
    ]
    for process in processes:
        process.start()
    for _, theirs in pool:
        theirs.close()
    told = [ours.recv() for ours, _ in pool]
    for process in processes:
        process.join()
    return {
        case: {
            what: statistics.median(map(max, zip(*(rank[case][what] for rank in told), strict=True)))
            for what in ("gloo", "window", "memcpy")
        }
        | {"wire": told[0][case]["wire"]}
        for case in CASES
    }


def rank_main(rank: int, num_ranks: int, port: int, pipe: Any) -> None:
    """One rank: all cases on both backends, in turn."""
    import torch
    from torch.distributed import TCPStore

    from gtpbench.backends.exchange import TcpExchange

    torch.set_num_threads(1)
    context = RankContext(
        rank=rank,
        num_ranks=num_ranks,
        local_rank=rank,
        local_size=num_ranks,
        node=0,
        num_nodes=1,
        set_id=0,
        exchange=TcpExchange(TCPStore("127.0.0.1", port, is_master=False), prefix="bench"),
        timeout_s=60.0,
    )
    with open_backend("gloo", context) as gloo, open_backend("cpu_window", context) as window:
        os.sched_setaffinity(0, {rank % (os.cpu_count() or 1)})  # this thread alone, as a run does
        pairs = {case: (sides(gloo, case, "plain"), sides(window, case, "window")) for case in CASES}
        window.register("window")
        pipe.send({case: time_case(gloo, window, case, *pairs[case]) for case in CASES})


def sides(backend: Backend, case: tuple[str, str], pool: Any) -> tuple[Buffer, Buffer]:
    """Send and receive buffers of a case, filled."""
    collective, dtype = case
    total = TOTAL_BYTES // (2 if dtype == "bf16" else 4)
    share = total // backend.context.num_ranks
    counts = (share, total) if collective == "all_gather" else (total, share)
    send, recv = (backend.alloc(count, dtype=dtype, pool=pool) for count in counts)
    backend.fill(send, seed=1, kind="uniform")
    backend.poison(recv)
    return send, recv


def time_case(
    gloo: Backend, window: Backend, case: tuple[str, str], plain: tuple[Buffer, Buffer], mapped: tuple[Buffer, Buffer]
) -> dict[str, Any]:
    """Microseconds of each iteration on this rank, the three in turn within each round."""
    source, target = plain[0].handle, mapped[1].handle
    both = (plain[1].handle, mapped[1].handle)

    def memcpy() -> None:
        # The bytes of an all-gather: the whole result, one rank's part at a time.
        part = min(source.numel(), target.numel())
        for first in range(0, max(source.numel(), target.numel()), part):
            if target.numel() > part:
                target[first : first + part].copy_(source)
            else:
                target.copy_(source[first : first + part])

    works: dict[str, Work] = {
        "gloo": lambda: issue(gloo, case, *plain),
        "window": lambda: issue(window, case, *mapped),
        "memcpy": memcpy,
    }
    times: dict[str, Any] = {what: [] for what in works}
    queue = window.queue("main")
    before = gloo.witness().counters.get("sent_bytes", 0)
    for number in range(NUM_ROUNDS):
        for what, work in works.items():
            times[what] += [timed(window, work, queue) for _ in range(ITERATIONS)][1 if number else 2 :]
    sent = gloo.witness().counters.get("sent_bytes", 0) - before
    expected = gloo.wire_bytes(case[0], TOTAL_BYTES) * gloo.context.num_ranks * NUM_ROUNDS * ITERATIONS
    times["wire"] = sent / expected
    issue(window, case, *mapped)
    assert (both[0].float() - both[1].float()).abs().max().item() < 0.1, "the backends disagree"
    window.barrier(queue)
    return times


def timed(backend: Backend, work: Work, queue: Any) -> float:
    """Microseconds of one aligned run of `work`."""
    backend.barrier(queue)
    start = backend.record(queue)
    work()
    return backend.elapsed_us(start, backend.record(queue))


def issue(backend: Backend, case: tuple[str, str], send: Buffer, recv: Buffer) -> None:
    """One collective."""
    queue = backend.queue("main")
    if case[0] == "all_gather":
        backend.all_gather(send, recv, queue=queue)
    else:
        backend.reduce_scatter(send, recv, op="sum", queue=queue)


if __name__ == "__main__":
    sys.exit(main())
