# SPDX-License-Identifier: Apache-2.0
"""The tables of a node's running XDP program: routes, injected loss, counters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import numpy as np

import kernel
from hipsnet.errors import InputError, ProvisionError
from hipsnet.node import bpf, pins, programs
from hipsnet.node.attaching import mac_bytes
from hipsnet.node.desired import TableEntry
from hipsnet.node.programs import MapLayout

_UNRESOLVED = bytes(6)


@dataclass(frozen=True)
class TableDifference:
    """The entries that were added, changed and removed, each sorted by prefix."""

    added: tuple[TableEntry, ...] = ()
    changed: tuple[TableEntry, ...] = ()
    removed: tuple[TableEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def fill_table(fabric: str, node: str, entries: Iterable[TableEntry]) -> TableDifference:
    """Give the forwarding table exactly these entries, writing only the difference; return the difference.

    New entries are added before old ones are removed, so that no destination is without its entry meanwhile.
    Raises ProvisionError if the node has no forwarding program.
    """
    with opened_map(fabric, node, "forward", "table") as (fd, layout):
        difference = compare_table(_read_entries(fd, layout), entries)
        for entry in (*difference.added, *difference.changed):
            bpf.update(fd, _key_of(entry, layout), _value_of(entry, layout))
        for entry in difference.removed:
            bpf.delete(fd, _key_of(entry, layout))
    return difference


def read_table(fabric: str, node: str) -> tuple[TableEntry, ...]:
    """The entries of the forwarding table, sorted by prefix. Raises ProvisionError if there is no table."""
    with opened_map(fabric, node, "forward", "table") as (fd, layout):
        return tuple(sorted(_read_entries(fd, layout), key=_by_prefix))


def compare_table(present: Iterable[TableEntry], desired: Iterable[TableEntry]) -> TableDifference:
    """The difference that turns the present table into the desired one."""
    before = {entry.prefix: entry for entry in present}
    after = {entry.prefix: entry for entry in desired}
    return TableDifference(
        added=_sorted(entry for prefix, entry in after.items() if prefix not in before),
        changed=_sorted(entry for prefix, entry in after.items() if before.get(prefix, entry) != entry),
        removed=_sorted(entry for prefix, entry in before.items() if prefix not in after),
    )


def set_loss(fabric: str, node: str, port: int, ppm: int) -> None:
    """Drop `ppm` of a million frames that arrive at a port (0: none) of a server or a switch.

    Raises InputError for a value outside 0..1000000, ProvisionError if the node has no such port.
    """
    if not 0 <= ppm <= 1_000_000:
        raise InputError(f"loss: found {ppm} ppm; allowed: 0 to 1000000")
    with opened_map(fabric, node, "cable", "ports") as (fd, layout):
        row = read_port(fd, layout, node, port)
        row["loss_ppm"] = ppm
        bpf.update(fd, port_key(port), row.tobytes())


def read_loss(fabric: str, node: str) -> tuple[int, ...]:
    """The injected loss of a node's ports by index, in ppm."""
    with opened_map(fabric, node, "cable", "ports") as (fd, layout):
        return tuple(
            int(read_port(fd, layout, node, port)["loss_ppm"][0])
            for port in range(bpf.map_info(fd).max_entries)
        )


