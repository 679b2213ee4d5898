"""A stand-alone all-gather or reduce-scatter over rotating buffers."""

import math

from gtpbench.backends.base import Buffer, PoolKind
from gtpbench.bandwidth import wire_bytes_per_rank
from gtpbench.collectives import COLLECTIVES, DTYPES, DataKind, Reference, reference, tolerance
from gtpbench.record.model import Side, Verification
from gtpbench.workloads.base import Workload

SLOT_ALIGNMENT_BYTES = 4096
_MAX_SLOTS = 256
_NCCLTESTS_OPERATIONS = 20
"""nccl-tests captures or issues its `-n` iterations, 20 by default, in one go."""
_DEFAULT_CACHE_BYTES = 32 * 2**20
_VERIFY_SEED_OFFSET = 1_000_003
"""Verification draws other data than the timed blocks did, so that stale results cannot pass."""


class CollectiveWorkload(Workload):
    """One collective on total size S; slot i of the rotation lies at the same offset on every rank."""

    def prepare(self) -> float:
        """Allocate send and receive slots in their pools, register, fill with random data."""
        case, backend = self.case, self.backend
        self._collective = COLLECTIVES[case.collective]
        self._dtype = DTYPES[case.dtype]
        self._share = case.count // case.num_ranks
        element = self._dtype.size_bytes
        self._send_count = self._collective.send_bytes(case.size_bytes, num_ranks=case.num_ranks) // element
        self._recv_count = self._collective.recv_bytes(case.size_bytes, num_ranks=case.num_ranks) // element
        self._queue = backend.queue("compute")
        send_pool, recv_pool = self._pool("send"), self._pool("recv")
        self._stride, self._num_slots = self._rotation()
        whole_pool = send_pool if self._collective.reduces else recv_pool
        if case.placement == "in_place":
            send_pool = recv_pool = whole_pool
            whole = self._alloc(self._stride, whole_pool)
            self._slots = [self._in_place_slot(whole, slot) for slot in range(self._num_slots)]
            self._strides = {"send": self._stride, "recv": self._stride}
        else:
            # nccl-tests shifts both buffers by the larger one.
            send_stride = self._stride if self._is_nccltests else self._round_up(self._send_count)
            recv_stride = self._stride if self._is_nccltests else self._round_up(self._recv_count)
            self._strides = {"send": send_stride, "recv": recv_stride}
            send = self._alloc(send_stride, send_pool)
            recv = self._alloc(recv_stride, recv_pool)
            self._slots = [
                (
                    backend.slice(send, slot * send_stride, self._send_count),
                    backend.slice(recv, slot * recv_stride, self._recv_count),
                )
                for slot in range(self._num_slots)
            ]
        self._pools = sorted({send_pool, recv_pool})
        registration_us = sum(backend.register(pool, owner=self.arm.name) for pool in self._pools)
        self._fill(seed=self.seed, kind=self._timed_kind())
        return registration_us

    def step(self, iteration: int) -> None:
        """One collective on the iteration's slot."""
        send, recv = self._slots[iteration % self._num_slots]
        if self._collective.reduces:
            self.backend.reduce_scatter(send, recv, op=self.case.op or "sum", queue=self._queue)
        else:
            self.backend.all_gather(send, recv, queue=self._queue)

    def verify(self, *, corrupt: bool = False) -> Verification:
        """Small integers must come out exactly, random data within the tolerance; every slot, poisoned first."""
        num_wrong = num_checked = 0
        max_error = sum_squared = bound = 0.0
        kinds: tuple[DataKind, ...] = ("integers", "uniform") if self._dtype.epsilon else ("integers",)
        for kind in kinds:
            seed = self.seed + _VERIFY_SEED_OFFSET
            self._fill(seed=seed, kind=kind)
            self.backend.host_sync(self._queue)
            self.backend.context.mark(0)
            self.backend.barrier(self._queue)
            for slot in range(self._num_slots):
                self.step(slot)
            self.backend.host_sync(self._queue)
            bound = tolerance(
                self._dtype,
                num_ranks=self.case.num_ranks,
                kind=kind,
                reduces=self._collective.reduces,
                op=self.case.op or "sum",
            )
            if corrupt:
                self.backend.flip(self._slots[0][1], 0)
            pairs = [(recv, self._expected(seed + slot, kind)) for slot, (_, recv) in enumerate(self._slots)]
            result = self.backend.check_all(pairs, tolerance=bound)
            num_wrong += result.num_wrong
            num_checked += result.num_checked
            if kind == kinds[-1]:
                max_error, sum_squared = result.max_error, result.sum_squared_error
        per_kind = num_checked // len(kinds)
        return Verification(
            num_slots=self._num_slots,
            poisoned=self.case.placement == "out_of_place" or not self._collective.reduces,
            num_wrong=num_wrong,
            num_checked=num_checked,
            max_error=max_error,
            rms_error=math.sqrt(sum_squared / per_kind),
            tolerance=bound,
        )

    def _expected(self, seed: int, kind: DataKind) -> Reference:
        return reference(
            self._collective,
            rank=self.backend.context.rank,
            num_ranks=self.case.num_ranks,
            total_count=self.case.count,
            seed=seed,
            kind=kind,
            op=self.case.op or "sum",
        )

    def release(self) -> float:
        """Deregister and free both pools; no slot may hold on to their memory any more."""
        self._slots.clear()
        return sum(self.backend.release(pool, owner=self.arm.name) for pool in self._pools)

    @property
    def interval_operations(self) -> int | None:
        """nccl-tests' number for its arms, free for the others. Local."""
        return _NCCLTESTS_OPERATIONS if self._is_nccltests else None

    def sides(self, *, captured: int | None) -> dict[str, Side]:
        """Send and receive, as they were timed. Local."""
        used = self._num_slots if captured is None else min(self._num_slots, captured)
        in_place = self.case.placement == "in_place"
        described: dict[str, Side] = {}
        for role, buffer in zip(("send", "recv"), self._slots[0], strict=True):
            window = buffer.pool == "window"
            slot_bytes = self._strides[role] * self._dtype.size_bytes
            resident = None if self.cache_bytes is None else slot_bytes * used <= self.cache_bytes
            described[role] = Side(
                allocator=f"{self.backend.name}:{buffer.pool}",
                registration=buffer.pool,
                window_offset_bytes=buffer.offset * self._dtype.size_bytes if window else None,
                window_bytes=slot_bytes * self._num_slots if window else None,
                alignment_bytes=math.gcd(slot_bytes, SLOT_ALIGNMENT_BYTES),
                num_slots=self._num_slots,
                slot_stride_bytes=slot_bytes,
                in_place=in_place,
                l2_resident=resident,
            )
        return described

    def essential_bytes(self) -> int:
        """(G-1)/G of the total."""
        return wire_bytes_per_rank(self.case.size_bytes, num_ranks=self.case.num_ranks)

    def wire_bytes(self) -> int:
        """What the backend's algorithm sends."""
        return self.backend.wire_bytes(self.case.collective, self.case.size_bytes)

    @property
    def _is_nccltests(self) -> bool:
        return self.arm.family == "nccltests"

    def _alloc(self, stride: int, pool: PoolKind) -> Buffer:
        """All slots of a side."""
        return self.backend.alloc(stride * self._num_slots, dtype=self.case.dtype, pool=pool, owner=self.arm.name)

    def _pool(self, role: str) -> PoolKind:
        if self.arm.registration == "none" or self.arm.sides not in {"both", role}:
            return "mem_alloc" if self._is_nccltests else "plain"
        return "window" if self.arm.registration == "window" else "registered"

    def _round_up(self, count: int) -> int:
        unit = SLOT_ALIGNMENT_BYTES // self._dtype.size_bytes
        return -(-count // unit) * unit

    def _rotation(self) -> tuple[int, int]:
        """(stride of the larger buffer in elements, number of slots): more than twice the cache, unless hot."""
        stride = self._round_up(self.case.count)
        if self.case.hot:
            return stride, 1
        if self._is_nccltests:
            # As its startColl does: maxBytes / totalBytes steps, of which no more than the iterations are used.
            return self.case.count, max(1, min(_NCCLTESTS_OPERATIONS, self.sweep_max_bytes // self.case.size_bytes))
        wanted = 2 * (self.cache_bytes or _DEFAULT_CACHE_BYTES)
        return stride, min(_MAX_SLOTS, -(-wanted // (stride * self._dtype.size_bytes)))

    def _in_place_slot(self, whole: Buffer, slot: int) -> tuple[Buffer, Buffer]:
        base = slot * self._stride
        full = self.backend.slice(whole, base, self.case.count)
        own = self.backend.slice(whole, base + self.backend.context.rank * self._share, self._share)
        return (full, own) if self._collective.reduces else (own, full)

    def _timed_kind(self) -> DataKind:
        return "uniform" if self._dtype.epsilon else "integers"

    def _fill(self, *, seed: int, kind: DataKind) -> None:
        """Poison the receive buffers, then write the send data; in place the own parts are written last."""
        for _, recv in self._slots:
            self.backend.poison(recv)
        self.backend.fill_all([(send, seed + slot) for slot, (send, _) in enumerate(self._slots)], kind=kind)
