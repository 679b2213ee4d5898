"""The c10d TCPStore of a run: served by one rank, or by the launcher's agent."""

import socket
import time
from datetime import timedelta
from typing import Any

from gtpbench.errors import RunError

_RETRY_S = 0.1


def open_store(address: str, port: int, *, serve: bool, timeout_s: float) -> tuple[Any, int]:
    """A connected `TCPStore` and its port.

    Args:
        address: where the store is served; ignored by the rank that serves it on this host.
        port: 0 for a serving rank means any free port.
        serve: serve the store from this process (its own thread, so it works while this rank is busy).
        timeout_s: how long to try.

    Raises:
        RunError: the address cannot be reached, or the port is taken.
    """
    from torch.distributed import DistError, TCPStore

    if not serve:
        _await_listener(address, port, timeout_s=timeout_s)
    try:
        store = TCPStore(address, port, is_master=serve, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except (DistError, RuntimeError, OSError) as error:
        what = "serve the run's store on" if serve else "use the run's store at"
        raise RunError(f"cannot {what} {address}:{port}: {str(error).splitlines()[0][:160]}") from error
    return store, store.port


def _await_listener(address: str, port: int, *, timeout_s: float) -> None:
    """Wait until somebody listens: the store's own client overshoots its timeout by seconds and fills the log."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            socket.create_connection((address, port), timeout=max(deadline - time.monotonic(), _RETRY_S)).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RunError(
                    f"cannot reach the run's store at {address}:{port} within {timeout_s:g} s: {error}"
                ) from error
            time.sleep(_RETRY_S)
