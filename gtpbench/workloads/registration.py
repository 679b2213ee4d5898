"""A set of buffers that is allocated, registered, deregistered and freed as a whole; nothing need touch its memory."""

from collections.abc import Sequence

from gtpbench.backends.base import Backend, Buffer, PoolKind
from gtpbench.cases import Case
from gtpbench.collectives import COLLECTIVES, Reference, reference
from gtpbench.record.model import Side, Verification

DTYPE = "uint8"
"""Buffers are bytes: count and size are the same."""
_VERIFY_SEED_OFFSET = 1_000_003


class BufferSet:
    """Buffers in a pool of an owner of their own, registered once in their life.

    A set is never registered again, and another one is another pool: NCCL gives every registration of one allocation
    address space of its own, until none is left (NVIDIA/nccl#2331).
    """

    def __init__(self, backend: Backend, sizes: Sequence[int], *, pool: PoolKind, owner: str) -> None:
        """Nothing is allocated yet. `sizes` are the bytes of the buffers; `owner` must be this set's alone. Local."""
        self.backend = backend
        self.sizes = sizes
        self.pool = pool
        self._owner = owner
        self._buffers: list[Buffer] = []

    def allocate(self) -> None:
        """Make all buffers, in order. Collective in order and size."""
        for size in self.sizes:
            self._buffers.append(self.backend.alloc(size, dtype=DTYPE, pool=self.pool, owner=self._owner))

    def register(self) -> float:
        """Register all buffers; microseconds on this rank. Collective."""
        return self.backend.register(self.pool, owner=self._owner)

    def release(self) -> float:
        """Deregister and free all buffers; microseconds of deregistration on this rank. Collective.

        Captured work on them must be gone.
        """
        # What the caller of `release` still holds would keep its memory alive.
        self._buffers.clear()
        return self.backend.release(self.pool, owner=self._owner)

    def ends(self, num_bytes: int) -> list[Buffer]:
        """The first `num_bytes` of the first and of the last buffer; of one where there is but one. Local."""
        ends = [self._buffers[0], self._buffers[-1]][: len(self._buffers)]
        return [self.backend.slice(buffer, 0, num_bytes) for buffer in ends]

    def side(self) -> Side:
        """The set as a buffer role of a record. Local."""
        is_window = self.pool == "window"
        return Side(
            allocator=f"{self.backend.name}:{self.pool}",
            registration=self.pool,
            window_offset_bytes=0 if is_window else None,
            window_bytes=sum(self.sizes) if is_window else None,
            alignment_bytes=1,
            num_slots=len(self.sizes),
            slot_stride_bytes=max(self.sizes),
            in_place=True,
            l2_resident=None,
        )


class EndsGather:
    """In-place all-gathers through the ends of a registered set: they need every rank's registration to be in order."""

    def __init__(self, buffers: BufferSet, case: Case, *, seed: int) -> None:
        """`case` is the all-gather; it fits in both ends. Local."""
        self._backend = backend = buffers.backend
        self._case, self._seed = case, seed + _VERIFY_SEED_OFFSET
        self._queue = backend.queue("compute")
        share = case.size_bytes // case.num_ranks
        self._pairs = [
            (backend.slice(whole, backend.context.rank * share, share), whole)
            for whole in buffers.ends(case.size_bytes)
        ]

    def __len__(self) -> int:
        """All-gathers that `enqueue` enqueues. Local."""
        return len(self._pairs)

    def fill(self) -> None:
        """Poison both ends, then write this rank's parts. Collective: ends with the ranks lined up."""
        for number, (own, whole) in enumerate(self._pairs):
            self._backend.poison(whole)
            self._backend.fill(own, seed=self._seed + number, kind="integers")
        self._backend.host_sync(self._queue)
        self._backend.barrier(self._queue)
        self._backend.host_sync(self._queue)

    def enqueue(self) -> None:
        """The all-gathers. Collective."""
        for own, whole in self._pairs:
            self._backend.all_gather(own, whole, queue=self._queue)

    def run(self) -> None:
        """Enqueue, and wait until they are done. Collective."""
        self.enqueue()
        self._backend.host_sync(self._queue)

    def verify(self, *, corrupt: bool) -> Verification:
        """Whether every rank's part is where it belongs; `corrupt` flips one element (tests). Local."""
        if corrupt:
            self._backend.flip(self._pairs[0][1], 0)
        pairs = [(whole, self._expected(number)) for number, (_, whole) in enumerate(self._pairs)]
        result = self._backend.check_all(pairs, tolerance=0.0)
        return Verification(
            num_slots=len(self._pairs),
            poisoned=True,
            num_wrong=result.num_wrong,
            num_checked=result.num_checked,
            max_error=result.max_error,
            rms_error=(result.sum_squared_error / result.num_checked) ** 0.5,
            tolerance=0.0,
        )

    def forget(self) -> None:
        """Let go of the buffers. Local."""
        self._pairs.clear()

    def _expected(self, number: int) -> Reference:
        return reference(
            COLLECTIVES["all_gather"],
            rank=self._backend.context.rank,
            num_ranks=self._case.num_ranks,
            total_count=self._case.count,
            seed=self._seed + number,
            kind="integers",
            op="sum",
        )
