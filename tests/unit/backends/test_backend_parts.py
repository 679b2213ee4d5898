"""The parts of the CPU backends that need no rank processes."""

import itertools
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed import TCPStore

from gtpbench.backends import BACKENDS, interfaces, shared_memory
from gtpbench.backends.base import RankContext, open_backend
from gtpbench.backends.exchange import TcpExchange
from gtpbench.backends.generated import CHUNK, Comparison, flip_amount, generate
from gtpbench.backends.reducer import BLOCK, Reducer
from gtpbench.backends.rendezvous import Rendezvous, compare_allocations
from gtpbench.backends.shared_memory import FlagBarrier, Segment, open_segment, require_x86_64
from gtpbench.collectives import DTYPES, Reference, Source, tolerance
from gtpbench.errors import RunError, StageTimeout, UnsupportedError, UsageError

_sets = itertools.count(1000)


class PlayedExchange:
    """An exchange whose other ranks' values are made up by the test: by part of the key, then by rank."""

    def __init__(self, **played: list[bytes | None]) -> None:
        self._played = played
        self.asked: list[str] = []

    def set(self, key: str, value: bytes) -> None:
        self.mine = value

    def wait(self, key: str, *, timeout_s: float) -> bytes:
        self.asked.append(key)
        rank = int(key.rsplit("/", 1)[1])
        what = key.rsplit("/", 2)[1].rsplit(maxsplit=1)[-1]
        value = self._played[what][rank] if what in self._played else self.mine
        if value is None:
            raise StageTimeout(key)
        return value


def context(num_ranks: int = 2, **changes: Any) -> RankContext:
    fields: dict[str, Any] = {
        "rank": 0,
        "num_ranks": num_ranks,
        "local_rank": 0,
        "local_size": num_ranks,
        "node": 0,
        "num_nodes": 1,
        "set_id": next(_sets),
        "exchange": PlayedExchange(),
        "timeout_s": 0.05,
    }
    return RankContext(**{**fields, **changes})


def test_no_torch_before_it_is_needed() -> None:
    """The protocol, the shared memory and the stand-in load without torch: they run where there is none."""
    modules = ("base", "shared_memory", "shared_page", "window_pool", "exchange", "interfaces", "standin")
    names = ", ".join(f"gtpbench.backends.{name}" for name in modules)
    code = f"import sys, {names}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_segment_is_shared_and_outlives_its_descriptor() -> None:
    """What the owner writes shows in the peer's mapping, before and after the descriptor is closed."""
    segment = Segment(100, label="gtpbench.test")
    theirs = open_segment(segment.address(), writable=False)
    segment.memory[99] = 7
    assert theirs[99] == 7
    segment.close()
    segment.close()
    segment.memory[0] = 8
    assert theirs[0] == 8
    with pytest.raises(RunError, match="cannot be opened"):
        open_segment(segment.address(), writable=False)


def test_a_segment_is_unmapped_with_its_last_view() -> None:
    """Memory stays mapped while an array of it lives, and no longer."""

    def is_mapped() -> bool:
        return "gtpbench.lastview" in Path("/proc/self/maps").read_text(encoding="utf-8")

    segment = Segment(4096, label="gtpbench.lastview")
    view = torch.frombuffer(segment.memory, dtype=torch.float32)
    segment.close()
    del segment
    assert is_mapped()
    view.fill_(1.0)
    del view
    assert not is_mapped()


def test_a_strangers_descriptor_is_not_opened(tmp_path: Path) -> None:
    """A process number that means another process is noticed by the memory's name."""
    segment = Segment(8, label="gtpbench.test")
    with (tmp_path / "file").open("wb") as other:
        address = segment.address().replace(f" {segment._fd},".encode(), f" {other.fileno()},".encode())
        assert address != segment.address()
        with pytest.raises(RunError, match="PID namespace"):
            open_segment(address, writable=False)
    segment.close()


def test_memory_that_cannot_be_mapped_is_an_os_error() -> None:
    """A bad descriptor is an error with its reason, not a null pointer."""
    with pytest.raises(OSError, match="Bad file descriptor"):
        shared_memory.map_memory(10_000_000, 8, writable=True)


