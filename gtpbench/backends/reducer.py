"""Sums and averages of several CPU tensors, rounded once at the end."""

from collections.abc import Sequence

import torch

BLOCK = 1 << 18
"""Elements at a time. Larger blocks leave the last-level cache; below, what torch spends on each call dominates."""


class Reducer:
    """Reduces tensors of one size into one; its scratch is made once."""

    def __init__(self) -> None:
        self._total = torch.empty(BLOCK, dtype=torch.float32)
        self._source = torch.empty(BLOCK, dtype=torch.float32)

    def reduce(self, out: torch.Tensor, sources: Sequence[torch.Tensor], *, average: bool) -> None:
        """Write the sum, or the average, of `sources` to `out`, which may be the first of them.

        Sixteen-bit types are summed in fp32. For two sources torch's own addition already does that.
        """
        if out.element_size() == 2 and out.is_floating_point() and len(sources) > 2:
            self._reduce_in_fp32(out, sources, average=average)
        elif len(sources) == 1:
            out.copy_(sources[0])
        else:
            _reduce_directly(out, sources, average=average)

    def _reduce_in_fp32(self, out: torch.Tensor, sources: Sequence[torch.Tensor], *, average: bool) -> None:
        for first in range(0, out.numel(), BLOCK):
            block = slice(first, min(first + BLOCK, out.numel()))
            total, source = self._total[: block.stop - first], self._source[: block.stop - first]
            total.copy_(sources[0][block])
            for other in sources[1:]:
                # Converting and then adding is faster than an addition of mixed types.
                source.copy_(other[block])
                total.add_(source)
            if average:
                total.div_(len(sources))
            out[block].copy_(total)


def _reduce_directly(out: torch.Tensor, sources: Sequence[torch.Tensor], *, average: bool) -> None:
    # Two sources are one pass over memory however it is cut.
    size = BLOCK if len(sources) > 2 or average else max(out.numel(), 1)
    for first in range(0, out.numel(), size):
        block = slice(first, min(first + size, out.numel()))
        total = out[block]
        torch.add(sources[0][block], sources[1][block], out=total)
        for other in sources[2:]:
            total.add_(other[block])
        if average:
            total.div_(len(sources))
