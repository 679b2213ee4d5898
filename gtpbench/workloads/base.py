"""The Workload protocol: prepare, step, verify, traffic. One instance is one Case x Arm in one rank's process."""

from abc import ABC, abstractmethod

from gtpbench.backends.base import Backend
from gtpbench.plan import Arm, Case
from gtpbench.record.model import Side, Verification


class Workload(ABC):
    """A timed unit of work. All methods are collective unless they say local."""

    def __init__(
        self, backend: Backend, case: Case, arm: Arm, *, seed: int, cache_bytes: int | None, sweep_max_bytes: int
    ) -> None:
        """Keep what is needed; nothing is allocated. Local.

        Args:
            cache_bytes: size of the cache that rotation must exceed, None where unknown.
            sweep_max_bytes: the largest size of the sweep, which sizes nccl-tests' buffers.
        """
        self.backend = backend
        self.case = case
        self.arm = arm
        self.seed = seed
        self.cache_bytes = cache_bytes
        self.sweep_max_bytes = sweep_max_bytes

    @property
    def interval_operations(self) -> int | None:
        """Operations in every timed interval where the arm prescribes them. Local."""
        return None

    @abstractmethod
    def prepare(self) -> float:
        """Allocate in a fixed order, register once, fill with data; returns microseconds of registration."""

    @abstractmethod
    def step(self, iteration: int) -> None:
        """Enqueue one iteration on the `compute` queue; buffers rotate with its number."""

    @abstractmethod
    def verify(self, *, corrupt: bool = False) -> Verification:
        """Poison, refill with a new seed, run and check every timed buffer. `corrupt` flips one element (tests)."""

    @abstractmethod
    def release(self) -> float:
        """Deregister and free; returns microseconds of deregistration."""

    @abstractmethod
    def sides(self, *, captured: int | None) -> dict[str, Side]:
        """The buffer roles of the timed operation. Local.

        Args:
            captured: operations of the graph that was timed, which uses no slots beyond them; None without a graph.
        """

    @abstractmethod
    def essential_bytes(self) -> int:
        """Bytes this rank must send in one iteration whatever the algorithm. Local."""

    @abstractmethod
    def wire_bytes(self) -> int:
        """Bytes this rank sends in one iteration with this backend's algorithm. Local."""
