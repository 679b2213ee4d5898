"""Paired block medians of two arms, as log ratios.

Arms alternate within a launch; the two blocks of one round ran next to each other in time, so that slow drift cancels
in their ratio. A launch is the unit of replication: its blocks share whatever the start of the processes decided
(Hunold & Carpen-Amarie, TPDS 2016).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gtpbench.stats.summary import blocks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gtpbench.record.model import Record, Samples

Unit = Literal["launch", "block"]

MIN_LAUNCHES_AS_UNIT = 6
"""From here one value a launch is tested; with fewer the values are block pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedLaunch:
    """One launch of both arms; block b of each is the pair of round b."""

    baseline: "Samples"
    candidate: "Samples"
    baseline_first: "Sequence[bool]"
    """[round], whether the baseline's block ran before the candidate's."""


def pair_records(baseline: "Record", candidate: "Record", *, series: str) -> PairedLaunch:
    """The pair of two `ok` records of one case and one launch, for the named series of samples.

    Raises:
        ValueError: the records are not of one case, run, launch, attempt and block order, or one lacks the series.
    """
    name = f"{baseline.case_id}, {baseline.arm} and {candidate.arm}"
    if baseline.case_id != candidate.case_id:
        raise ValueError(f"{name}: the candidate is of case {candidate.case_id}")
    ours, theirs = baseline.execution, candidate.execution
    if ours is None or theirs is None:
        raise ValueError(f"{name}: one of them was not executed")
    starts = [(run.run_id, record.launch, run.attempt) for run, record in ((ours, baseline), (theirs, candidate))]
    if starts[0] != starts[1]:
        raise ValueError(f"{name}: (run, launch, attempt) differ, given {starts[0]} and {starts[1]}")
    if ours.block_order != theirs.block_order:
        raise ValueError(f"{name}: different block orders in launch {baseline.launch} of run {ours.run_id}")
    for record in (baseline, candidate):
        if series not in record.samples:
            raise ValueError(f"{name}: {record.arm} has no samples named {series}, but {sorted(record.samples)}")
        if not all(record.arm in order for order in ours.block_order):
            raise ValueError(f"{name}: {record.arm} did not run in every round")
    return PairedLaunch(
        baseline=baseline.samples[series],
        candidate=candidate.samples[series],
        baseline_first=[order.index(baseline.arm) < order.index(candidate.arm) for order in ours.block_order],
    )


def block_log_ratios(pair: PairedLaunch, *, launch: int) -> list[float]:
    """d_j = log(candidate / baseline) of the block medians, [round]; swapping the arms flips every sign exactly.

    Args:
        pair: one launch of both arms.
        launch: its number, for the message.

    Raises:
        ValueError: the arms differ in clock, k or number of blocks, the order has another length, ranks are ragged, or
            a time is not positive and finite.
    """
    ours, theirs = pair.baseline, pair.candidate
    if (ours.clock, ours.k) != (theirs.clock, theirs.k):
        raise ValueError(
            f"launch {launch}: arms need one clock and one k, given clock {ours.clock} with k = {ours.k} and clock"
            f" {theirs.clock} with k = {theirs.k}"
        )
    ours_log = _log_medians(ours, place=f"launch {launch}, baseline")
    theirs_log = _log_medians(theirs, place=f"launch {launch}, candidate")
    lengths = (len(ours_log), len(theirs_log), len(pair.baseline_first))
    if len(set(lengths)) > 1:
        raise ValueError(
            f"launch {launch}: baseline, candidate and block order need one number of rounds, given {lengths}"
        )
    ratios: list[float] = (theirs_log - ours_log).tolist()
    return ratios


def unit_of(num_launches: int) -> Unit:
    """`launch` from `MIN_LAUNCHES_AS_UNIT` launches on, else `block`."""
    return "launch" if num_launches >= MIN_LAUNCHES_AS_UNIT else "block"


def unit_values(log_ratios: "Sequence[Sequence[float]]") -> list[float]:
    """The values that are tested, from d [launch][round]: each launch's median, or with few launches every d."""
    if unit_of(len(log_ratios)) == "launch":
        return [float(np.median(launch)) for launch in log_ratios]
    return [value for launch in log_ratios for value in launch]


def _log_medians(samples: "Samples", *, place: str) -> "NDArray[np.float64]":
    """Logarithm of each block's median of the maximum over ranks, shape [block]."""
    blocks = blocks_of(samples)
    for number, block in enumerate(blocks):
        wrong = np.argwhere(~(np.isfinite(block) & (block > 0)))
        if wrong.size:
            rank, iteration = wrong[0].tolist()
            raise ValueError(
                f"{place}, rank {rank}, block {number}, iteration {iteration}: a ratio needs a positive time,"
                f" given {block[rank, iteration]} us"
            )
    return np.log([np.median(block.max(axis=0)) for block in blocks])
