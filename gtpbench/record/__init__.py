"""Records: what a run leaves behind, and how it is read again."""

from gtpbench.record.environment import Environment, RankPlace, differing_fields
from gtpbench.record.lines import append_line, read_environments, read_records, repair_torn_line
from gtpbench.record.model import (
    RECORD_SCHEMA_VERSION,
    Origin,
    Proof,
    Record,
    Samples,
    Status,
    Verification,
)

__all__ = [
    "RECORD_SCHEMA_VERSION",
    "Environment",
    "Origin",
    "Proof",
    "RankPlace",
    "Record",
    "Samples",
    "Status",
    "Verification",
    "append_line",
    "differing_fields",
    "read_environments",
    "read_records",
    "repair_torn_line",
]
