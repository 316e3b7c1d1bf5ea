# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts for the interfaces: losses, queues, carrier; and frames where nobody else does."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from orchestrator.lab.namespaces import namespace_name
from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.dump import Dump, Words
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
from orchestrator.telemetry.link_states import LinkStates
from orchestrator.telemetry.netlink_sockets import NetlinkSockets
from orchestrator.telemetry.ports import NOBODY, WatchedPorts
from orchestrator.telemetry.quiet import Numbers, Quiet
from orchestrator.telemetry.reading import Reading
from orchestrator.telemetry.rtnetlink import LINK_64_WORDS, TC_STATS_WORDS

_COUNTS = ("rx_frames", "tx_frames", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
_COUNTS_AT = np.array([2 * LINK_64_WORDS[name] + half for name in _COUNTS for half in (0, 1)])
_PATIENCE_S = 0.3
_QUEUE_AT = np.array([TC_STATS_WORDS["dropped"], TC_STATS_WORDS["backlog_bytes"]])


class Interfaces:
    """Every interface of every node, by the node's number."""

    def __init__(self, ports: WatchedPorts) -> None:
        fabric = ports.fabric.name
        self._sockets = NetlinkSockets(
            [namespace_name(fabric, name) if ports.in_lab else None for name in ports.nodes]
        )
        self._links = LinkStates(
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
        self._quiet = Quiet(ports)

    def read(self, reading: Reading) -> None:
        """Write down losses, queues and carrier; frames and bytes of ports where nobody has counted them."""
        quiet = self._quiet.nodes(reading)
        went, came = self._sockets.look()
        for node in went:
            self._forget(node)
        for node in came:
            self._ask(node, self._list)
        self._ask_all(sorted({*np.flatnonzero(~quiet).tolist(), *self._sockets.told(), *came}), bool(went))
        self._links.tell(reading)
        self._tell_counts(reading)
        self._tell_queues(reading)

    def close(self) -> None:
        """Close the sockets."""
        self._sockets.close()

    def _ask_all(self, nodes: Sequence[int], is_going: bool) -> None:
        """While a fabric is removed the kernel makes all who ask wait until it is done: then they ask later."""
        end = time.monotonic() + (0 if is_going else _PATIENCE_S)
        for node in nodes:
            if time.monotonic() < end:
                self._ask(node, self._queues, self._counts)
            else:
                self._quiet.forget(node)

    def _ask(self, node: int, *dumps: Dump) -> None:
        netlink = self._sockets.of(node)
        if netlink is None:
            return
        try:
            for dump in dumps:
                dump.ask(node, netlink, self._hear)
        except OSError:  # it was removed meanwhile, or its socket was overrun: anew next time
            self._sockets.drop(node)
            self._forget(node)

    def _hear(self, node: int, kind: int, body: memoryview) -> None:
        self._links.hear(node, kind, body, self._sockets.inode(node))

    def _forget(self, node: int) -> None:
        self._links.forget(node)
        self._quiet.forget(node)
        for dump in (self._list, self._counts, self._queues):
            dump.forget(node)

    def _tell_counts(self, reading: Reading) -> None:
        nodes, indexes, words = self._counts.numbers(_COUNTS_AT)
        ports, words = self._of_ports(self._counts, nodes, indexes, words)
        counts = np.ascontiguousarray(words).view(np.uint64)
        reading.add(DROPS, ports, ALL, counts[:, 4] + counts[:, 5])
        for column, told in enumerate((RX_FRAMES, TX_FRAMES, RX_BYTES, TX_BYTES)):
            bare = ~reading.known[told, ports, ALL]
            reading.store(told, ports[bare], ALL, counts[bare, column])

    def _tell_queues(self, reading: Reading) -> None:
        ports, words = self._of_ports(self._queues, *self._queues.numbers(_QUEUE_AT))
        reading.add(DROPS, ports, ALL, words[:, 0])
        self._quiet.note(ports, words[:, 1])
        reading.store(BUFFER, ports, ALL, words[:, 1])
        reading.store(BUFFER_SIZE, ports, ALL, self._links.queue_bytes[ports])

    def _of_ports(self, dump: Dump, nodes: Words, indexes: Words, words: Words) -> tuple[Numbers, Words]:
        """The numbers of the ports of what was told about interfaces, without those that are no ports."""
        found = self._found.get(dump)
        if found is None or found[0] is not nodes:  # it is the same for as long as the answers look alike
            pairs = zip(nodes.tolist(), indexes.tolist(), strict=True)
            ports = np.array([self._links.port_of(*pair) for pair in pairs], np.int64)
            found = self._found[dump] = nodes, ports[ports != NOBODY], np.flatnonzero(ports != NOBODY)
        return found[1], words[found[2]]