def read_counters(fabric: str, node: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The counters of a node's ports since its program was attached, summed over the CPUs; shape (ports,).

    Fields: rx_frames, rx_bytes, tx_frames, tx_bytes (sent on by XDP), pfc[8], and one for each name of
    `kernel.reasons()`; these add up to rx_frames. Bytes are of whole Ethernet frames without FCS.
    """
    with opened_map(fabric, node, "cable", "counters") as (fd, layout):
        ports = bpf.map_info(fd).max_entries
        total = np.zeros(ports, _plain(layout.value))
        for port in range(ports):
            values = bpf.lookup(fd, port_key(port), layout.value.itemsize * possible_cpus()) or b""
            by_cpu = np.frombuffer(values, layout.value)
            for name in total.dtype.names or ():
                total[name][port] = by_cpu[name].sum(axis=0)
    return total


def frames_by_reason(counters: np.ndarray[Any, np.dtype[Any]]) -> dict[str, int]:
    """The frames of all ports by reason, without zeros, from the result of `read_counters`."""
    sums = {name: int(counters[name].sum()) for name in kernel.reasons()}
    return {name: frames for name, frames in sums.items() if frames}


@contextmanager
def opened_map(fabric: str, node: str, program: str, name: str) -> Iterator[tuple[int, MapLayout]]:
    """A pinned map of a node with its layout. Maps that all programs have are laid out alike in all of them."""
    path: Path = pins.node_folder(fabric, node) / name
    layout = programs.program_of(program).maps[name]
    fd = bpf.open_pin(path)
    if fd is None:
        raise ProvisionError(f"{node}: {path} does not exist; run `hipsnet provision` again")
    with bpf.closing(fd):
        if bpf.map_info(fd).value_size != layout.value.itemsize:
            raise ProvisionError(
                f"{node}: {path} is of another version of hipsnet; run `hipsnet provision` again"
            )
        yield fd, layout


def _read_entries(fd: int, layout: MapLayout) -> Iterator[TableEntry]:
    for key in bpf.keys(fd, layout.key.itemsize):
        value = bpf.lookup(fd, key, layout.value.itemsize)
        if value is not None:
            yield _entry_of(np.frombuffer(key, layout.key)[0], np.frombuffer(value, layout.value)[0])


def _entry_of(key: Any, value: Any) -> TableEntry:
    prefix = IPv4Network((IPv4Address(key["address"].tobytes()), int(key["bits"])))
    if value["action"] == kernel.constant("ACTION_LOCAL"):
        return TableEntry(prefix)
    mac = value["mac"].tobytes()
    return TableEntry(prefix, int(value["port"]), None if mac == _UNRESOLVED else mac.hex(":"))


def _key_of(entry: TableEntry, layout: MapLayout) -> bytes:
    key = np.zeros(1, layout.key)
    key["bits"] = entry.prefix.prefixlen
    key["address"] = list(entry.prefix.network_address.packed)
    return key.tobytes()


def _value_of(entry: TableEntry, layout: MapLayout) -> bytes:
    value = np.zeros(1, layout.value)
    if entry.port is None:
        value["action"] = kernel.constant("ACTION_LOCAL")
    else:
        value["action"], value["port"] = kernel.constant("ACTION_FORWARD"), entry.port
        value["mac"] = list(mac_bytes(entry.mac) if entry.mac else _UNRESOLVED)
    return value.tobytes()


def read_port(fd: int, layout: MapLayout, node: str, port: int) -> np.ndarray[Any, np.dtype[Any]]:
    """A port's row of the table of ports, shape (1,). Raises ProvisionError if the node has no such port."""
    row = bpf.lookup(fd, port_key(port), layout.value.itemsize) if port >= 0 else None
    if row is None:
        ports = bpf.map_info(fd).max_entries
        raise ProvisionError(f"{node} has no port {port}; it has the ports 0 to {ports - 1}")
    return np.frombuffer(row, layout.value).copy()


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The fields without the compiler's padding."""
    return np.dtype([(name, dtype[name]) for name in dtype.names or () if not name.startswith("__pad")])


def _sorted(entries: Iterable[TableEntry]) -> tuple[TableEntry, ...]:
    return tuple(sorted(entries, key=_by_prefix))


def _by_prefix(entry: TableEntry) -> tuple[int, int]:
    return int(entry.prefix.network_address), entry.prefix.prefixlen


def port_key(port: int) -> bytes:
    """A port index as the key of a map."""
    return port.to_bytes(4, sys.byteorder)


@cache
def possible_cpus() -> int:
    """The number of possible CPUs, which is the number of values in an entry of a per-CPU map."""
    last = Path("/sys/devices/system/cpu/possible").read_text().strip().replace(",", "-").split("-")[-1]
    return int(last) + 1
