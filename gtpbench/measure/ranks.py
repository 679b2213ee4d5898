"""Agreement between the ranks of one worker set, through the run's exchange."""

import json
from typing import Any

from gtpbench.backends.base import Exchange


class Ranks:
    """Gathers and broadcasts small JSON values among the ranks of a set. Every call is collective and blocking."""

    def __init__(self, exchange: Exchange, *, prefix: str, rank: int, num_ranks: int, timeout_s: float) -> None:
        """`prefix` must be the set's own; calls are numbered, so all ranks make the same calls in the same order."""
        self._exchange = exchange
        self._prefix = prefix
        self._rank = rank
        self._num_ranks = num_ranks
        self._timeout_s = timeout_s
        self._calls = 0

    def gather(self, value: Any) -> list[Any] | None:
        """All ranks' values in rank order on rank 0, None elsewhere.

        Raises:
            StageTimeout: a rank did not come.
        """
        self._calls += 1
        key = f"{self._prefix}/gather/{self._calls}"
        if self._rank != 0:
            self._exchange.set(f"{key}/{self._rank}", json.dumps(value).encode())
            return None
        others = [self._wait(f"{key}/{rank}") for rank in range(1, self._num_ranks)]
        return [value, *others]

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value on every rank.

        Raises:
            StageTimeout: rank 0 did not come.
        """
        self._calls += 1
        key = f"{self._prefix}/broadcast/{self._calls}"
        if self._rank == 0:
            self._exchange.set(key, json.dumps(value).encode())
            return value
        return self._wait(key)

    def agree_max(self, value: float) -> float:
        """The largest of the ranks' values, on every rank."""
        values = self.gather(value)
        result: float = self.broadcast(None if values is None else max(values))
        return result

    def _wait(self, key: str) -> Any:
        return json.loads(self._exchange.wait(key, timeout_s=self._timeout_s))
