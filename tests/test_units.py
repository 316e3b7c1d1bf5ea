# SPDX-License-Identifier: Apache-2.0
"""Rates, sizes and times: accepted and refused texts, and printed values that parse back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsnet import units
from hipsnet.errors import InputError

RATES = {
    "500mbit": 500_000_000, "1gbit": 10**9, "500M": 500_000_000, "500Mbit/s": 500_000_000, "1 Gbit/s": 10**9,
    "8kbit/s": 8000, "0.5Mbit/s": 500_000, "100Gbit/s": 10**11, "1T": 10**12, "10000bit": 10_000,
    "1.5g": 15 * 10**8, "unlimited": None,
}  # fmt: skip
SIZES = {
    "0": 0, "4096": 4096, "1B": 1, "1KiB": 1024, "1kib": 1024, "1KB": 1000, "1.5KiB": 1536, "64KiB": 65536,
    "64MiB": 64 << 20, "2MB": 2 * 10**6, "2 GiB": 2 << 30, "1TB": 10**12, "0.001GB": 10**6, "128M": 128 << 20,
    "8k": 8192,
}  # fmt: skip
TIMES = {
    "0us": 0,
    "500us": 500,
    "1.5ms": 1500,
    "10s": 10**7,
    "0.25s": 250_000,
    "2min": 12 * 10**7,
    "1 MS": 1000,
}
DAY_US = 86_400 * 10**6


@pytest.mark.parametrize("text", RATES)
def test_rates(text: str) -> None:
    assert units.parse_rate(text) == RATES[text]


@pytest.mark.parametrize("text", SIZES)
def test_sizes(text: str) -> None:
    assert units.parse_size(text) == SIZES[text]


@pytest.mark.parametrize("text", TIMES)
def test_times(text: str) -> None:
    assert units.parse_time(text, DAY_US) == TIMES[text]


def test_a_time_without_a_unit_is_in_the_unit_of_its_context() -> None:
    assert units.parse_time("7.5", DAY_US, bare="s") == 7_500_000
    with pytest.raises(ValueError, match="us, ms, s, min"):
        units.parse_time("7.5", DAY_US)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("500", "one of the units bit/s, kbit/s, Mbit/s"), ("1GB/s", "bit/s"), ("500Mbps", "bit/s"),
        ("", "unlimited"),
        ("-1Mbit/s", "bit/s"), ("1e3M", "bit/s"), ("Unlimited", "unlimited"), ("1" * 5000 + "M", "bit/s"),
        ("0bit/s", "at least 8kbit/s"), ("1001T", "at most 1000Tbit/s"), ("8000.5bit", "whole number of bit/s"),
    ],
)  # fmt: skip
def test_what_is_no_rate(text: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=re.escape(allowed)):
        units.parse_rate(text)


@pytest.mark.parametrize(
    "text",
    ["", "MiB", "-1KiB", "1.5B", "1e3", "1  K", "1Mbit", "1,5MiB", "0x10", "٣KiB", "1KiB\n", "2000000TiB"],
)
def test_what_is_no_size_is_an_error_of_its_option(text: str) -> None:
    with pytest.raises(InputError, match=r"^--size: found .*; allowed: a "):
        units.given("--size", text, units.parse_size)


@pytest.mark.parametrize("text", ["", "5", "1m", "1h", "0.5us", "10.001s", "-1s"])
def test_what_is_no_delay(text: str) -> None:
    with pytest.raises(ValueError):
        units.parse_delay(text)


@given(st.integers(units.LEAST_RATE_BPS, units.MOST_RATE_BPS))
def test_a_rate_that_is_printed_reads_back(rate_bps: int) -> None:
    assert units.parse_rate(units.format_rate(rate_bps)) == rate_bps


@given(st.integers(0, units.MOST_SIZE_BYTES))
def test_a_size_that_is_printed_reads_back(size_bytes: int) -> None:
    assert units.parse_size(units.format_size(size_bytes)) == size_bytes


@given(st.integers(0, DAY_US))
def test_a_time_that_is_printed_reads_back(time_us: int) -> None:
    assert units.parse_time(units.format_time(time_us), DAY_US) == time_us


@given(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,2})? ?[kKmMgGtTiIbBuUsSnN/]{0,5}", fullmatch=True))
def test_the_patterns_for_editors_are_the_grammar(text: str) -> None:
    for parse, pattern in (
        (units.parse_rate, units.RATE_PATTERN),
        (units.parse_size, units.SIZE_PATTERN),
        (units.parse_delay, units.TIME_PATTERN),
    ):
        try:
            parse(text)
            understood = True
        except ValueError as error:
            understood = "one of the units" not in str(error)
        assert bool(re.search(pattern, text)) == understood


def test_how_quantities_are_printed() -> None:
    assert [units.format_rate(rate) for rate in (None, 8000, 500_000_000, 2_500_000_000, 123_456_789)] == [
        "unlimited", "8kbit/s", "500Mbit/s", "2.5Gbit/s", "123456.789kbit/s",
    ]  # fmt: skip
    assert [units.format_size(size) for size in (0, 1023, 1536, 1_500_000, 64 << 20, 3 << 40)] == [
        "0B", "1023B", "1.5KiB", "1500000B", "64MiB", "3TiB",
    ]  # fmt: skip
    assert [units.format_time(time) for time in (0, 50, 1500, 2_000_000, 120_000_000)] == [
        "0us", "50us", "1.5ms", "2s", "2min",
    ]  # fmt: skip
    assert [units.approximate_size(size) for size in (0, 1023, 1024, 1_500_000)] == [
        "0B", "1023B", "1KiB", "1.431MiB",
    ]  # fmt: skip
