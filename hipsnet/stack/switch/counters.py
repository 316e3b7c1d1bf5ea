# SPDX-License-Identifier: Apache-2.0
"""What the soft switches of a fabric count, out of the file that they write while they run."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from hipsnet.errors import ProvisionError
from hipsnet.stack.building import FOLDER

_TABLES = ("SWITCH_COUNTERS", "PORT_COUNTERS", "PRIORITY_COUNTERS", "PFC_COUNTERS", "EVENT_FIELDS")
PRIORITIES = 8


@dataclass(frozen=True)
class SwitchCounters:
    """One switch as it was when it was read.

    `totals` has the fields of SWITCH_COUNTERS (counters.h says what they mean), `ports` a row for each
    port with those of PORT_COUNTERS and, of shape (8,), `priority` with those of PRIORITY_COUNTERS and `pause`
    with those of PFC_COUNTERS.
    """

    name: str
    totals: dict[str, int]
    ports: np.ndarray[Any, np.dtype[Any]]

    @property
    def dropped(self) -> dict[str, int]:
        """Frames lost by reason, of all ports and priorities, without zeros."""
        losses = {
            f"{name}": int(part[name].sum())
            for part in (self.ports, self.ports["priority"])
            for name in part.dtype.names or ()
            if name.startswith("drop_")
        }
        return {name: count for name, count in losses.items() if count}


@dataclass(frozen=True)
class CountersFile:
    """The whole file: its switches by name, in its order, and the watchdog's ring, of `event_ring`."""

    switches: dict[str, SwitchCounters]
    events: np.ndarray[Any, np.dtype[Any]]


def read(path: Path) -> dict[str, SwitchCounters]:
    """All switches by name. Raises what `read_file` raises."""
    return read_file(path).switches


def read_file(path: Path) -> CountersFile:
    """Raises ProvisionError if no soft switch has written it, or one of another version."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        raise ProvisionError(
            f"{path}: wanted the counters of a soft switch, found none; does it run?"
        ) from None
    except ValueError as error:
        raise ProvisionError(
            f"{path}: wanted the counters of this version's soft switch, {error}; "
            "destroy the lab and provision it anew"
        ) from None


def event_ring() -> np.dtype[Any]:
    """The layout of the last events, which any memory may hold."""
    return _layout("struct switch_file")["events"]


def pause_names() -> tuple[str, ...]:
    """The counters of PFC, in their order; there are as many for each priority."""
    return tuple(_tables()["PFC_COUNTERS"])


def from_bytes(content: bytes) -> SwitchCounters:
    """One switch, of memory that begins with its counters."""
    return _read_switch(content, 0)[0]


def _parsed(content: bytes) -> CountersFile:
    """Raises ValueError if the file is not of this version, or not whole."""
    if content[:8] != _number("SWITCH_FILE_MARK").to_bytes(8, sys.byteorder):
        raise ValueError("found a file without their mark")
    layout = _layout("struct switch_file")
    (head,) = _rows(content, layout, 1, 0)
    if head["layout"] != _fingerprint():
        raise ValueError("found others")
    switches, at = {}, layout.itemsize
    for _ in range(int(head["switches"])):
        counters, at = _read_switch(content, at)
        switches[counters.name] = counters
    if at != len(content):
        raise ValueError(f"found {len(content)} bytes instead of {at}")
    return CountersFile(switches, head["events"])


def _read_switch(content: bytes, at: int) -> tuple[SwitchCounters, int]:
    head, port = _layout("struct switch_counters"), _layout("struct port_counters")
    (row,) = _rows(content, head, 1, at)
    at += head.itemsize
    ports = _rows(content, port, int(row["ports"]), at)
    totals = {name: int(row[name]) for name in head.names or () if name != "name"}
    return SwitchCounters(row["name"].decode(), totals, ports), at + ports.nbytes


def _rows(content: bytes, layout: np.dtype[Any], count: int, at: int) -> np.ndarray[Any, np.dtype[Any]]:
    if len(content) - at < count * layout.itemsize:
        raise ValueError(f"found only {len(content)} bytes")
    return np.frombuffer(content, layout, count, at)


@cache
def _fingerprint() -> int:
    """switch_layout() of counters.h: FNV-1a, 64 bits, over the names of all fields in their order."""
    value = 0xCBF29CE484222325
    tables = _tables()
    for byte in "".join(f"{name} " for table in _TABLES for name in tables[table]).encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@cache
def _layout(what: str) -> np.dtype[Any]:
    """The structs of counters.h: 64-bit words, but for a name."""
    tables = _tables()
    if what == "struct switch_file":
        event = np.dtype([(name, "u8") for name in tables["EVENT_FIELDS"]])
        words: list[Any] = [(name, "u8") for name in ("mark", "layout", "switches", "pid", "events_told")]
        return np.dtype([*words, ("events", event, (_number("SWITCH_EVENTS"),))])
    if what == "struct switch_counters":
        return np.dtype([("name", "S32"), *((name, "u8") for name in tables["SWITCH_COUNTERS"])])
    fields: list[Any] = [(name, "u8") for name in tables["PORT_COUNTERS"]]
    for name, table in (("priority", "PRIORITY_COUNTERS"), ("pause", "PFC_COUNTERS")):
        fields.append((name, [(counter, "u8") for counter in tables[table]], (PRIORITIES,)))
    return np.dtype(fields)


@cache
def _tables() -> dict[str, dict[str, str]]:
    """The lists of counters in the headers, by the macro's name: {name: meaning}."""
    text = "".join((FOLDER / header).read_text() for header in ("switch/counters.h", "cable/pfc.h"))
    found = {}
    for name, lines in re.findall(r"#define (\w+_(?:COUNTERS|FIELDS))\(COUNTER\)((?:.*\\\n)+.*)", text):
        found[name] = dict(re.findall(r'COUNTER\((\w+),\s*"([^"]*)"\)', lines))
    return found


@cache
def _number(name: str) -> int:
    """A constant of counters.h."""
    text = (FOLDER / "switch/counters.h").read_text()
    found = re.search(rf"#define {name}\s+(\w+?)(?:ULL)?\s", text)
    assert found is not None
    return int(found[1], 0)
