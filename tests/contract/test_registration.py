"""Registration cases on real ranks: every set is made, registered, checked and gone."""

import pytest
from ranks import run_ranks
from registering import make_case, whole_case

from gtpbench.backends.base import Backend
from gtpbench.backends.standin import REGISTRATION_US
from gtpbench.measure.registration import RankRegistration
from gtpbench.workloads.registration import BufferSet, EndsGather

pytestmark = pytest.mark.ranks

with_windows = pytest.mark.parametrize("backend", ["cpu_window", "standin"])
KIB, MIB = 2**10, 2**20
SIZES = (64 * KIB, 4 * KIB, 3 * MIB)


@with_windows
@pytest.mark.parametrize("sizes", [(64 * KIB,), SIZES, (100, 7, 33)])
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_every_set_is_made_checked_and_gone(backend: str, sizes: tuple[int, ...], num_ranks: int) -> None:
    """Three blocks on every rank; the ends of one more set arrive whole, whatever their size; nothing is left."""
    found = run_ranks(num_ranks, whole_case, "symm", sizes, False, backend=backend)
    assert [(0, 0, 0)] * num_ranks == [left for _, left in found]
    cells = [RankRegistration.model_validate_json(text) for text in found[0][0]]
    assert list(range(num_ranks)) == [cell.rank for cell in cells]
    for cell in cells:
        assert {3} == {len(times.time_us) for times in cell.phases.values()}
        assert (0, True) == (cell.verification.num_wrong, cell.verification.poisoned)
        assert min(2, len(sizes)) * make_case(num_ranks, *sizes).gathered.size_bytes == cell.verification.num_checked
        assert (sum(sizes), len(sizes)) == (cell.memory.registered_bytes, cell.process.num_windows)
        assert () == cell.evidence
    if backend == "cpu_window":
        assert {num_ranks - 1} == {cell.counters["peer_mappings"] for cell in cells}


def test_times_are_the_backends() -> None:
    """The stand-in takes 50 us a buffer to register, half of it to deregister, also plainly."""
    for arm in ("symm", "registered"):
        (told, _), _ = run_ranks(2, whole_case, arm, SIZES, False, backend="standin")
        cell = RankRegistration.model_validate_json(told[1])
        assert (3 * REGISTRATION_US,) * 3 == cell.phases["register"].time_us
        assert (1.5 * REGISTRATION_US,) * 3 == cell.phases["deregister"].time_us
        assert (REGISTRATION_US, REGISTRATION_US / 2) == (cell.single_us, cell.single_deregistration_us)


@with_windows
def test_a_flipped_element_is_caught(backend: str) -> None:
    """One of them, on the rank where it is."""
    (told, _), _ = run_ranks(2, whole_case, "symm", SIZES, True, backend=backend)
    cells = [RankRegistration.model_validate_json(text) for text in told]
    assert [1, 0] == [cell.verification.num_wrong for cell in cells]


def stale_ends(backend: Backend) -> int:
    """Wrong elements where nothing was gathered after the poison."""
    case = make_case(backend.context.num_ranks, *SIZES)
    buffers = BufferSet(backend, case.sizes, pool="window", owner="one")
    buffers.allocate()
    buffers.register()
    gather = EndsGather(buffers, case.gathered, seed=0)
    gather.fill()
    gather.run()
    assert 0 == gather.verify(corrupt=False).num_wrong
    gather.fill()
    return gather.verify(corrupt=False).num_wrong


@with_windows
def test_a_gather_that_did_not_run_is_caught(backend: str) -> None:
    """What an earlier one left is poisoned: only this rank's own half is right."""
    half = make_case(2, *SIZES).gathered.size_bytes // 2
    assert [2 * half, 2 * half] == run_ranks(2, stale_ends, backend=backend)
