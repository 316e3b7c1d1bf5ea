# SPDX-License-Identifier: Apache-2.0
"""The counters of a fabric's soft switches, read from the file that they write while they run."""

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
    """A snapshot of one switch.

    `totals` has the fields of SWITCH_COUNTERS (described in counters.h). `ports` has a row for each port with the
    fields of PORT_COUNTERS, and `priority` (PRIORITY_COUNTERS) and `pause` (PFC_COUNTERS), each of shape (8,).
    """

    name: str
    totals: dict[str, int]
    ports: np.ndarray[Any, np.dtype[Any]]

    @property
    def dropped(self) -> dict[str, int]:
        """Dropped frames by reason, summed over ports and priorities, without zeros."""
        losses = {
            f"{name}": int(part[name].sum())
            for part in (self.ports, self.ports["priority"])
            for name in part.dtype.names or ()
            if name.startswith("drop_")
        }
        return {name: count for name, count in losses.items() if count}


@dataclass(frozen=True)
class CountersFile:
    """The whole file: the switches by name, in the file's order, and the watchdog's events (`event_ring`)."""

    switches: dict[str, SwitchCounters]
    events: np.ndarray[Any, np.dtype[Any]]


def read(path: Path) -> dict[str, SwitchCounters]:
    """All switches by name. Raises ProvisionError, as `read_file` does."""
    return read_file(path).switches


def read_file(path: Path) -> CountersFile:
    """Read the whole file. Raises ProvisionError if it does not exist, or is of another version."""
    try:
        return _parsed(path.read_bytes())
    except FileNotFoundError:
        raise ProvisionError(
            f"{path} does not exist: the soft switch does not run; run `hipsnet provision`"
        ) from None
    except ValueError as error:
        raise ProvisionError(
            f"{path} was not written by the soft switch of this version ({error}); "
            "destroy the lab and provision it again"
        ) from None


def event_ring() -> np.dtype[Any]:
    """The dtype of the ring of events."""
    return _layout("struct switch_file")["events"]


def pause_names() -> tuple[str, ...]:
    """The names of the PFC counters of one priority, in the order of the header."""
    return tuple(_tables()["PFC_COUNTERS"])


def from_bytes(content: bytes) -> SwitchCounters:
    """One switch, from memory that begins with its counters."""
    return _read_switch(content, 0)[0]


def _parsed(content: bytes) -> CountersFile:
    """Raises ValueError if the content is of another version, or incomplete."""
    if content[:8] != _number("SWITCH_FILE_MARK").to_bytes(8, sys.byteorder):
        raise ValueError("wrong magic number")
    layout = _layout("struct switch_file")
    (head,) = _rows(content, layout, 1, 0)
    if head["layout"] != _fingerprint():
        raise ValueError("other counters")
    switches, at = {}, layout.itemsize
    for _ in range(int(head["switches"])):
        counters, at = _read_switch(content, at)
        switches[counters.name] = counters
    if at != len(content):
        raise ValueError(f"{len(content)} bytes instead of {at}")
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
        raise ValueError(f"only {len(content)} bytes")
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
    """The dtype of a struct of counters.h: 64-bit words, except the name of a switch."""
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
    """The lists of counters in the headers by the name of their macro: {counter: meaning}."""
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
