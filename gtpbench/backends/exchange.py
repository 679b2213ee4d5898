"""The exchange of backends that have torch: a c10d store under a prefix."""

from datetime import timedelta
from typing import Any

from gtpbench.errors import RunError, StageTimeout


class TcpExchange:
    """Values in a c10d store. Waiting blocks in the store's socket, so it costs no CPU.

    One store serves one request at a time: a thread that waits keeps the process's other threads from the same
    store. A watchdog needs a store connection of its own.
    """

    def __init__(self, store: Any, *, prefix: str) -> None:
        """Put `prefix` before every key of a c10d `Store`. Local."""
        from torch.distributed import PrefixStore

        self.store: Any = PrefixStore(prefix, store)
        """The prefixed store, for `init_process_group`."""

    def set(self, key: str, value: bytes) -> None:
        """Publish a value. Local."""
        self.store.set(key, value)

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        """Block until `key` is set, and return its value. Local.

        Raises:
            StageTimeout: not set in time.
            RunError: the store cannot be reached.
        """
        from torch.distributed import DistNetworkError, DistStoreError

        try:
            self.store.wait([key], timedelta(seconds=timeout_s))
            return bytes(self.store.get(key))
        except DistStoreError as error:
            raise StageTimeout(f"nobody set {key!r} in the store within {timeout_s:g} s") from error
        except DistNetworkError as error:
            raise RunError(f"lost the store while waiting for {key!r}: {error}") from error
