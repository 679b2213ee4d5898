"""Runs a function on N rank processes of a backend, from a forkserver that has torch loaded.

A launch takes a fraction of a second, and a rank that hangs is killed, so that no test can block the suite.
"""

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from gtpbench.backends.base import RankContext, open_backend
from gtpbench.errors import StageTimeout

KILL_AFTER_S = 60.0


class DirectoryExchange:
    """Values as files of a folder: an exchange without torch, for ranks of one host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, key: str, value: bytes) -> None:
        """Publish a value: written aside, then renamed, so that nobody reads half of it."""
        path = self._path(key)
        assert not path.exists(), f"key {key!r} is set twice"
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_bytes(value)
        aside.rename(path)

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        """The value of `key` as soon as it is there.

        Raises:
            StageTimeout: not set in time.
        """
        deadline = time.monotonic() + timeout_s
        path = self._path(key)
        while not path.exists():
            if time.monotonic() > deadline:
                raise StageTimeout(f"nobody set {key!r} within {timeout_s:g} s")
            time.sleep(0.001)
        return path.read_bytes()

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "|")


def run_ranks(
    num_ranks: int,
    work: Callable[..., Any],
    *args: Any,
    backend: str,
    timeout_s: float = 20.0,
    num_nodes: int = 1,
    enter: bool = True,
    kill_after_s: float = KILL_AFTER_S,
    device: int | None = None,
) -> list[Any]:
    """What `work(backend, *args)` returns on each of `num_ranks` processes.

    Args:
        num_ranks: how many.
        work: a module-level function; it gets the backend, opened unless `enter` is false.
        *args: its further arguments.
        backend: name of the backend.
        timeout_s: the context's.
        num_nodes: what the ranks are told; they run on one host all the same.
        enter: open the backend before `work` and close it afterwards.
        kill_after_s: when a hanging rank is killed.
        device: CUDA device that all ranks share; None on CPU ranks.

    Raises:
        AssertionError: a rank failed, with its traceback, or had to be killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy", "torch", "torch.distributed"])
    with tempfile.TemporaryDirectory() as folder:
        server = _store() if backend != "standin" else None
        meeting = server.port if server else folder
        ranks, pipes = [], []
        for rank in range(num_ranks):
            ours, theirs = context.Pipe(duplex=False)
            place = {
                "rank": rank,
                "num_ranks": num_ranks,
                "num_nodes": num_nodes,
                "timeout_s": timeout_s,
                "device": device,
            }
            process = context.Process(target=_rank, args=(theirs, backend, place, meeting, enter, work, args))
            process.start()
            theirs.close()
            ranks.append(process)
            pipes.append(ours)
        patience_s = 0.1
        try:
            results = _collect(pipes, kill_after_s=kill_after_s)
            patience_s = 5.0
            return results
        finally:
            for process in ranks:
                process.join(patience_s)
                if process.is_alive():
                    process.kill()
                    process.join()


def _store() -> Any:
    from torch.distributed import TCPStore

    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def _collect(pipes: list["Connection[Any, Any]"], *, kill_after_s: float) -> list[Any]:
    deadline = time.monotonic() + kill_after_s
    results: dict[int, Any] = {}
    failures = []
    waiting = {pipe: rank for rank, pipe in enumerate(pipes)}
    while waiting:
        ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            failures.append(f"ranks {sorted(waiting.values())} did not finish within {kill_after_s:g} s")
            break
        for pipe in ready:
            rank = waiting.pop(pipe)
            try:
                is_ok, value = pipe.recv()
            except EOFError:
                is_ok, value = False, "died without a word"
            if is_ok:
                results[rank] = value
            else:
                failures.append(f"rank {rank}: {value}")
    assert not failures, "\n".join(failures)
    return [results[rank] for rank in range(len(pipes))]


def _rank(
    pipe: "Connection[Any, Any]",
    backend: str,
    place: dict[str, Any],
    meeting: int | str,
    enter: bool,
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    try:
        opened = open_backend(backend, _context(place, meeting))
        if enter:
            with opened:
                value = work(opened, *args)
        else:
            value = work(opened, *args)
        pipe.send((True, value))
    except BaseException:  # noqa: BLE001 - whatever it is, the test shows it
        pipe.send((False, traceback.format_exc()))
    finally:
        pipe.close()


def _context(place: dict[str, Any], meeting: int | str) -> RankContext:
    if isinstance(meeting, int):
        import torch
        from torch.distributed import TCPStore

        from gtpbench.backends.exchange import TcpExchange

        torch.set_num_threads(1)
        store = TCPStore("127.0.0.1", meeting, is_master=False, timeout=timedelta(seconds=30))
        exchange: Any = TcpExchange(store, prefix="test")
    else:
        exchange = DirectoryExchange(Path(meeting))
    return RankContext(
        **place,
        local_rank=place["rank"],
        local_size=place["num_ranks"],
        node=0,
        set_id=0,
        exchange=exchange,
    )
