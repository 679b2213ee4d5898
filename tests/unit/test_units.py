"""Sizes, times and rates as text."""

import pytest

from gtpbench.errors import UsageError
from gtpbench.units import (
    format_about,
    format_gib,
    format_rate,
    format_seconds,
    format_size,
    format_times_us,
    gb_per_s,
    parse_size,
)

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("64K", 64 * KIB),
        ("8M", 8 * MIB),
        ("1G", GIB),
        ("64k", 64 * KIB),
        ("64KiB", 64 * KIB),
        ("64kib", 64 * KIB),
        ("8MB", 8 * MIB),
        ("1T", TIB),
        ("1048576", MIB),
        ("12B", 12),
        ("0", 0),
        ("1.5K", 1536),
        ("0.5MiB", 512 * KIB),
        ("  64 K ", 64 * KIB),
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993B", 2**53 + 1),
        ("0.1T", None),
        ("1.0001K", None),
        ("1.5", None),
        ("0.3B", None),
    ],
)
def test_parse_size_is_binary_and_exact(text: str, size_bytes: int | None) -> None:
    """nccl-tests' letters and IEC names are powers of 1024; anything but a whole number of bytes is refused."""
    if size_bytes is None:
        with pytest.raises(UsageError, match="not a whole number of bytes"):
            parse_size(text)
    else:
        assert size_bytes == parse_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "K",
        "64X",
        "-1",
        "-64K",
        "+1",
        "1e6",
        "1_000",
        "64KK",
        "64Ki",
        "64 K B",
        "0x10",
        "nan",
        "inf",
        "1,5K",
        "1.K",
        ".5K",
        "64K\n8M",
        "64\N{KELVIN SIGN}",
        "\N{ARABIC-INDIC DIGIT SIX}4K",
    ],
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    """The message quotes the text and shows what a size looks like."""
    with pytest.raises(UsageError, match="is not a size: give bytes or K, M, G") as caught:
        parse_size(text)
    assert repr(text) in str(caught.value)


def test_a_size_beyond_floating_point_is_exact() -> None:
    """A number of 400 digits is a number, not infinity."""
    assert 10**400 == parse_size("1" + "0" * 400)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0B"),
        (1, "1B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (1536, "1.5KiB"),
        (64 * KIB, "64KiB"),
        (8 * MIB, "8MiB"),
        (GIB, "1GiB"),
        (1536 * MIB, "1.5GiB"),
        (37748744, "37748744B"),
        (2 * TIB, "2TiB"),
        (2**53 + 1, "9007199254740993B"),
    ],
)
def test_format_size_is_short_and_exact(size_bytes: int, text: str) -> None:
    """The largest unit that gives the size exactly in at most six digits, else bytes."""
    assert text == format_size(size_bytes)
    assert size_bytes == parse_size(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (0.44, "0.4 s"), (42.4, "42 s"), (119.0, "119 s"), (185.2, "3 min 05 s"), (3600.0, "60 min 00 s")],
)
def test_format_seconds_is_for_people(seconds: float, text: str) -> None:
    """Tenths below ten seconds, minutes from two minutes on, seconds always in two digits."""
    assert text == format_seconds(seconds)


@pytest.mark.parametrize(
    ("times_us", "text"),
    [
        ((310.0,), "310 us"),
        ((999.4,), "999 us"),
        ((999.6,), "1.00 ms"),
        ((12_340.0, 11_800.0, 14_010.0), "12.3 ms (11.8–14.0)"),
        ((12_340.0, 12_340.0, 12_341.0), "12.3 ms"),
        ((3.6e6, 900.0, 4e6), "3.60 s (0.0009–4.00)"),
        ((0.0,), "0.00 us"),
    ],
)
def test_costs_are_for_people(times_us: tuple[float, ...], text: str) -> None:
    """The unit is the median's; the range is in the same unit, and left out where it has no width."""
    assert text == format_times_us(*times_us)


def test_gib_has_two_decimals() -> None:
    """141 GB of HBM are 131.32 GiB."""
    assert format_gib(141 * 10**9) == "131.32"


@pytest.mark.parametrize(
    ("num_bytes", "time_us", "rate"), [(10**9, 1e6, 1.0), (1000, 1.0, 1.0), (2**30, 3000.0, 357.913941)]
)
def test_rates_are_decimal(num_bytes: int, time_us: float, rate: float) -> None:
    """1 GB/s is 10^9 bytes in a second, so a kilobyte in a microsecond."""
    assert rate == pytest.approx(gb_per_s(num_bytes, time_us), rel=1e-8)


@pytest.mark.parametrize(
    ("rate", "text"), [(376.4, "376"), (99.97, "100"), (12.44, "12.4"), (9.997, "10.0"), (0.826, "0.83")]
)
def test_format_rate_has_three_digits(rate: float, text: str) -> None:
    """As times, without the unit."""
    assert text == format_rate(rate)


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [
        (0, "0B"),
        (512, "512B"),
        (1023, "1023B"),
        (1024, "1KiB"),
        (64 * 2**10, "64KiB"),
        (2**20 - 1, "1MiB"),
        (2**20 + 2**16, "1.06MiB"),
        (132 * 2**20, "132MiB"),
        (4880080896, "4.54GiB"),
        (16 * 2**30, "16GiB"),
        (int(16.25 * 2**30), "16.2GiB"),
        (3 * 2**40, "3TiB"),
    ],
)
def test_bytes_to_three_digits(num_bytes: int, text: str) -> None:
    """In the largest unit that leaves something before the point."""
    assert text == format_about(num_bytes)
