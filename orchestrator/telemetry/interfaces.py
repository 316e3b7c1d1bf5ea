"""What the kernel counts for the interfaces: losses, queues, carrier; and frames where nobody else does."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace
from orchestrator.lab import namespace_name
from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.dump import Dump, Words
from orchestrator.telemetry.fields import (
    BUFFER,
    BUFFER_SIZE,
    DROPS,
    RX_BYTES,
    RX_FRAMES,
    TX_BYTES,
    TX_FRAMES,
    WHOLE,
)
from orchestrator.telemetry.ports import NOBODY, WatchedPorts
from orchestrator.telemetry.reading import Reading
from orchestrator.telemetry.rtnetlink import LINK_64_WORDS, TC_STATS_WORDS, LinkState

_WAIT_S = 0.5
_COUNTS = ("rx_frames", "tx_frames", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
_COUNTS_AT = np.array([2 * LINK_64_WORDS[name] + half for name in _COUNTS for half in (0, 1)])
_QUEUE_AT = np.array([TC_STATS_WORDS["dropped"], TC_STATS_WORDS["backlog_bytes"]])
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class _Node:
    """A node and the netlink socket in its namespace (None: this one), if it is open.

    `inode` is that of the namespace's file when it was opened, `ports` the port numbers by interface name.
    """

    namespace: str | None
    ports: dict[str, int]
    file: str | None
    netlink: socket.socket | None = None
    inode: int = 0
    links: dict[int, LinkState] = field(default_factory=dict)


class Interfaces:
    """Every interface of every node; the sockets stay open, and are told of each change of a carrier.

    A namespace that was removed is let go of with the next reading, so that it can end.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        fabric = ports.fabric.name
        self._nodes = []
        for name, where in ports.nodes.items():
            place = namespace_name(fabric, name) if ports.in_lab else None
            numbers = {port.interface: where.start + at for at, port in enumerate(ports.ports[where])}
            file = None if place is None else str(namespace.NAMED / place)
            self._nodes.append(_Node(place, numbers, file))
        count = len(self._nodes)
        self._links = Dump(count, rtnetlink.link_request(), rtnetlink.DONE, lambda _: None)
        self._counts = Dump(count, rtnetlink.counts_request(), rtnetlink.NEW_STATS, rtnetlink.place_counts)
        self._queues = Dump(count, rtnetlink.queues_request(), rtnetlink.NEW_QDISC, rtnetlink.place_queue)
        self._numbers: dict[tuple[int, int], int] = {}
        self._found: dict[Dump, tuple[Words, Numbers, Numbers]] = {}
        self._state = _State(len(ports))

    def read(self, reading: Reading) -> None:
        """Write down losses, queues and carrier; frames and bytes of ports where nobody has counted them."""
        for number, node in enumerate(self._nodes):
            try:
                if self._is_open(number, node):
                    assert node.netlink is not None
                    self._queues.ask(number, node.netlink, self._hear)
                    self._counts.ask(number, node.netlink, self._hear)
            except OSError:  # it was removed meanwhile, or its socket was overrun: anew next time
                self._close(number, node)
        self._state.tell(reading)
        self._tell_counts(reading)
        self._tell_queues(reading)

    def close(self) -> None:
        """Close the sockets."""
        for number, node in enumerate(self._nodes):
            self._close(number, node)

    def _is_open(self, number: int, node: _Node) -> bool:
        inode = _inode(node.file)
        if node.netlink is not None and inode == node.inode:
            return True
        self._close(number, node)
        if inode is None:
            return False
        try:
            with namespace.inside(node.namespace):
                node.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        except ProvisionError:
            return False
        node.inode = inode
        node.netlink.settimeout(_WAIT_S)
        node.netlink.bind((0, rtnetlink.GROUP_LINK))
        self._links.ask(number, node.netlink, self._hear)
        return True

    def _hear(self, number: int, kind: int, body: memoryview) -> None:
        """Take note of what the kernel tells about a link."""
        node = self._nodes[number]
        found = rtnetlink.parse_link(body) if kind in (rtnetlink.NEW_LINK, rtnetlink.DEL_LINK) else None
        if found is None:
            return
        index, state = found
        before = node.links.pop(index, None)
        if before is not None:
            self._forget(number, node, index, before)
        if kind == rtnetlink.NEW_LINK:
            node.links[index] = state
            port = node.ports.get(state.name)
            if port is not None:
                self._numbers[number, index] = port
                self._state.note(port, state, index + (node.inode << 20))

    def _forget(self, number: int, node: _Node, index: int, state: LinkState) -> None:
        self._numbers.pop((number, index), None)
        if state.name in node.ports:
            self._state.forget(node.ports[state.name])

    def _close(self, number: int, node: _Node) -> None:
        if node.netlink is not None:
            node.netlink.close()
        node.netlink = None
        for index, state in node.links.items():
            self._forget(number, node, index, state)
        node.links.clear()
        for dump in (self._links, self._counts, self._queues):
            dump.forget(number)

    def _tell_counts(self, reading: Reading) -> None:
        nodes, indexes, words = self._counts.numbers(_COUNTS_AT)
        ports, words = self._of_ports(self._counts, nodes, indexes, words)
        counts = np.ascontiguousarray(words).view(np.uint64)
        reading.add(DROPS, ports, WHOLE, counts[:, 4] + counts[:, 5])
        for column, told in enumerate((RX_FRAMES, TX_FRAMES, RX_BYTES, TX_BYTES)):
            bare = ~reading.known[told, ports, WHOLE]
            reading.tell(told, ports[bare], WHOLE, counts[bare, column])

    def _tell_queues(self, reading: Reading) -> None:
        ports, words = self._of_ports(self._queues, *self._queues.numbers(_QUEUE_AT))
        reading.add(DROPS, ports, WHOLE, words[:, 0])
        reading.tell(BUFFER, ports, WHOLE, words[:, 1])
        reading.tell(BUFFER_SIZE, ports, WHOLE, self._state.queue_bytes[ports])

    def _of_ports(self, dump: Dump, nodes: Words, indexes: Words, words: Words) -> tuple[Numbers, Words]:
        """The numbers of the ports of what was told about interfaces, without those that are no ports."""
        found = self._found.get(dump)
        if found is None or found[0] is not nodes:  # it is the same for as long as the answers look alike
            pairs = zip(nodes.tolist(), indexes.tolist(), strict=True)
            ports = np.array([self._numbers.get(pair, NOBODY) for pair in pairs], np.int64)
            found = self._found[dump] = nodes, ports[ports != NOBODY], np.flatnonzero(ports != NOBODY)
        return found[1], words[found[2]]


class _State:
    """What is known of the ports' interfaces, in the order of the ports."""

    def __init__(self, ports: int) -> None:
        self.present, self.up = np.zeros(ports, bool), np.zeros(ports, bool)
        self.queue_bytes, self.epoch = np.zeros(ports, np.uint64), np.zeros(ports, np.int64)

    def note(self, port: int, state: LinkState, epoch: int) -> None:
        self.present[port], self.up[port] = True, state.up
        self.queue_bytes[port], self.epoch[port] = state.queue_bytes, epoch

    def forget(self, port: int) -> None:
        self.present[port] = self.up[port] = False
        self.epoch[port] = 0

    def tell(self, reading: Reading) -> None:
        reading.present[:] = self.present  # a port without an interface is none, whatever it counted
        reading.up[:] = self.up
        reading.epoch[:] += self.epoch


def _inode(name: str | None) -> int | None:
    """Of a namespace's file; None if there is no such namespace."""
    if name is None:
        return 0
    try:
        return os.stat(name).st_ino  # noqa: PTH116 - hundreds a second
    except OSError:
        return None
