"""Agreement between ranks through an exchange."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gtpbench.errors import StageTimeout
from gtpbench.measure.ranks import Ranks


class DictExchange:
    """An exchange for threads. A key is set once."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        with self._changed:
            assert key not in self.values
            self.values[key] = value
            self._changed.notify_all()

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: key in self.values, timeout=timeout_s):
                raise StageTimeout(f"{key} was not set")
            return self.values[key]


def _on_all(
    num_ranks: int, work: Callable[[Ranks, int], Any], exchange: DictExchange, *, prefix: str = "s"
) -> list[Any]:
    def one(rank: int) -> Any:
        return work(Ranks(exchange, prefix=prefix, rank=rank, num_ranks=num_ranks, timeout_s=5.0), rank)

    with ThreadPoolExecutor(num_ranks) as pool:
        return list(pool.map(one, range(num_ranks)))


@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_gather_is_in_rank_order_on_rank_0(num_ranks: int) -> None:
    """None elsewhere."""
    results = _on_all(num_ranks, lambda ranks, rank: ranks.gather({"rank": rank}), DictExchange())
    assert [[{"rank": rank} for rank in range(num_ranks)], *[None] * (num_ranks - 1)] == results


def test_broadcast_gives_rank_0s_value_to_all() -> None:
    """Whatever the others hold."""
    assert [["a", 1]] * 3 == _on_all(
        3, lambda ranks, rank: ranks.broadcast(["a", 1] if rank == 0 else None), DictExchange()
    )


def test_agree_max_is_the_same_on_all() -> None:
    """The largest value, to the last bit."""
    values = [0.1 + 0.2, 3.0000000000000004, -1.0]
    assert [3.0000000000000004] * 3 == _on_all(3, lambda ranks, rank: ranks.agree_max(values[rank]), DictExchange())


def test_calls_do_not_mix() -> None:
    """Each call has keys of its own, and so has each set."""
    exchange = DictExchange()

    def work(ranks: Ranks, rank: int) -> list[float]:
        return [ranks.agree_max(float(rank * number)) for number in range(4)]

    assert [[0.0, 1.0, 2.0, 3.0]] * 2 == _on_all(2, work, exchange, prefix="set0")
    assert [[0.0, 1.0, 2.0, 3.0]] * 2 == _on_all(2, work, exchange, prefix="set1")


def test_a_rank_that_does_not_come_ends_the_wait() -> None:
    """With the exchange's error."""
    ranks = Ranks(DictExchange(), prefix="s", rank=0, num_ranks=2, timeout_s=0.01)
    with pytest.raises(StageTimeout, match=r"s/gather/1/1"):
        ranks.gather(0)
