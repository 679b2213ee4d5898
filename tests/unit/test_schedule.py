"""Who runs when."""

from collections import Counter

import pytest

from gtpbench.schedule import Turn, block_rounds, case_order, turns


def test_every_case_has_its_place() -> None:
    """A shuffle: the same for the same seed and launch, another for another."""
    ids = [f"case{number}" for number in range(20)]
    order = case_order(ids, seed=1, launch=0)
    assert sorted(ids) == sorted(order)
    assert order == case_order(ids, seed=1, launch=0)
    assert order != case_order(ids, seed=1, launch=1)
    assert order != case_order(ids, seed=2, launch=0)


@pytest.mark.parametrize("blocks", [2, 10, 30])
def test_each_of_two_arms_goes_first_in_half_of_the_rounds(blocks: int) -> None:
    """Neither has a favoured place in any launch."""
    for launch in range(20):
        rounds = block_rounds(["none", "symm"], blocks=blocks, seed=0, launch=launch, case_id="c")
        assert {"none": blocks // 2, "symm": blocks // 2} == Counter(order[0] for order in rounds)


def test_order_of_rounds_is_shuffled() -> None:
    """First place does not simply alternate: over many launches the first round starts with either arm."""
    first = Counter(
        block_rounds(["none", "symm"], blocks=10, seed=0, launch=launch, case_id="c")[0][0] for launch in range(200)
    )
    assert 60 <= first["none"] <= 140
    follows = Counter(
        order[0][0] == order[1][0]
        for launch in range(200)
        if (order := block_rounds(["none", "symm"], blocks=10, seed=0, launch=launch, case_id="c"))
    )
    assert follows[True] > 40


def test_an_odd_number_leaves_one_round_without_its_reverse() -> None:
    """The difference is then one."""
    rounds = block_rounds(["none", "symm"], blocks=7, seed=3, launch=0, case_id="c")
    assert [3, 4] == sorted(Counter(order[0] for order in rounds).values())


def test_three_arms_are_in_the_middle_as_they_were_at_the_ends() -> None:
    """Half of the rounds are the reverse of the other half."""
    rounds = Counter(block_rounds(["a", "b", "c"], blocks=8, seed=5, launch=2, case_id="c"))
    for order, number in rounds.items():
        assert number == rounds[order[::-1]]


def test_turns_prepare_alternate_and_finish() -> None:
    """Both arms are prepared before the first block, so that counts can be equal; blocks follow the rounds."""
    sequence = turns([("symm", "none"), ("none", "symm")])
    assert [
        Turn(kind="prepare", arm="none"),
        Turn(kind="prepare", arm="symm"),
        Turn(kind="block", arm="symm", block=0),
        Turn(kind="block", arm="none", block=0),
        Turn(kind="block", arm="none", block=1),
        Turn(kind="block", arm="symm", block=1),
        Turn(kind="finish", arm="none"),
        Turn(kind="finish", arm="symm"),
    ] == sequence
