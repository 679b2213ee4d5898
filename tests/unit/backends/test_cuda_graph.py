"""CUDA graphs, read through a driver made by hand."""

import sys
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gtpbench.backends import cuda_graph
from gtpbench.backends.base import KernelSeen
from gtpbench.backends.cuda_graph import CapturedGraph, nodes
from gtpbench.errors import UnsupportedError
from tests.unit.backends.fake_cuda import FakeTorch

AG_ST = b"_Z30ncclSymkDevKernel_AllGather_ST21ncclSymkDevWorkArgs4K"


class Result(IntEnum):
    """The driver's CUresult."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


class NodeType(IntEnum):
    """The driver's CUgraphNodeType."""

    CU_GRAPH_NODE_TYPE_KERNEL = 0
    CU_GRAPH_NODE_TYPE_MEMCPY = 1
    CU_GRAPH_NODE_TYPE_MEMSET = 2
    CU_GRAPH_NODE_TYPE_HOST = 3
    CU_GRAPH_NODE_TYPE_GRAPH = 4
    CU_GRAPH_NODE_TYPE_EMPTY = 5
    CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6
    CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP = 12


class FakeDriver(ModuleType):
    """`cuda.bindings.driver` over a list of nodes: (type, name of the function, grid)."""

    CUgraphNodeType = NodeType

    def __init__(self, *graph: tuple[NodeType, bytes | str | None, tuple[int, int, int]], broken: bool = False) -> None:
        super().__init__("driver")
        self._graph = graph
        self._code = Result.CUDA_ERROR_INVALID_VALUE if broken else Result.CUDA_SUCCESS

    def CUgraph(self, raw: int) -> str:  # noqa: N802 - the driver's own name
        return f"graph {raw}"

    def cuGraphGetNodes(self, graph: str, number: int) -> Any:  # noqa: N802
        """At first asked how many there are; may give more places than nodes."""
        assert graph == "graph 77"
        listed = [*range(len(self._graph)), None][: number or 0]
        return self._code, listed, len(self._graph)

    def cuGraphNodeGetType(self, node: int) -> Any:  # noqa: N802
        return Result.CUDA_SUCCESS, self._graph[node][0]

    def cuGraphKernelNodeGetParams(self, node: int) -> Any:  # noqa: N802
        kind, _, grid = self._graph[node]
        assert kind == NodeType.CU_GRAPH_NODE_TYPE_KERNEL
        x, y, z = grid
        return Result.CUDA_SUCCESS, SimpleNamespace(func=node, gridDimX=x, gridDimY=y, gridDimZ=z)

    def cuFuncGetName(self, function: int) -> Any:  # noqa: N802
        return Result.CUDA_SUCCESS, self._graph[function][1]


def kernel(name: bytes | str, grid: tuple[int, int, int] = (9, 1, 1)) -> Any:
    """A kernel node."""
    return NodeType.CU_GRAPH_NODE_TYPE_KERNEL, name, grid


def other(kind: NodeType) -> Any:
    """A node that is no kernel."""
    return kind, None, (0, 0, 0)


class FakeGraph:
    """torch's CUDAGraph."""

    def __init__(self, *, keep_graph: bool) -> None:
        assert keep_graph, "a graph that was not kept cannot be read"
        self.log: list[str] = []

    def capture_begin(self, *, capture_error_mode: str) -> None:
        self.log.append(f"begin {capture_error_mode}")

    def capture_end(self) -> None:
        self.log.append("end")

    def instantiate(self) -> None:
        self.log.append("instantiate")

    def replay(self) -> None:
        self.log.append("replay")

    def raw_cuda_graph(self) -> int:
        return 77


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a capture does, in order."""
    made: list[str] = []
    fake: Any = FakeTorch(made)

    def graph(*, keep_graph: bool) -> FakeGraph:
        new = FakeGraph(keep_graph=keep_graph)
        new.log = made
        return new

    fake.cuda.CUDAGraph = graph
    monkeypatch.setattr(cuda_graph, "torch", fake)
    return made


def _nodes(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> tuple[KernelSeen, ...]:
    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    package.bindings, bindings.driver = bindings, driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    captured: Any = SimpleNamespace(graph=FakeGraph(keep_graph=True))
    return nodes(captured)


def test_capture_is_quiet_and_policed_by_thread(log: list[str]) -> None:
    """The device is idle before; threads of NCCL and torch may go on meanwhile; instantiated once, before it counts."""
    captured = CapturedGraph(lambda: log.append("work"))
    captured.replay()
    captured.replay()
    assert ["synchronize", "begin thread_local", "work", "end", "instantiate", "replay", "replay"] == log


def test_a_capture_that_fails_is_ended(log: list[str]) -> None:
    """Or the stream would stay in capture; the error is the work's."""

    def work() -> None:
        raise UnsupportedError("not in a capture")

    with pytest.raises(UnsupportedError, match="not in a capture"):
        CapturedGraph(work)
    assert ["synchronize", "begin thread_local", "end"] == log


