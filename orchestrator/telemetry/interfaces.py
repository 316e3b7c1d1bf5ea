# SPDX-License-Identifier: Apache-2.0
"""The kernel's own statistics: losses, queues and carrier of the interfaces, and frames without another counter."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.lab.namespaces import namespace_name
from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.dump import Dump, IdleNodes, Numbers, Words
from orchestrator.telemetry.fields import (
    ALL,
    BUFFER,
    BUFFER_SIZE,
    DROPS,
    RX_BYTES,
    RX_FRAMES,
    TX_BYTES,
    TX_FRAMES,
)
from orchestrator.telemetry.netlink_sockets import NetlinkSockets
from orchestrator.telemetry.ports import NO_PORT, WatchedPorts
from orchestrator.telemetry.reading import Reading
from orchestrator.telemetry.rtnetlink import LINK_64_WORDS, TC_STATS_WORDS, LinkState

_COUNTS = ("rx_frames", "tx_frames", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
_COUNTS_AT = np.array([2 * LINK_64_WORDS[name] + half for name in _COUNTS for half in (0, 1)])
_ASKING_S = 0.3
_INDEX_BITS = 20
_QUEUE_AT = np.array([TC_STATS_WORDS["dropped"], TC_STATS_WORDS["backlog_bytes"]])


class Interfaces:
    """Every interface of every node, by the node's number."""

    def __init__(self, ports: WatchedPorts) -> None:
        fabric = ports.fabric.name
        self._sockets = NetlinkSockets(
            [namespace_name(fabric, name) if ports.in_lab else None for name in ports.nodes]
        )
        self._links = _LinkStates(
            len(ports),
            [
                {port.interface: where.start + at for at, port in enumerate(ports.ports[where])}
                for where in ports.nodes.values()
            ],
        )
        count = len(ports.nodes)
        self._list = Dump(count, rtnetlink.link_request(), rtnetlink.DONE, lambda _: None)
        self._counts = Dump(count, rtnetlink.counts_request(), rtnetlink.NEW_STATS, rtnetlink.place_counts)
        self._queues = Dump(count, rtnetlink.queues_request(), rtnetlink.NEW_QDISC, rtnetlink.place_queue)
        self._found: dict[Dump, tuple[Words, Numbers, Numbers]] = {}
        self._idle = IdleNodes(ports)

    def read(self, reading: Reading) -> None:
        """Store losses, queues and carrier; frames and bytes where they are not known yet."""
        idle = self._idle.nodes(reading)
        went, came = self._sockets.refresh()
        for node in went:
            self._forget(node)
        for node in came:
            self._ask(node, self._list)
        self._ask_all(sorted({*np.flatnonzero(~idle).tolist(), *self._sockets.changed(), *came}), bool(went))
        self._links.store(reading)
        self._store_counts(reading)
        self._store_queues(reading)

    def close(self) -> None:
        """Close the sockets."""
        self._sockets.close()

    def _ask_all(self, nodes: Sequence[int], is_going: bool) -> None:
        """Poll until the time is up: while a fabric is removed, the kernel blocks every request."""
        end = time.monotonic() + (0 if is_going else _ASKING_S)
        for node in nodes:
            if time.monotonic() < end:
                self._ask(node, self._queues, self._counts)
            else:
                self._idle.forget(node)

    def _ask(self, node: int, *dumps: Dump) -> None:
        netlink = self._sockets.of(node)
        if netlink is None:
            return
        try:
            for dump in dumps:
                dump.poll(node, netlink, self._on_message)
        except OSError:  # the node was removed, or its socket overran: open a new one next time
            self._sockets.drop(node)
            self._forget(node)

    def _on_message(self, node: int, kind: int, body: memoryview) -> None:
        self._links.on_message(node, kind, body, self._sockets.inode(node))

    def _forget(self, node: int) -> None:
        self._links.forget(node)
        self._idle.forget(node)
        for dump in (self._list, self._counts, self._queues):
            dump.forget(node)

    def _store_counts(self, reading: Reading) -> None:
        nodes, indexes, words = self._counts.numbers(_COUNTS_AT)
        ports, words = self._of_ports(self._counts, nodes, indexes, words)
        counts = np.ascontiguousarray(words).view(np.uint64)
        reading.add(DROPS, ports, ALL, counts[:, 4] + counts[:, 5])
        for column, field in enumerate((RX_FRAMES, TX_FRAMES, RX_BYTES, TX_BYTES)):
            bare = ~reading.known[field, ports, ALL]
            reading.store(field, ports[bare], ALL, counts[bare, column])

    def _store_queues(self, reading: Reading) -> None:
        ports, words = self._of_ports(self._queues, *self._queues.numbers(_QUEUE_AT))
        reading.add(DROPS, ports, ALL, words[:, 0])
        self._idle.set_backlog(ports, words[:, 1])
        reading.store(BUFFER, ports, ALL, words[:, 1])
        reading.store(BUFFER_SIZE, ports, ALL, self._links.queue_bytes[ports])

    def _of_ports(self, dump: Dump, nodes: Words, indexes: Words, words: Words) -> tuple[Numbers, Words]:
        """The port numbers of the answers, and the answers without interfaces that are not ports."""
        found = self._found.get(dump)
        if found is None or found[0] is not nodes:  # the same as long as the answers keep their layout
            pairs = zip(nodes.tolist(), indexes.tolist(), strict=True)
            ports = np.array([self._links.port_of(*pair) for pair in pairs], np.int64)
            found = self._found[dump] = nodes, ports[ports != NO_PORT], np.flatnonzero(ports != NO_PORT)
        return found[1], words[found[2]]


