"""The c10d TCPStore of a run: served by one rank, or by the launcher's agent."""

from datetime import timedelta
from typing import Any

from gtpbench.errors import RunError


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

    try:
        store = TCPStore(address, port, is_master=serve, wait_for_workers=False, timeout=timedelta(seconds=timeout_s))
    except (DistError, RuntimeError, OSError) as error:
        what = "serve the run's store on" if serve else "reach the run's store at"
        cause = str(error).splitlines()[0][:160]
        raise RunError(f"cannot {what} {address}:{port} within {timeout_s:g} s: {cause}") from error
    return store, store.port