def test_other_processors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain stores order flags on x86-64 only."""
    require_x86_64("cpu_window")
    monkeypatch.setattr(shared_memory.platform, "machine", lambda: "aarch64")
    with pytest.raises(UnsupportedError, match="aarch64") as caught:
        require_x86_64("cpu_window")
    assert caught.value.code == "machine"


def test_barrier_names_all_absent_ranks() -> None:
    """A barrier that ranks 1 and 2 never enter says so."""
    alone = context(num_ranks=3)
    barrier = FlagBarrier(Rendezvous(alone, name="test"), alone)
    with pytest.raises(StageTimeout, match=r"waited 0.05 s for rank 1, 2$"):
        barrier.wait()


def test_barrier_passes_a_rank_that_is_ahead() -> None:
    """A peer that has entered the next barrier already counts as arrived at this one."""
    alone = context()
    barrier = FlagBarrier(Rendezvous(alone, name="test"), alone)
    barrier._flags[8] = 2
    barrier.wait()
    barrier.wait()
    with pytest.raises(StageTimeout, match="barrier 3: "):
        barrier.wait()


def test_rendezvous_names_who_is_missing_and_never_reuses_a_key() -> None:
    """Every round and every backend of the same set has keys of its own; absent ranks are named together."""
    exchange = PlayedExchange(second=[b"", None, b"", None])
    here = context(num_ranks=4, exchange=exchange)
    rendezvous = Rendezvous(here, name="test")
    assert rendezvous.gather("first", b"x") == [b"x"] * 4
    with pytest.raises(StageTimeout, match=r"rank 0: second: waited 0.05 s for rank 1, 3$"):
        rendezvous.gather("second")
    rendezvous.gather("first")
    Rendezvous(here, name="test").gather("first")
    assert len(exchange.asked) == len(set(exchange.asked)) == 16
    assert all(key.startswith(f"set{here.set_id}/test") for key in exchange.asked)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (b'[["fp32", 8]]', "rank 1 and rank 0 differ at allocation 1 of the window pool: rank 1 made nothing"),
        (b'[["fp32", 8], ["bf16", 4]]', "allocation 1 .* rank 1 made 4 x bf16, rank 0 made 4 x fp32"),
        (b'[["fp32", 8], ["fp32", 4], ["fp32", 1]]', "allocation 2 .* made 1 x fp32, rank 0 made nothing"),
    ],
)
def test_allocations_that_differ_are_named(other: bytes, message: str) -> None:
    """Missing, different and additional allocations are all found, with the number of the first."""
    mine = b'[["fp32", 8], ["fp32", 4]]'
    here = context(exchange=PlayedExchange(allocations=[mine, other]))
    with pytest.raises(RunError, match=message):
        compare_allocations(Rendezvous(here, name="test"), "window", [("fp32", 8), ("fp32", 4)])


def test_equal_allocations_pass() -> None:
    """Nothing is said where all ranks did the same."""
    compare_allocations(Rendezvous(context(), name="test"), "window", [("fp32", 8)])


def hashed(index: int, *, seed: int, rank: int) -> int:
    """`collectives.pattern` in plain integers."""
    mask = 2**32 - 1
    x = (index * 0x9E3779B1 + seed * 0x85EBCA6B + rank * 0xC2B2AE35) & mask
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & mask
    return x ^ (x >> 16)


def test_generated_data_is_the_pattern_at_any_place() -> None:
    """Elements far into the data are those of plain integer arithmetic, also beyond 2^31."""
    for start in (0, 12345, 2**31 - 2):
        run = Source(rank=3, start=start, count=4)
        made = generate(run, seed=7, kind="uniform", num_ranks=4)
        expected = [(hashed(start + i, seed=7, rank=3) & 0xFFFFFF) / 2**23 - 1 for i in range(4)]
        assert made.tolist() == expected


def comparison(actual: np.ndarray, *, num_ranks: int = 2) -> Comparison:
    return Comparison(
        read=lambda first, last: actual[first:last].astype(np.float64),
        rounded=lambda exact: exact.astype(np.float32).astype(np.float64),
        num_ranks=num_ranks,
    )


def test_comparison_counts_errors_across_chunks() -> None:
    """One error of 0.5 in each of two chunks: two wrong, largest 0.5, squares 0.5; NaN and infinity are wrong too and
    leave the figures finite."""
    count = CHUNK + 10
    run = Source(rank=1, start=5, count=count)
    wanted = Reference(pieces=((run,),), seed=3, kind="integers")
    actual = generate(run, seed=3, kind="integers", num_ranks=2)
    assert comparison(actual).check(wanted, count=count, tolerance=0.0).num_wrong == 0
    actual[[0, count - 1]] += 0.5
    result = comparison(actual).check(wanted, count=count, tolerance=0.25)
    assert (result.num_wrong, result.num_checked) == (2, count)
    assert (result.max_error, result.sum_squared_error) == (0.5, 0.5)
    actual[1:3] = np.nan, np.inf
    result = comparison(actual).check(wanted, count=count, tolerance=0.25)
    assert (result.num_wrong, result.max_error, result.sum_squared_error) == (4, 0.5, 0.5)


def test_a_reference_of_another_size_is_refused() -> None:
    """A reference that describes more or fewer elements than the buffer has checks nothing, so it is an error."""
    wanted = Reference(pieces=((Source(rank=0, start=0, count=4),),), seed=3, kind="integers")
    with pytest.raises(UsageError, match="describes 4 elements, the buffer has 5"):
        comparison(np.zeros(5)).check(wanted, count=5, tolerance=0.0)


def test_comparison_averages() -> None:
    """The reference of an average is the sum over the number of sources."""
    runs = tuple(Source(rank=rank, start=0, count=50) for rank in range(2))
    wanted = Reference(pieces=(runs,), seed=3, kind="integers", op="avg")
    first, second = (generate(run, seed=3, kind="integers", num_ranks=2) for run in runs)
    assert comparison((first + second) / 2).check(wanted, count=50, tolerance=0.0).num_wrong == 0


@pytest.mark.parametrize("num_ranks", [2, 3, 8, 64, 200])
def test_a_flip_exceeds_every_tolerance(num_ranks: int) -> None:
    """What `flip` adds is over the bound of a sum over so many ranks, in every type of 16 bits or more."""
    for name in ("bf16", "fp16", "fp32", "fp64"):
        assert flip_amount(num_ranks) > tolerance(DTYPES[name], num_ranks=num_ranks, kind="uniform", reduces=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_sources", [1, 2, 3, 5])
@pytest.mark.parametrize("average", [False, True])
def test_sixteen_bits_round_once(dtype: torch.dtype, num_sources: int, average: bool) -> None:
    """The sum of 16-bit values is the fp32 sum rounded once, over several blocks, also into the first source."""
    generator = torch.Generator().manual_seed(1)
    sources = [torch.rand(BLOCK + 17, generator=generator).to(dtype) for _ in range(num_sources)]
    total = sources[0].float()
    for source in sources[1:]:
        total += source.float()
    # Two sources are added, rounded and then halved, which is exact for values of this size.
    expected = (total / num_sources if average else total).to(dtype)
    Reducer().reduce(sources[0], sources, average=average)
    assert torch.equal(sources[0], expected)


def test_fp32_is_added_in_order() -> None:
    """fp32 sources are added one after the other over several blocks."""
    sources = [torch.full((BLOCK + 3,), float(number)) for number in (1, 2, 4)]
    out = torch.empty(BLOCK + 3)
    Reducer().reduce(out, sources, average=False)
    assert out.eq(7.0).all()
    Reducer().reduce(out[:0], [source[:0] for source in sources], average=True)


def test_interfaces_of_one_and_of_several_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node uses loopback; several use the named interfaces too, or any where none is named."""
    monkeypatch.setattr(interfaces, "_sent_bytes", lambda: {"lo": 1, "eth0": 20, "ib0": 300})
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert interfaces.interfaces_used(1) == ("lo",)
    assert interfaces.interfaces_used(2) == ("eth0", "ib0", "lo")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "ib0")
    assert interfaces.interfaces_used(2) == ("ib0", "lo")
    assert interfaces.witness_counters(context(num_nodes=2)) == {"sent_bytes": 301}
    assert interfaces.witness_counters(context(num_nodes=2, local_rank=1)) == {}


