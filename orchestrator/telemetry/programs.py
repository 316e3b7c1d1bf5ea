"""What the XDP programs of the lab have counted, out of their pinned maps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kernel
from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, pins, programs
from hipsnet.node.forwarding import possible_cpus
from orchestrator.telemetry.fields import (
    DROPS,
    PRIORITIES,
    RX_BYTES,
    RX_FRAMES,
    RX_PAUSE_FRAMES,
    WHOLE,
)
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading

_WORD_BYTES = 8
_NO_LOSSES = ("drop_pfc", "drop_mac_control")
"""Frames that end at a MAC because that is whom they are for."""


@dataclass
class _Counters:
    """A node's pinned map of counters; `fd` while it is open, `inode` of the pin by which it was opened."""

    path: Path
    ports: slice
    fd: int | None = None
    inode: int = 0


class ProgramCounters:
    """What came in at the ports with a program, read by one system call for each node."""

    def __init__(self, ports: WatchedPorts) -> None:
        layout = programs.program_of("cable").maps["counters"].value
        self._places = _places(layout)
        self._nodes = [
            _Counters(pins.node_folder(ports.fabric.name, node) / "counters", where)
            for node, where in ports.nodes.items()
        ]
        words = layout.itemsize // _WORD_BYTES
        self._values = np.zeros((len(ports), possible_cpus(), words), np.uint64)
        self._keys = np.zeros(max(len(ports), 1), np.uint32)
        self._there = np.zeros(len(ports), bool)

    def read(self, reading: Reading) -> None:
        """Write down frames, bytes, PFC frames by priority, and losses."""
        for node in self._nodes:
            self._there[node.ports] = self._read_node(node)
            reading.epoch[node.ports] += node.inode
        total = self._values.sum(axis=1)
        there = np.flatnonzero(self._there)
        reading.present[there] = True
        pfc = self._places["pfc"]
        reading.tell(RX_PAUSE_FRAMES, there, slice(0, PRIORITIES), total[there, pfc : pfc + PRIORITIES])
        reading.tell(RX_FRAMES, there, WHOLE, total[there, self._places["rx_frames"]])
        reading.tell(RX_BYTES, there, WHOLE, total[there, self._places["rx_bytes"]])
        losses = [at for name, at in self._places.items() if _is_loss(name)]
        reading.add(DROPS, there, WHOLE, total[there][:, losses].sum(axis=1))

    def close(self) -> None:
        """Close the maps."""
        for node in self._nodes:
            _close(node)

    def _read_node(self, node: _Counters) -> bool:
        """Whether all ports of the node could be read."""
        try:
            inode = node.path.stat().st_ino
        except OSError:
            _close(node)
            return False
        if node.fd is None or inode != node.inode:
            _close(node)
            self._open(node, inode)
        if node.fd is None:
            return False
        count = int(node.ports.stop - node.ports.start)
        values = self._values[node.ports]
        try:
            found = bpf.lookup_all(node.fd, self._keys.ctypes.data, values.ctypes.data, count)
        except ProvisionError:
            _close(node)
            return False
        return found == count

    def _open(self, node: _Counters, inode: int) -> None:
        """Open the pin if it holds what we can read: as many ports, laid out as this version has it."""
        fd = bpf.open_pin(node.path)
        if fd is None:
            return
        info = bpf.map_info(fd)
        wanted = (node.ports.stop - node.ports.start, self._values.shape[2] * _WORD_BYTES)
        if (info.max_entries, info.value_size) != wanted:
            os.close(fd)
            return
        node.fd, node.inode = fd, inode


def _close(node: _Counters) -> None:
    if node.fd is not None:
        os.close(node.fd)
    node.fd, node.inode = None, 0


def _is_loss(name: str) -> bool:
    return name in kernel.reasons() and name.startswith("drop_") and name not in _NO_LOSSES


def _places(layout: np.dtype[np.void]) -> Mapping[str, int]:
    """The word at which each counter of a port begins."""
    fields: Mapping[str, Any] = layout.fields or {}
    return {name: entry[1] // _WORD_BYTES for name, entry in fields.items()}
