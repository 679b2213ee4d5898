"""Scenario files: read with every error named by its key, write so that the file replays the same plan."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gtpbench.errors import ScenarioError, UsageError
from gtpbench.scenario.schema import Scenario
from gtpbench.units import format_size

if TYPE_CHECKING:
    from collections.abc import Mapping


def load_scenario(path: Path) -> Scenario:
    """The scenario in a TOML file.

    Raises:
        UsageError: the file cannot be read.
        ScenarioError: not TOML, an unknown key or a bad value; every one is named with its path.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"scenario {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"scenario {path}: not TOML: {error}") from error
    return build_scenario(table, origin=str(path))


def build_scenario(table: "Mapping[str, Any]", *, origin: str) -> Scenario:
    """The scenario of a table of values; `origin` names it in errors.

    Raises:
        ScenarioError: an unknown key or a bad value; every one is named with its path.
    """
    try:
        return Scenario.model_validate(table)
    except ValidationError as error:
        items = error.errors()
        # Of a key that may also be "auto", what is wrong with the value says more than that it is not "auto".
        told = [_explain(item) for item in items if item["type"] != "literal_error" or not _has_other(items, item)]
        raise ScenarioError(f"{origin}: " + "; ".join(told)) from error


def dump_scenario(scenario: Scenario) -> str:
    """TOML text that `load_scenario` reads back to an equal scenario."""
    values = scenario.model_dump(mode="json", exclude_none=True)
    workload = values["workload"]
    for key in _SIZES & workload.keys():
        workload[key] = _size_texts(workload[key])
    top = [f"{key} = {_toml(value)}" for key, value in values.items() if not isinstance(value, dict)]
    tables = [
        f"\n[{name}]\n" + "\n".join(f"{key} = {_toml(value)}" for key, value in table.items())
        for name, table in values.items()
        if isinstance(table, dict)
    ]
    return "\n".join(top + tables) + "\n"


_NOT_KEYS = ("tuple[", "literal[", "function-", "constrained-", "kind:")
"""How names for the members of a union begin; they are no part of a key's path."""
_SIZES = frozenset({"sizes", "buffer_sizes", "max_total_bytes", "buffers"})
"""Keys of workloads that hold bytes."""


def _size_texts(value: Any) -> Any:
    """Sizes for people; `auto` stays."""
    if isinstance(value, list):
        return [format_size(size) for size in value]
    return format_size(value) if isinstance(value, int) else value


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and flat arrays are TOML's.
    return json.dumps(value, ensure_ascii=True)


def _key(item: Any) -> str:
    return ".".join(str(part) for part in item["loc"] if not str(part).startswith(_NOT_KEYS))


def _has_other(items: Any, item: Any) -> bool:
    return any(other is not item and _key(other).startswith(_key(item)) for other in items)


def _explain(item: Any) -> str:
    key = _key(item)
    if item["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    if item["type"] == "missing":
        return f"{key}: missing"
    message = item["msg"].removeprefix("Value error, ")
    return f"{key}: {message} (given {item['input']!r:.80})" if key else message
