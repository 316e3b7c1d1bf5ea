# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them on a command line: 64MiB, 1.5KiB, 1MB, 4096."""

from __future__ import annotations

import re
from fractions import Fraction

from hipsnet.errors import InputError

UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGT", 1)
    for suffix, base in (("iB", 1024), ("B", 1000))
}
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_UNITS_IN_CAPITALS = {unit.upper(): factor for unit, factor in UNITS.items()}


def parse_size(text: str, source: str = "size") -> int:
    """Return a size in bytes; KiB are 1024 and KB 1000. Raises InputError naming `source` for anything else."""
    found = _SIZE.fullmatch(text.strip())
    factor = _UNITS_IN_CAPITALS.get(found[2].upper()) if found else None
    if found is None or factor is None:
        units = ", ".join(filter(None, UNITS))
        raise InputError(f"{source}: found {text!r}; wanted a number and one of {units}, like 64MiB")
    size = Fraction(found[1]) * factor
    if size.denominator != 1:
        raise InputError(f"{source}: found {text!r}; wanted a whole number of bytes, not {float(size):g}")
    return int(size)


def format_size(size_bytes: int) -> str:
    """Write a size with the largest binary unit that it reaches, to four digits: 1500000 is "1.431 MiB"."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= UNITS[unit]:
            return f"{size_bytes / UNITS[unit]:.4g} {unit}"
    return f"{size_bytes} B"