def test_kernels_are_counted_by_name_and_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of one name and grid, one of the same name with another grid; CTAs are the product of the dimensions."""
    driver = FakeDriver(kernel(AG_ST), kernel(AG_ST), kernel(AG_ST, (3, 2, 4)), kernel(AG_ST), kernel("fill_kernel"))
    assert _nodes(monkeypatch, driver) == (
        KernelSeen(name=AG_ST.decode(), grid=9, count=3),
        KernelSeen(name=AG_ST.decode(), grid=24, count=1),
        KernelSeen(name="fill_kernel", grid=9, count=1),
    )


def test_copies_and_memory_operations_are_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy-engine all-gather of two ranks: no kernel, four copies and two batches of memory operations."""
    copy, batch = NodeType.CU_GRAPH_NODE_TYPE_MEMCPY, NodeType.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP
    driver = FakeDriver(*[other(kind) for kind in (batch, copy, copy, copy, copy, batch)])
    assert _nodes(monkeypatch, driver) == (
        KernelSeen(name="batch_mem_op", grid=None, count=2, kind="batch_mem_op"),
        KernelSeen(name="memcpy", grid=None, count=4, kind="memcpy"),
    )


def test_nodes_that_only_order_others_do_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty ones and events are left out; whatever else there is, is named."""
    kinds = [
        NodeType.CU_GRAPH_NODE_TYPE_EMPTY,
        NodeType.CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        NodeType.CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        NodeType.CU_GRAPH_NODE_TYPE_MEMSET,
        NodeType.CU_GRAPH_NODE_TYPE_HOST,
        NodeType.CU_GRAPH_NODE_TYPE_GRAPH,
    ]
    assert _nodes(monkeypatch, FakeDriver(*map(other, kinds))) == (
        KernelSeen(name="memset", grid=None, count=1, kind="memset"),
        KernelSeen(name="host", grid=None, count=1, kind="other"),
        KernelSeen(name="graph", grid=None, count=1, kind="other"),
    )


def test_an_empty_graph_has_no_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank's in-place collective may capture nothing."""
    assert () == _nodes(monkeypatch, FakeDriver())


@pytest.mark.parametrize(
    ("node", "kind", "name", "grid"),
    [
        (kernel(AG_ST, (64, 1, 1)), "kernel", AG_ST.decode(), 64),
        (kernel("text", (2, 3, 5)), "kernel", "text", 30),
        (other(NodeType.CU_GRAPH_NODE_TYPE_MEMCPY), "memcpy", "memcpy", None),
        (other(NodeType.CU_GRAPH_NODE_TYPE_MEMSET), "memset", "memset", None),
        (other(NodeType.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP), "batch_mem_op", "batch_mem_op", None),
        (other(NodeType.CU_GRAPH_NODE_TYPE_WAIT_EVENT), "other", "wait_event", None),
    ],
)
def test_one_node(node: Any, kind: str, name: str, grid: int | None) -> None:
    """Name, CTAs and kind; a name may come as bytes or as text."""
    assert (name, grid, kind) == cuda_graph._describe(FakeDriver(node), 0)


def test_a_driver_that_refuses_is_a_run_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the driver's name for it."""
    with pytest.raises(UnsupportedError, match="CUDA_ERROR_INVALID_VALUE"):
        _nodes(monkeypatch, FakeDriver(kernel(AG_ST), broken=True))


def test_without_bindings_the_graph_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsupported, with what to install."""
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(UnsupportedError, match=r"gtpbench\[cu13\]") as caught:
        nodes(SimpleNamespace(graph=FakeGraph(keep_graph=True)))  # type: ignore[arg-type]
    assert "cuda_bindings" == caught.value.code