class _LinkStates:
    """Presence, carrier and queue length of the links that are ports, in the order of the ports.

    `interfaces` are, for each node, the numbers of its ports by interface name.
    """

    def __init__(self, ports: int, interfaces: Sequence[Mapping[str, int]]) -> None:
        self._interfaces = interfaces
        self._links: list[dict[int, LinkState]] = [{} for _ in interfaces]
        self._present, self._up = np.zeros(ports, bool), np.zeros(ports, bool)
        self._epoch = np.zeros(ports, np.int64)
        self.queue_bytes = np.zeros(ports, np.uint64)

    def on_message(self, node: int, kind: int, body: memoryview, inode: int) -> None:
        """Apply a message of the kernel; `inode` identifies the node's namespace."""
        found = rtnetlink.parse_link(body) if kind in (rtnetlink.NEW_LINK, rtnetlink.DEL_LINK) else None
        if found is None:
            return
        index, state = found
        self._forget(node, index)
        if kind == rtnetlink.NEW_LINK:
            self._links[node][index] = state
            port = self.port_of(node, index)
            if port != NO_PORT:
                self._present[port], self._up[port] = True, state.up
                self.queue_bytes[port] = state.queue_bytes
                self._epoch[port] = index + (inode << _INDEX_BITS)

    def forget(self, node: int) -> None:
        """Drop a node that was removed or that lost messages."""
        for index in list(self._links[node]):
            self._forget(node, index)

    def port_of(self, node: int, index: int) -> int:
        """The port number of an interface; NO_PORT if it is not a port."""
        state = self._links[node].get(index)
        return NO_PORT if state is None else self._interfaces[node].get(state.name, NO_PORT)

    def store(self, reading: Reading) -> None:
        """Store presence, carrier and epoch. A port without an interface is absent, whatever else counts it."""
        reading.present[:] = self._present
        reading.up[:] = self._up
        reading.epoch[:] += self._epoch

    def _forget(self, node: int, index: int) -> None:
        port = self.port_of(node, index)
        self._links[node].pop(index, None)
        if port != NO_PORT:
            self._present[port] = self._up[port] = False
            self._epoch[port] = 0
