"""Numbers as files carry them."""

from typing import Any

DIGITS = 10
"""Significant digits: beyond lies rounding error, which differs between CPUs and would change published files."""


def rounded(value: Any) -> Any:
    """A JSON value with every float cut to `DIGITS` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value
