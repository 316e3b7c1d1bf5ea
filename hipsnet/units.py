# SPDX-License-Identifier: Apache-2.0
"""Rates, sizes and times as text: one grammar for the topology file, the command line and the environment.

A quantity is a number, at most one space, and a unit; upper and lower case are equal.

| quantity | units | base unit |
|---|---|---|
| rate | bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (decimal); as in tc also kbit, Mbit, ...; short: K, M, G, T | bit/s |
| size | B; KiB, MiB, GiB, TiB (powers of 1024); KB, MB, GB, TB (powers of 1000); K, M, G, T: as KiB, ... | byte |
| time | us, ms, s, min | microsecond |

`Mbps` is not a unit: it is Mbit/s to most people and Mbyte/s to tc.

The `parse_` functions raise ValueError with a phrase that says what is allowed. The `format_` functions write what
`parse_` reads back as the same number; `approximate_size` writes four digits, for tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

from hipsnet.errors import InputError

_Value = TypeVar("_Value")
_PREFIXES = ("", "k", "M", "G", "T")
_RATES = {f"{prefix}bit/s": 1000**power for power, prefix in enumerate(_PREFIXES)}
_SIZES = {"B": 1} | {f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", 1)}
_TIMES = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6}
"""The units that are printed, the smallest first."""

_RATE_UNITS = (
    _RATES
    | {unit.removesuffix("/s"): factor for unit, factor in _RATES.items()}
    | {prefix: 1000**power for power, prefix in enumerate(_PREFIXES) if prefix}
)
_SIZE_UNITS = (
    _SIZES
    | {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)}
    | {prefix: 1024**power for power, prefix in enumerate("KMGT", 1)}
)

LEAST_RATE_BPS, MOST_RATE_BPS = 8_000, 10**15
MOST_SIZE_BYTES = 2**60
_DECIMALS = 3

_QUANTITY = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z/]*)")
_NUMBER = r"[0-9]{1,19}(\.[0-9]{1,9})? ?"
RATE_PATTERN = rf"^(unlimited|{_NUMBER}([kKmMgGtT]?[bB][iI][tT](/[sS])?|[kKmMgGtT]))$"
SIZE_PATTERN = rf"^{_NUMBER}([kKmMgGtT]?[bB]|[kKmMgGtT]([iI][bB])?)?$"
TIME_PATTERN = rf"^{_NUMBER}([uUmM]?[sS]|[mM][iI][nN])$"
"""For the JSON Schema: the quantities that the `parse_` functions understand, limits apart."""


def parse_rate(text: str) -> int | None:
    """Return a rate in bit/s, 8 kbit/s to 1000 Tbit/s, or None for "unlimited"."""
    if text == "unlimited":
        return None
    allowed = (
        "a number with one of the units bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s (or mbit, M, ...), or unlimited"
    )
    rate_bps = _parse(text, _RATE_UNITS, allowed)
    if not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
        raise ValueError("a rate of at least 8kbit/s and at most 1000Tbit/s, or unlimited")
    return _whole(rate_bps, "bit/s")


def parse_size(text: str) -> int:
    """Return a size in bytes, at most 2^60; a number without a unit is in bytes."""
    allowed = (
        "a number with one of the units B, KiB, MiB, GiB, TiB (powers of 1024; or K, M, ...), KB, MB, GB, TB"
    )
    size = _parse(text, _SIZE_UNITS, allowed, bare="B")
    if size > MOST_SIZE_BYTES:
        raise ValueError(f"a size of at most {format_size(MOST_SIZE_BYTES)}")
    return _whole(size, "bytes")


def parse_time(text: str, most_us: int, bare: str | None = None) -> int:
    """Return a time in microseconds, 0 to `most_us`; `bare` is the unit of a number without one."""
    time_us = _parse(text, _TIMES, "a number with one of the units us, ms, s, min", bare)
    if time_us > most_us:
        raise ValueError(f"a time of at most {format_time(most_us)}")
    return _whole(time_us, "us")


def parse_delay(text: str) -> int:
    """Return the delay of a cable in microseconds, at most 10 s."""
    return parse_time(text, most_us=10 * _TIMES["s"])


def _parse(text: str, units: Mapping[str, int], allowed: str, bare: str | None = None) -> Fraction:
    found = _QUANTITY.fullmatch(text)
    unit = (found[2] or bare) if found else None
    factor = {name.lower(): factor for name, factor in units.items()}.get(unit.lower()) if unit else None
    if found is None or factor is None:
        raise ValueError(allowed)
    return Fraction(found[1]) * factor


def _whole(value: Fraction, unit: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"a whole number of {unit}, not {float(value):g}")
    return int(value)


def format_rate(rate_bps: int | None) -> str:
    """Write a rate exactly, in the largest unit that takes at most three decimals: "2.5Gbit/s"."""
    return "unlimited" if rate_bps is None else _format(rate_bps, _RATES)


def format_size(size_bytes: int) -> str:
    """Write a size exactly, in the largest unit that takes at most three decimals: "1.5KiB", "1500001B"."""
    return _format(size_bytes, _SIZES)


def format_time(time_us: int) -> str:
    """Write a time exactly, in the largest unit that takes at most three decimals: "1.5ms"."""
    return _format(time_us, _TIMES)


def _format(value: int, units: dict[str, int]) -> str:
    for unit, factor in reversed(units.items()):
        thousandths, rest = divmod(value * 10**_DECIMALS, factor)
        if value >= factor and rest == 0:
            whole, decimals = divmod(thousandths, 10**_DECIMALS)
            return f"{whole}.{decimals:0{_DECIMALS}}".rstrip("0").rstrip(".") + unit
    return f"{value}{next(iter(units))}"


def approximate_size(size_bytes: int) -> str:
    """Write a size to four digits, in the largest unit that it reaches: 1500000 is "1.431MiB"."""
    for unit, factor in reversed(_SIZES.items()):
        if size_bytes >= factor > 1:
            return f"{size_bytes / factor:.4g}{unit}"
    return f"{size_bytes}B"


def given(source: str, text: str, parse: Callable[[str], _Value]) -> _Value:
    """Parse what an option or a variable was set to; InputError names it and says what is allowed."""
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(f"{source}: found {text!r}; allowed: {error}") from None
