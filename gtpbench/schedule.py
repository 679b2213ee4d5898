"""Who runs when: order of cases and blocks in a launch. Pure and seeded, so that every rank holds the same order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing one arm does while every other worker set is blocked.

    `prepare` allocates, registers, warms up and calibrates; `block` is warm-up and timed block of the arm in round
    `block`; `finish` proves, verifies and releases.
    """

    kind: Literal["prepare", "block", "finish"]
    arm: str
    block: int = -1


def case_order(case_ids: Sequence[str], *, seed: int, launch: int) -> list[str]:
    """The cases in this launch's order, a seeded shuffle."""
    order = list(case_ids)
    random.Random(f"cases/{seed}/{launch}").shuffle(order)
    return order


def block_rounds(arms: Sequence[str], *, blocks: int, seed: int, launch: int, case_id: str) -> list[tuple[str, ...]]:
    """`blocks` rounds with every arm once in each; block b of two arms in the same round is a pair.

    Half of the rounds are the reverse of the other half, and their order is shuffled: each of two arms goes first
    equally often, and no arm has a favoured place in time. With an odd number of rounds one is left without its
    reverse.
    """
    rng = random.Random(f"blocks/{seed}/{launch}/{case_id}")
    rounds: list[tuple[str, ...]] = []
    while len(rounds) < blocks:
        forward = list(arms)
        rng.shuffle(forward)
        rounds += [tuple(forward), tuple(reversed(forward))]
    del rounds[blocks:]
    rng.shuffle(rounds)
    return rounds


def turns(rounds: Sequence[tuple[str, ...]]) -> list[Turn]:
    """The turns of one case: every arm prepares, the blocks alternate, every arm finishes."""
    arms = sorted(rounds[0])
    sequence = [Turn(kind="prepare", arm=arm) for arm in arms]
    for number, order in enumerate(rounds):
        sequence += [Turn(kind="block", arm=arm, block=number) for arm in order]
    return sequence + [Turn(kind="finish", arm=arm) for arm in arms]
