"""What the kernel counts for the interfaces: losses, queues, carrier; and frames where nobody else does."""

from __future__ import annotations

import os
import select
import socket
import time
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
from orchestrator.telemetry.reading import Flags, Reading
from orchestrator.telemetry.rtnetlink import LINK_64_WORDS, TC_STATS_WORDS, LinkState

_WAIT_S = 0.5
_ASK_EVERY = 8
_FRESH_NS = 5_000_000_000
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
        self._quiet = _Quiet(count, ports)
        self._names = _Names()
        self._news = select.epoll()  # who was told something, without asking each

    def read(self, reading: Reading) -> None:
        """Write down losses, queues and carrier; frames and bytes of ports where nobody has counted them."""
        quiet = self._quiet.nodes(reading)
        news = {descriptor for descriptor, _ in self._news.poll(0)}
        self._names.look()
        for number, node in enumerate(self._nodes):
            try:
                if not self._is_open(number, node):
                    continue
                assert node.netlink is not None
                if not quiet[number] or node.netlink.fileno() in news:
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
        self._news.close()

    def _is_open(self, number: int, node: _Node) -> bool:
        if node.netlink is not None and self._names.is_same:
            return True
        inode = _inode(node.file)
        if node.netlink is not None and inode == node.inode:
            return True
        self._close(number, node)
        self._quiet.forget(number)
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
        self._news.register(node.netlink, select.EPOLLIN)
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
        self._quiet.note(ports, words[:, 1])
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


class _Names:
    """Whether a namespace may have come or gone since the last look: then their folder is another."""

    def __init__(self) -> None:
        self._changed_ns = -1
        self.is_same = False

    def look(self) -> None:
        try:
            changed_ns = namespace.NAMED.stat().st_mtime_ns
        except OSError:
            changed_ns = -1
        # A name is there a moment before what it is the name of.
        is_fresh = time.time_ns() - changed_ns < _FRESH_NS
        self.is_same = changed_ns == self._changed_ns and not is_fresh
        self._changed_ns = changed_ns


class _Quiet:
    """Which nodes need not be asked now: what the kernel counts can have changed only where frames have moved.

    Those are known already from the programs. Where nobody counts, something waits, or nobody has been asked for
    some looks (a dead port loses what never moved), the kernel is asked.
    """

    def __init__(self, nodes: int, ports: WatchedPorts) -> None:
        self._of_node = np.repeat(np.arange(nodes), [at.stop - at.start for at in ports.nodes.values()])
        self._moved: Numbers = np.full(nodes, -1, np.int64)
        self._waits = np.zeros(len(ports), bool)
        self._looks = 0

    def nodes(self, reading: Reading) -> Flags:
        """By the number of the node."""
        count = len(self._moved)
        frames = reading.values[RX_FRAMES, :, WHOLE] + reading.values[TX_FRAMES, :, WHOLE]
        unknown = ~(reading.known[RX_FRAMES, :, WHOLE] & reading.known[TX_FRAMES, :, WHOLE])
        moved = np.bincount(self._of_node, frames, count).astype(np.int64)
        busy = np.bincount(self._of_node, unknown | self._waits, count) > 0
        in_turn = np.arange(count) % _ASK_EVERY == self._looks % _ASK_EVERY
        quiet = (moved == self._moved) & ~busy & ~in_turn
        self._moved, self._looks = moved, self._looks + 1
        return np.asarray(quiet)

    def note(self, ports: Numbers, backlog: Words) -> None:
        """So many bytes wait at these ports."""
        self._waits[ports] = backlog > 0

    def forget(self, node: int) -> None:
        """It has to be asked next time."""
        self._moved[node] = -1


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
