# SPDX-License-Identifier: Apache-2.0
"""Quantities as people write them in a topology file: rates, delays and sizes with their units."""

from __future__ import annotations

import re
from fractions import Fraction

RATE_UNITS = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9, "Tbit/s": 10**12}
DELAY_UNITS = {"us": 1, "ms": 10**3, "s": 10**6}
SIZE_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def _pattern(units: dict[str, int]) -> str:
    return rf"[0-9]{{1,12}}(\.[0-9]{{1,6}})?({'|'.join(units)})"


RATE_PATTERN = rf"^(unlimited|{_pattern(RATE_UNITS)})$"
DELAY_PATTERN = rf"^{_pattern(DELAY_UNITS)}$"
SIZE_PATTERN = rf"^{_pattern(SIZE_UNITS)}$"


def _parse(text: str, units: dict[str, int]) -> int:
    """Return the quantity in its base unit; ValueError when it has another unit or is no whole number."""
    if not re.fullmatch(_pattern(units), text):
        raise ValueError(f"a number with one of the units {', '.join(units)}")
    number = text.rstrip("/%abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    value = Fraction(number) * units[text[len(number) :]]
    if value.denominator != 1:
        raise ValueError(f"a whole number of {next(iter(units))}")
    return int(value)


def parse_rate(text: str) -> int | None:
    """Return a rate in bit/s, or None for "unlimited"; ValueError says what is allowed."""
    if text == "unlimited":
        return None
    try:
        rate_bps = _parse(text, RATE_UNITS)
    except ValueError as error:
        raise ValueError(f"{error}, or unlimited") from None
    if rate_bps < 8000:
        raise ValueError("a rate of at least 8kbit/s")
    return rate_bps


def parse_delay(text: str) -> int:
    """Return a delay in microseconds; ValueError says what is allowed."""
    delay_us = _parse(text, DELAY_UNITS)
    if delay_us > 10**7:
        raise ValueError("a delay of at most 10s")
    return delay_us


def format_delay(delay_us: int) -> str:
    """Write a delay with the largest unit that divides it: 5000 is "5ms", 1500 is "1500us"."""
    factors = reversed(DELAY_UNITS.items())
    unit, factor = next((u, f) for u, f in factors if f == 1 or (delay_us and delay_us % f == 0))
    return f"{delay_us // factor}{unit}"


def parse_size(text: str) -> int:
    """Return a size in bytes; ValueError says what is allowed."""
    return _parse(text, SIZE_UNITS)


def format_rate(rate_bps: int | None) -> str:
    """Write a rate with the largest unit that keeps it short: 500000000 is "500Mbit/s"."""
    if rate_bps is None:
        return "unlimited"
    unit, factor = next((u, f) for u, f in reversed(RATE_UNITS.items()) if rate_bps >= f or f == 1)
    return f"{rate_bps / factor:g}{unit}"
