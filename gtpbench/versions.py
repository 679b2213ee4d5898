"""Which arm can run where: evaluates the rules of versions.toml on the facts at hand. Pure."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from gtpbench.errors import UsageError

Facts = dict[str, str | int | None]
"""What the rules ask about, by name; None where it is not known. Of the arm: arm, backend, registration, sides,
multicast, cta_policy. Of the run: workload, num_ranks, num_nodes, ranks_per_node, ranks_per_gpu, functional. Of the
machine: machine, num_gpus, gpus_needed, missing_gpus, compute_capability, mps, torch, nccl, nccl4py, nvls_enable,
expandable_segments. Of a case: dtype, op, reduces, placement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipReason:
    """Why an arm cannot run: a stable code and the sentence shown to people."""

    code: str
    text: str


def skip_reason(facts: Facts) -> SkipReason | None:
    """The first rule that applies to these facts, or None where the arm can run."""
    for rule in rules():
        if all(_holds(facts.get(name), condition) for name, condition in rule["when"].items()):
            return SkipReason(code=rule["code"], text=rule["text"].format_map(facts))
    return None


def parse_version(text: str) -> tuple[int, ...]:
    """Numbers of a version: "2.13.0+cpu" is (2, 13, 0).

    Raises:
        UsageError: does not start with a number.
    """
    numbers: list[int] = []
    for part in text.split("+", maxsplit=1)[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    if not numbers:
        raise UsageError(f"{text!r} is not a version")
    return tuple(numbers)


@cache
def rules() -> list[dict[str, Any]]:
    """The rules as they stand in versions.toml: code, text, when."""
    text = resources.files("gtpbench").joinpath("versions.toml").read_text(encoding="utf-8")
    rules: list[dict[str, Any]] = tomllib.loads(text)["rule"]
    return rules


def _holds(value: str | int | None, condition: str | list[str]) -> bool:
    if value is None:
        return False
    if isinstance(condition, list):
        return str(value) in condition
    operator = condition.rstrip("0123456789.abcdefghijklmnopqrstuvwxyz_")
    operand = condition[len(operator) :]
    if operator == "=":
        return str(value) == operand
    if operator == "!=":
        return str(value) != operand
    left, right = parse_version(str(value)), parse_version(operand)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
