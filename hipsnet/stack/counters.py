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

_FOLDER = Path(__file__).parent
PRIORITIES = 8


@dataclass(frozen=True)
class SwitchCounters:
    """One switch as it was when it was read.

    `totals` has the fields of SWITCH_COUNTERS (switch/counters.h says what they mean), `ports` a row for each
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


def read(path: Path) -> dict[str, SwitchCounters]:
    """All switches of the file by name, in its order. Raises ProvisionError if no soft switch has written it."""
    return switches_of(content(path))


def content(path: Path) -> bytes:
    """The whole file, whose head is of `file_layout`. Raises ProvisionError if no soft switch has written it."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        raise ProvisionError(
            f"{path}: wanted the counters of a soft switch, found none; does it run?"
        ) from None
    head = file_layout()
    if len(found) < 8 or found[:8] != _mark().to_bytes(8, sys.byteorder):
        raise ProvisionError(f"{path}: wanted the counters of this version's soft switch, found others")
    if len(found) < head.itemsize:
        raise ProvisionError(f"{path}: wanted the counters of a soft switch, found {len(found)} bytes")
    return found


def switches_of(content: bytes) -> dict[str, SwitchCounters]:
    """All switches by name, of a whole file."""
    head = file_layout()
    (file,) = np.frombuffer(content, head, 1)
    found, at = {}, head.itemsize
    for _ in range(int(file["switches"])):
        counters, at = _read_switch(content, at)
        found[counters.name] = counters
    return found


def file_layout() -> np.dtype[Any]:
    """The head of the file; `events` are a ring of EVENT_FIELDS."""
    return _layout("struct switch_file")


def meanings() -> dict[str, str]:
    """What each counter means, by its name."""
    return {name: meaning for table in _tables().values() for name, meaning in table.items()}


def pause_names() -> tuple[str, ...]:
    """The counters of PFC, in their order; there are as many for each priority."""
    return tuple(_tables()["PFC_COUNTERS"])


def from_bytes(content: bytes) -> SwitchCounters:
    """One switch, of memory that begins with its counters."""
    return _read_switch(content, 0)[0]


def _read_switch(content: bytes, at: int) -> tuple[SwitchCounters, int]:
    head, port = _layout("struct switch_counters"), _layout("struct port_counters")
    (row,) = np.frombuffer(content, head, 1, at)
    at += head.itemsize
    ports = np.frombuffer(content, port, int(row["ports"]), at)
    totals = {name: int(row[name]) for name in head.names or () if name != "name"}
    return SwitchCounters(row["name"].decode(), totals, ports), at + ports.nbytes


@cache
def _layout(what: str) -> np.dtype[Any]:
    """The structs of switch/counters.h: 64-bit words, but for a name."""
    tables = _tables()
    if what == "struct switch_file":
        event = np.dtype([(name, "u8") for name in tables["EVENT_FIELDS"]])
        words: list[Any] = [(name, "u8") for name in ("mark", "switches", "pid", "events_told")]
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
    text = "".join((_FOLDER / header).read_text() for header in ("switch/counters.h", "cable/pfc.h"))
    found = {}
    for name, lines in re.findall(r"#define (\w+_(?:COUNTERS|FIELDS))\(COUNTER\)((?:.*\\\n)+.*)", text):
        found[name] = dict(re.findall(r'COUNTER\((\w+),\s*"([^"]*)"\)', lines))
    return found


def _mark() -> int:
    return _number("SWITCH_FILE_MARK")


@cache
def _number(name: str) -> int:
    """A constant of switch/counters.h."""
    text = (_FOLDER / "switch/counters.h").read_text()
    found = re.search(rf"#define {name}\s+(\w+?)(?:ULL)?\s", text)
    assert found is not None
    return int(found[1], 0)
