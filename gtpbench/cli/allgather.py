"""`gtpbench allgather`."""

from gtpbench.cli.collective_command import collective_command

command = collective_command(
    "all_gather",
    doc="""Measure all-gather over sizes and arms.

    Example: gtpbench allgather --symm --num-ranks 2 -b 1M -e 16M

    Example: gtpbench allgather --registration-cost --arm symm --num-ranks 2 -e 4M
    """,
)