def test_interface_bytes_are_the_kernels() -> None:
    """The counter is the one sysfs shows for loopback, which others may have raised meanwhile."""
    before = int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())
    counted = interfaces.witness_counters(context())["sent_bytes"]
    assert before <= counted <= int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def test_tcp_exchange() -> None:
    """Values are under the prefix; a key nobody sets ends by StageTimeout with its name."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))
    exchange = TcpExchange(store, prefix="mine")
    exchange.set("key", b"\x00value")
    assert exchange.wait("key", timeout_s=1.0) == b"\x00value"
    assert store.get("mine/key") == b"\x00value"
    with pytest.raises(StageTimeout, match=r"'absent'.*0\.05 s"):
        exchange.wait("absent", timeout_s=0.05)
    # The store goes on after a wait in vain.
    assert exchange.wait("key", timeout_s=1.0) == b"\x00value"


def test_a_store_that_is_gone_is_a_run_error() -> None:
    """Losing the store is not taken for a late rank."""
    code = (
        "import sys\n"
        "from torch.distributed import TCPStore\n"
        "store = TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)\n"
        "print(store.port, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        store = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=5))
        exchange = TcpExchange(store, prefix="mine")
        server.stdin.close()
        server.wait(20)
        with pytest.raises(RunError, match="lost the store") as caught:
            exchange.wait("key", timeout_s=2.0)
        assert not isinstance(caught.value, StageTimeout)


def test_backends_are_opened_by_name() -> None:
    """Each is what its name says, on a machine without a GPU too; an unknown name is a usage error that lists them."""
    with pytest.raises(UsageError, match="gloo, cpu_window, standin, nccl_torch, nccl_direct"):
        open_backend("nothing", context())
    for name in BACKENDS:
        assert open_backend(name, context()).name == name
