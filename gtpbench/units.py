"""Sizes, times and rates as text: the only place that converts.

Sizes are binary (64KiB = 65536 bytes), rates decimal (1 GB/s = 10^9 bytes per second), stored times microseconds.
"""

import re
from fractions import Fraction

from gtpbench.errors import UsageError

_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(
    r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[KMGT]?)(?P<suffix>iB|B)?\s*$", re.ASCII | re.IGNORECASE
)
_TIMES = ((1e6, "s"), (1e3, "ms"))
_LADDER = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def parse_size(text: str) -> int:
    """Bytes of a size such as `64K`, `8M`, `1G` (nccl-tests' letters), `64KiB`, `8MB` or `1048576`; all binary.

    Raises:
        UsageError: not a size, or not a whole number of bytes.
    """
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(f"{text!r} is not a size: give bytes or K, M, G, KiB, MiB, GiB, for example 64K or 8MiB")
    value = Fraction(match["number"]) * _BINARY[match["prefix"].upper()]
    if value.denominator != 1:
        raise UsageError(f"{text!r} is not a whole number of bytes")
    return value.numerator


def format_size(size_bytes: int) -> str:
    """The shortest exact text of a size: `8MiB`, `1.5KiB`, `37748744B`; `parse_size` reads it back to the byte."""
    for suffix, unit in _LADDER:
        if size_bytes >= unit:
            text = f"{size_bytes / unit:g}"
            if "e" not in text and float(text) * unit == size_bytes:
                return f"{text}{suffix}"
    return f"{size_bytes}B"


def format_about(num_bytes: int) -> str:
    """Bytes to three digits for people, not to be read back: `4.54GiB`, `132MiB`, `512B`."""
    suffix, unit = next(((suffix, unit) for suffix, unit in _LADDER if num_bytes >= 0.9995 * unit), ("B", 1))
    return f"{_three_digits(num_bytes / unit).removesuffix('.00').removesuffix('.0')}{suffix}"


def format_seconds(seconds: float) -> str:
    """A duration for people: `0.4 s`, `42 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def format_times_us(median_us: float, low_us: float | None = None, high_us: float | None = None) -> str:
    """A cost in microseconds for people, and its range where that has two ends: `310 us`, `12.3 ms (11.8–14.0)`."""
    divisor, unit = next(((size, name) for size, name in _TIMES if median_us >= 0.9995 * size), (1.0, "us"))
    low, middle, high = (
        _three_digits(value / divisor)
        for value in (median_us if low_us is None else low_us, median_us, median_us if high_us is None else high_us)
    )
    return f"{middle} {unit}" + (f" ({low}–{high})" if low != high else "")


def format_gib(num_bytes: int) -> str:
    """Bytes in GiB to two decimals, without the unit: `139.80`."""
    return f"{num_bytes / 2**30:.2f}"


def gb_per_s(num_bytes: float, time_us: float) -> float:
    """Rate in GB/s (10^9 bytes per second) of `num_bytes` moved in `time_us` microseconds."""
    return num_bytes / time_us / 1e3


def format_rate(rate_gb_per_s: float) -> str:
    """A rate in GB/s with three digits that matter, without its unit: `376`, `12.4`, `0.83`, `0.011`."""
    return _three_digits(rate_gb_per_s)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.0995 or not magnitude else f"{value:.2g}"
