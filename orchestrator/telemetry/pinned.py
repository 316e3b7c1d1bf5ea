# SPDX-License-Identifier: Apache-2.0
"""Reading a map that every node has pinned under the same name, with an entry for each port.

All nodes are read every second: a mappable map as memory, any other by one system call with prepared arguments.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hipsnet.errors import ProvisionError
from hipsnet.node import bpf, pins
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Flags

_WORD_BYTES = 8
_CHECK_EVERY = 8
_FRESH_NS = 5_000_000_000
_OF_ANOTHER_VERSION = "of another version of hipsnet, or topology; run `hipsnet provision` again"
Words = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass
class _Pin:
    """A node's map; `fd` while it is open, `inode` of the pin by which it was opened.

    `read` copies its values and returns whether all ports of the node could be read. `fault` is why a map that
    exists cannot be read.
    """

    node: str
    path: str
    ports: slice
    fd: int | None = None
    inode: int = 0
    read: Callable[[], bool] | None = None
    fault: str = ""


class PinnedMaps:
    """The maps stay open; a map that was replaced is opened again.

    Each pin is checked once in `_CHECK_EVERY` reads; all are checked with every read while the folder of the
    fabric's pins has changed in the last seconds, as when the fabric is provisioned anew.

    After `read`, `there` are the ports that were read, `values` their entries as 64-bit words, of shape
    (ports, values in an entry, words of a value), and `epoch` changes if their map was replaced.
    """

    def __init__(self, ports: WatchedPorts, name: str, value: np.dtype[Any], values: int = 1) -> None:
        self._nodes = [
            _Pin(node, str(pins.node_folder(ports.fabric.name, node) / name), where)
            for node, where in ports.nodes.items()
        ]
        self._folder = pins.ROOT / ports.fabric.name
        self._value_bytes = value.itemsize
        self._reads = self._folder_changed_ns = 0
        self._keys = np.zeros(max(len(ports), 1), np.uint32)
        self.values: Words = np.zeros((len(ports), values, value.itemsize // _WORD_BYTES), np.uint64)
        self.there: Flags = np.zeros(len(ports), bool)
        self.epoch = np.zeros(len(ports), np.int64)

    def read(self) -> None:
        """Read every map that can be read."""
        check_all = self._folder_has_changed() or self._reads == 0
        for number, node in enumerate(self._nodes):
            if check_all or number % _CHECK_EVERY == self._reads % _CHECK_EVERY:
                self._reopen(node)
            self.there[node.ports] = node.read is not None and self._read_node(node)
        self._reads += 1

    @property
    def faults(self) -> Iterator[tuple[str, str]]:
        """As `Reading.unreadable` has them."""
        return ((node.node, node.fault) for node in self._nodes if node.fault)

    def close(self) -> None:
        """Close the maps."""
        for node in self._nodes:
            _close(node)

    def _folder_has_changed(self) -> bool:
        """Whether nodes were added or removed since the last read, or being added: a folder precedes its pins."""
        before = self._folder_changed_ns
        try:
            self._folder_changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            self._folder_changed_ns = 0
        age_ns = time.time_ns() - self._folder_changed_ns
        return before != self._folder_changed_ns or age_ns < _FRESH_NS

    def _read_node(self, node: _Pin) -> bool:
        assert node.read is not None
        try:
            return node.read()
        except ProvisionError as error:
            _close(node)
            node.fault = str(error)
            return False

    def _reopen(self, node: _Pin) -> None:
        """Open the map that is pinned now, unless it is open."""
        node.fault = ""
        try:
            inode = os.stat(node.path).st_ino  # noqa: PTH116 - many per second
        except OSError:
            _close(node)
            return
        if node.fd is None or inode != node.inode:
            _close(node)
            self._open(node, inode)
            self.epoch[node.ports] = inode

    def _open(self, node: _Pin, inode: int) -> None:
        """Open the pin if the map has the number of ports and the layout of this version."""
        fd = bpf.open_pin(Path(node.path))
        if fd is None:
            return
        info = bpf.map_info(fd)
        if (info.max_entries, info.value_size) != (node.ports.stop - node.ports.start, self._value_bytes):
            os.close(fd)
            node.fault = f"its {Path(node.path).name} are {_OF_ANOTHER_VERSION}"
            return
        node.fd, node.inode = fd, inode
        values = self.values[node.ports]
        if info.flags & bpf.MAPPABLE:
            memory = mmap.mmap(fd, values.nbytes, prot=mmap.PROT_READ)
            node.read = _from_memory(np.frombuffer(memory, np.uint64).reshape(values.shape), values)
        else:
            count = len(values)
            lookup = bpf.Lookup(fd, self._keys.ctypes.data, values.ctypes.data, count)
            node.read = lambda: lookup() == count


def _from_memory(memory: Words, values: Words) -> Callable[[], bool]:
    def read() -> bool:
        values[:] = memory
        return True

    return read


def _close(node: _Pin) -> None:
    if node.fd is not None:
        os.close(node.fd)
    node.fd, node.read, node.inode = None, None, 0
