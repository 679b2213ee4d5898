"""The registries as text."""

import json
from collections.abc import Sequence
from pathlib import Path

from gtpbench.arms import ARMS
from gtpbench.backends import BACKENDS
from gtpbench.collectives import COLLECTIVES, DTYPES
from gtpbench.errors import UsageError
from gtpbench.versions import rules


def listing(what: str) -> str:
    """The named registry as a table, with the file that holds it; `schema` as JSON."""
    return {
        "arms": _arms,
        "backends": _backends,
        "collectives": _collectives,
        "dtypes": _dtypes,
        "scenarios": _scenarios,
        "skips": _skips,
        "schema": _schema,
    }[what]()


def _arms() -> str:
    rows = [(arm.name, arm.registration, arm.sides, arm.summary) for arm in ARMS.values()]
    return _table(("arm", "registration", "sides", "what it is"), rows, "gtpbench/arms.py")


def _backends() -> str:
    rows = [
        (
            name,
            entry.origin,
            entry.target.split(":")[0].replace(".", "/") + ".py",
            entry.summary,
        )
        for name, entry in BACKENDS.items()
    ]
    return _table(("backend", "origin", "file", "what it is"), rows, "gtpbench/backends/__init__.py")


def _collectives() -> str:
    rows = [
        (item.name, item.title, "output" if not item.reduces else "input", "(G-1)/G") for item in COLLECTIVES.values()
    ]
    return _table(("collective", "title", "size counts its", "busbw factor"), rows, "gtpbench/collectives.py")


def _dtypes() -> str:
    rows = [(item.name, str(item.size_bytes), ", ".join(item.aliases) or "-") for item in DTYPES.values()]
    return _table(("dtype", "bytes", "also"), rows, "gtpbench/collectives.py")


def _scenarios() -> str:
    files = sorted(Path("scenarios").rglob("*.toml"))
    if not files:
        raise UsageError("no folder scenarios/ here: run this in gtpbench's checkout")
    rows = [(str(file), next(iter(file.read_text(encoding="utf-8").splitlines()), "").lstrip("# ")) for file in files]
    return _table(("scenario", "what it is"), rows, "scenarios/")


def _skips() -> str:
    rows = [
        (
            rule["code"],
            " and ".join(f"{name} {_condition(value)}" for name, value in rule["when"].items()),
            rule["text"],
        )
        for rule in rules()
    ]
    return _table(("code", "when", "reason"), rows, "gtpbench/versions.toml")


def _condition(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "in " + "|".join(value)


def _schema() -> str:
    from gtpbench.record.environment import Environment
    from gtpbench.record.model import record_schema
    from gtpbench.scenario.schema import Scenario

    schemas = {
        "scenario": Scenario.model_json_schema(),
        "record": record_schema(),
        "environment": Environment.model_json_schema(),
    }
    return json.dumps(schemas, indent=2)


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], source: str) -> str:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [header, *rows]
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "", f"from {source}"])
