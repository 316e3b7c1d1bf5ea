# SPDX-License-Identifier: Apache-2.0
"""Poll many nodes by rtnetlink: select the nodes to poll, and read answers with a layout that rarely changes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.fields import ALL, RX_FRAMES, TX_FRAMES
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Flags, Reading
from orchestrator.telemetry.rtnetlink import Place

_SLOT_BYTES = 1 << 16
_WORD_BYTES = 4
_ASK_EVERY = 8
Words = np.ndarray[Any, np.dtype[np.uint32]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
OnMessage = Callable[[int, int, memoryview], None]
"""Called with (node, type, body) of each message that is not part of the answer."""


@dataclass
class _Slot:
    """The layout of a node's answer: its length, the interfaces by ifindex, the positions of their numbers.

    `is_pure` if no other message was in between: another answer of the same length has none either.
    """

    length: int = 0
    is_pure: bool = True
    indexes: list[int] = field(default_factory=list)
    index_at: list[int] = field(default_factory=list)
    data_at: list[int] = field(default_factory=list)


class Dump:
    """The answers of `nodes` nodes to one request.

    An answer as long as the last one has its numbers in the same positions. So only the first answer is parsed, and
    those that changed in length; of the others the interface indexes are compared, for all nodes at once.
    """

    def __init__(self, nodes: int, request: bytes, kind: int, place: Callable[[memoryview], Place | None]):
        self._request, self._kind, self._place = request, kind, place
        self._buffer = bytearray(nodes * _SLOT_BYTES)
        self._view = memoryview(self._buffer)
        self._words = np.frombuffer(self._buffer, np.uint32)
        self._slots = [_Slot() for _ in range(nodes)]
        self._learned: tuple[Words, Words, Words, Words] | None = None

    def poll(self, node: int, netlink: socket.socket, on_message: OnMessage) -> None:
        """Poll a node. Raises OSError if that fails."""
        first = at = node * _SLOT_BYTES
        netlink.send(self._request)
        while not rtnetlink.is_last(self._view[first:at]):
            if at - first > _SLOT_BYTES // 2:
                raise OSError("too many interfaces")
            at += netlink.recv_into(self._view[at : first + _SLOT_BYTES])
        slot = self._slots[node]
        if at - first != slot.length or not slot.is_pure:
            self._parse_layout(node, at - first, on_message)

    def forget(self, node: int) -> None:
        """Drop the answer of a removed node."""
        if self._slots[node].length:
            self._slots[node] = _Slot()
            self._learned = None

    def numbers(self, words: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Words, Words, Words]:
        """(node, ifindex, the numbers at these word offsets) of every interface in the answers."""
        if self._learned is None:
            self._learned = self._gathered()
        nodes, indexes, index_at, data_at = self._learned
        same = self._words[index_at] == indexes
        if not same.all():
            for node in set(nodes[~same].tolist()):
                self._parse_layout(node, self._slots[node].length, lambda *_: None)
            return self.numbers(words)
        return nodes, indexes, self._words[data_at[:, None] + words]

    def _gathered(self) -> tuple[Words, Words, Words, Words]:
        rows = [
            (node, *row)
            for node, slot in enumerate(self._slots)
            for row in zip(slot.indexes, slot.index_at, slot.data_at, strict=True)
        ]
        columns = np.array(rows, np.uint32).reshape(-1, 4).T
        return columns[0], columns[1], columns[2], columns[3]

    def _parse_layout(self, node: int, length: int, on_message: OnMessage) -> None:
        first = node * _SLOT_BYTES
        slot = _Slot(length)
        for kind, at, body in rtnetlink.messages(self._view[first : first + length]):
            found = self._place(body) if kind == self._kind else None
            if found is not None:
                slot.indexes.append(found.ifindex)
                slot.index_at.append((first + at + found.index_at) // _WORD_BYTES)
                slot.data_at.append((first + at + found.data_at) // _WORD_BYTES)
            elif kind == rtnetlink.ERROR:
                raise OSError("the kernel refused a netlink request")
            elif kind not in (self._kind, rtnetlink.DONE):
                slot.is_pure = False
                on_message(node, kind, body)
        self._slots[node] = slot
        self._learned = None


class IdleNodes:
    """Selects the nodes to poll: the kernel's counters change only where frames move.

    The XDP programs count frames. A node is polled if its frames are not counted, if one of its queues is not
    empty, or periodically, since a dead port loses frames that never moved.
    """

    def __init__(self, ports: WatchedPorts) -> None:
        lengths = [at.stop - at.start for at in ports.nodes.values()]
        self._of_node = np.repeat(np.arange(len(lengths)), lengths)
        self._moved: Numbers = np.full(len(lengths), -1, np.int64)
        self._has_backlog = np.zeros(len(ports), bool)
        self._readings = 0

    def nodes(self, reading: Reading) -> Flags:
        """Whether each node is idle, by its number."""
        count = len(self._moved)
        frames = reading.values[RX_FRAMES, :, ALL] + reading.values[TX_FRAMES, :, ALL]
        unknown = ~(reading.known[RX_FRAMES, :, ALL] & reading.known[TX_FRAMES, :, ALL])
        moved = np.bincount(self._of_node, frames, count).astype(np.int64)
        busy = np.bincount(self._of_node, unknown | self._has_backlog, count) > 0
        in_turn = np.arange(count) % _ASK_EVERY == self._readings % _ASK_EVERY
        idle = (moved == self._moved) & ~busy & ~in_turn
        self._moved, self._readings = moved, self._readings + 1
        return np.asarray(idle)

    def set_backlog(self, ports: Numbers, backlog: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        """The bytes in the queues of these ports."""
        self._has_backlog[ports] = backlog > 0

    def forget(self, node: int) -> None:
        """Poll this node next time."""
        self._moved[node] = -1
