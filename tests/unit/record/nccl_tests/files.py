"""Outputs of nccl-tests 2.19.6 as it wrote them, and changed copies of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[3] / "data" / "nccl-tests"


def silent(text: str) -> None:
    """A `warn` for files without anything odd."""
    raise AssertionError(f"nothing to warn of, but: {text}")


def changed_json(path: Path, change: Callable[[Any], None], *, name: str = "all_gather_R0") -> Path:
    """A copy of a JSON output with its values changed in place."""
    values = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def changed_text(path: Path, *replaced: tuple[str, str], name: str = "all_gather_R0") -> Path:
    """A copy of a text output with pieces replaced; each must be there."""
    text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def number_line(
    size: int, *, count: int, dtype: str = "float", op: str = "none", time: str = "2.00", wrong: str = "0"
) -> str:
    """A line of numbers, the same for both placements."""
    half = f"{time:>7}    1.00    0.50  {wrong:>6}"
    return f"{size:>12}  {count:>12}  {dtype:>8}  {op:>6}      -1  {half}  {half}"


def made_of(rows: list[str], *, program: str = "all_gather_perf", graph: int = 0, ranks: int = 2) -> str:
    """A whole text output with these lines of numbers."""
    settings = "minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1"
    placement = "     time   algbw   busbw  #wrong"
    return "\n".join(
        [
            "# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=23007",
            f"# Collective test starting: {program}",
            f"# nThread 1 nGpus 1 {settings} graph: {graph} unalign: 0",
            "#",
            "# Using devices",
            *(
                f"#  Rank {rank:2} Group  0 Pid {100 + rank:6} on       here device {rank:2} [0000:0{rank}:00] A GPU"
                for rank in range(ranks)
            ),
            "#",
            f"#       size         count      type   redop    root{placement}{placement} ",
            *rows,
            "# Out of bounds values : 0 OK",
        ]
    )
