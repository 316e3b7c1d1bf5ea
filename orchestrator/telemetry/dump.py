# SPDX-License-Identifier: Apache-2.0
"""One rtnetlink question to the sockets of many nodes every second, whose answers look alike every time."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from orchestrator.telemetry import rtnetlink
from orchestrator.telemetry.rtnetlink import Place

_SLOT_BYTES = 1 << 16
_WORD_BYTES = 4
Words = np.ndarray[Any, np.dtype[np.uint32]]
Hear = Callable[[int, int, memoryview], None]
"""Takes (node, type, body) of a message that is no part of the answer."""


@dataclass
class _Slot:
    """A node's answer: its length, and where in it the numbers of which interface are, by ifindex.

    `is_pure` if nothing else was in between: then the next one of that length has nothing else either.
    """

    length: int = 0
    is_pure: bool = True
    indexes: list[int] = field(default_factory=list)
    index_at: list[int] = field(default_factory=list)
    data_at: list[int] = field(default_factory=list)


class Dump:
    """The answers of `nodes` nodes. An answer of the same length as the last has its numbers in the same places.

    So only the first is taken apart, and those that changed in length; of the others the interfaces' indexes
    are compared, for all nodes at once.
    """

    def __init__(self, nodes: int, request: bytes, kind: int, place: Callable[[memoryview], Place | None]):
        self._request, self._kind, self._place = request, kind, place
        self._buffer = bytearray(nodes * _SLOT_BYTES)
        self._view = memoryview(self._buffer)
        self._words = np.frombuffer(self._buffer, np.uint32)
        self._slots = [_Slot() for _ in range(nodes)]
        self._learned: tuple[Words, Words, Words, Words] | None = None

    def ask(self, node: int, netlink: socket.socket, hear: Hear) -> None:
        """Ask a node; OSError if that is not possible."""
        first = at = node * _SLOT_BYTES
        netlink.send(self._request)
        while not rtnetlink.is_last(self._view[first:at]):
            if at - first > _SLOT_BYTES // 2:
                raise OSError("too many interfaces")
            at += netlink.recv_into(self._view[at : first + _SLOT_BYTES])
        slot = self._slots[node]
        if at - first != slot.length or not slot.is_pure:
            self._learn(node, at - first, hear)

    def forget(self, node: int) -> None:
        """The node is gone."""
        if self._slots[node].length:
            self._slots[node] = _Slot()
            self._learned = None

    def numbers(self, words: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Words, Words, Words]:
        """(node, ifindex, the words at these places of what follows) of every interface that answered."""
        if self._learned is None:
            self._learned = self._gathered()
        nodes, indexes, index_at, data_at = self._learned
        same = self._words[index_at] == indexes
        if not same.all():
            for node in set(nodes[~same].tolist()):
                self._learn(node, self._slots[node].length, lambda *_: None)
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

    def _learn(self, node: int, length: int, hear: Hear) -> None:
        first = node * _SLOT_BYTES
        slot = _Slot(length)
        for kind, at, body in rtnetlink.messages(self._view[first : first + length]):
            found = self._place(body) if kind == self._kind else None
            if found is not None:
                slot.indexes.append(found.ifindex)
                slot.index_at.append((first + at + found.index_at) // _WORD_BYTES)
                slot.data_at.append((first + at + found.data_at) // _WORD_BYTES)
            elif kind == rtnetlink.ERROR:
                raise OSError("netlink refuses")
            elif kind not in (self._kind, rtnetlink.DONE):
                slot.is_pure = False
                hear(node, kind, body)
        self._slots[node] = slot
        self._learned = None
