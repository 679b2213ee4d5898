"""`gtpbench list`."""

from enum import StrEnum
from typing import Annotated

import typer


class Listing(StrEnum):
    """What can be listed."""

    ARMS = "arms"
    BACKENDS = "backends"
    COLLECTIVES = "collectives"
    DTYPES = "dtypes"
    SCENARIOS = "scenarios"
    SKIPS = "skips"
    SCHEMA = "schema"


What = Annotated[Listing, typer.Argument(metavar="WHAT", help=f"One of: {', '.join(Listing)}.")]


def command(what: What) -> None:
    """List arms, backends, scenarios, schemas.

    Each with the file to open; `schema` prints the JSON Schemas of scenario, record and environment.

    Example: gtpbench list arms
    """
    from gtpbench.cli.listings import listing
    from gtpbench.cli.output import emit

    emit(listing(what.value))
