"""CUDA graphs: captured once, replayed, and read node by node, so that the timed object itself tells what it runs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from gtpbench.backends.base import KernelSeen
from gtpbench.errors import UnsupportedError

_NO_WORK = frozenset({"empty", "event_record", "wait_event"})
"""Nodes that only order others."""


class CapturedGraph:
    """What `work` enqueued on the current stream, kept readable; `replay` enqueues it again.

    Only this thread's calls are policed while capturing: NCCL's and torch's own threads go on querying events.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        """Capture on torch's current stream, which `work` enqueues on, and instantiate. Collective where `work` is."""
        self.graph = torch.cuda.CUDAGraph(keep_graph=True)
        torch.cuda.synchronize()
        self.graph.capture_begin(capture_error_mode="thread_local")
        try:
            work()
        finally:
            self.graph.capture_end()
        self.graph.instantiate()

    def replay(self) -> None:
        """Enqueue the graph on the current stream, which must be the one it was captured on. Local."""
        self.graph.replay()


def nodes(captured: CapturedGraph) -> tuple[KernelSeen, ...]:
    """The nodes of a captured graph: kernels by (mangled) name and number of CTAs, copies and memory operations.

    Raises:
        UnsupportedError: cuda-bindings is missing, or the driver refused.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise UnsupportedError(
            "reading a CUDA graph needs the package cuda-bindings: install gtpbench[cu13] or gtpbench[cu12]",
            code="cuda_bindings",
        ) from error
    raw = driver.CUgraph(captured.graph.raw_cuda_graph())
    _, count = _ask(driver.cuGraphGetNodes(raw, 0))
    found, _ = _ask(driver.cuGraphGetNodes(raw, count)) if count else ([], 0)
    seen: Counter[tuple[str, int | None, Any]] = Counter()
    for node in found[:count]:
        name, grid, kind = _describe(driver, node)
        if name not in _NO_WORK:
            seen[name, grid, kind] += 1
    return tuple(
        KernelSeen(name=name, grid=grid, count=number, kind=kind) for (name, grid, kind), number in seen.items()
    )


def _describe(driver: Any, node: Any) -> tuple[str, int | None, str]:
    kinds = driver.CUgraphNodeType
    (kind,) = _ask(driver.cuGraphNodeGetType(node))
    if kind == kinds.CU_GRAPH_NODE_TYPE_KERNEL:
        (params,) = _ask(driver.cuGraphKernelNodeGetParams(node))
        (name,) = _ask(driver.cuFuncGetName(params.func))
        grid = params.gridDimX * params.gridDimY * params.gridDimZ
        return (name.decode() if isinstance(name, bytes) else str(name)), int(grid), "kernel"
    known = {
        kinds.CU_GRAPH_NODE_TYPE_MEMCPY: "memcpy",
        kinds.CU_GRAPH_NODE_TYPE_MEMSET: "memset",
        kinds.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: "batch_mem_op",
    }
    if kind in known:
        return known[kind], None, known[kind]
    return str(kind.name).removeprefix("CU_GRAPH_NODE_TYPE_").lower(), None, "other"


def _ask(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a driver call returned behind its error code."""
    code, *rest = answer
    if int(code) != 0:
        raise UnsupportedError(f"the CUDA driver did not describe the graph: {code.name}", code="graph_nodes")
    return tuple(rest)
