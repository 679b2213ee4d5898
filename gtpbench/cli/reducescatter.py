"""`gtpbench reducescatter`."""

from gtpbench.cli.collective_command import collective_command

command = collective_command(
    "reduce_scatter",
    doc="""Measure reduce-scatter over sizes and arms.

    Example: gtpbench reducescatter --symm --num-ranks 2 -b 1M -e 16M
    """,
)
