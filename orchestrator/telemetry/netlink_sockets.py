# SPDX-License-Identifier: Apache-2.0
"""A netlink socket in the namespace of every node that exists."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hipsnet.errors import ProvisionError
from hipsnet.node import namespace
from orchestrator.telemetry import rtnetlink

_WAIT_S = 0.5
_FRESH_NS = 5_000_000_000


@dataclass
class _Place:
    """A namespace (None: this one), its file, and the socket in it; `inode` is the file's when it was opened."""

    namespace: str | None
    file: str | None
    socket: socket.socket | None = None
    inode: int = 0


class NetlinkSockets:
    """One socket for each node, by its number; it receives every change of a link there.

    The socket of a removed namespace is closed with the next `refresh`, so that the kernel can free the namespace.
    """

    def __init__(self, namespaces: Sequence[str | None]) -> None:
        self._places = [_Place(name, name and str(namespace.NAMED / name)) for name in namespaces]
        self._missing = set(range(len(namespaces)))
        self._names = _Names()
        self._news = select.epoll()  # which sockets have messages, without polling each
        self._nodes: dict[int, int] = {}  # by descriptor

    def of(self, node: int) -> socket.socket | None:
        """A node's socket; None while its namespace does not exist."""
        return self._places[node].socket

    def inode(self, node: int) -> int:
        """The inode of a node's namespace, which distinguishes it from an earlier one of the same name."""
        return self._places[node].inode

    def refresh(self) -> tuple[list[int], list[int]]:
        """The nodes whose namespace was removed, and those whose namespace was added; if replaced, in both."""
        self._names.refresh()
        went, came = [], []
        for node in sorted(self._missing) if self._names.is_same else range(len(self._places)):
            place = self._places[node]
            inode = _inode(place.file)
            if place.socket is not None and inode != place.inode:
                self.drop(node)
                went.append(node)
            if place.socket is None and inode is not None and self._open(node, inode):
                came.append(node)
        return went, came

    def changed(self) -> set[int]:
        """The nodes whose sockets have received messages."""
        return {self._nodes[descriptor] for descriptor, _ in self._news.poll(0)}

    def drop(self, node: int) -> None:
        """Close a node's socket; the next `refresh` opens another."""
        place = self._places[node]
        if place.socket is not None:
            self._news.unregister(
                place.socket
            )  # a child process may hold a copy, which closing would leave registered
            del self._nodes[place.socket.fileno()]
            place.socket.close()
        place.socket = None
        self._missing.add(node)

    def close(self) -> None:
        """Close them all."""
        for node in range(len(self._places)):
            self.drop(node)
        self._news.close()

    def _open(self, node: int, inode: int) -> bool:
        place = self._places[node]
        try:
            with namespace.inside(place.namespace):
                opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        except ProvisionError:  # it was removed meanwhile
            return False
        opened.settimeout(_WAIT_S)
        opened.bind((0, rtnetlink.GROUP_LINK))
        self._news.register(opened, select.EPOLLIN)
        self._nodes[opened.fileno()] = node
        place.socket, place.inode = opened, inode
        self._missing.discard(node)
        return True


class _Names:
    """Whether namespaces may have been added or removed since the last `refresh`, by the time of their folder."""

    def __init__(self) -> None:
        self._changed_ns = -1
        self.is_same = False

    def refresh(self) -> None:
        try:
            changed_ns = namespace.NAMED.stat().st_mtime_ns
        except OSError:
            changed_ns = -1
        # A name appears shortly before its namespace is mounted on it.
        is_fresh = time.time_ns() - changed_ns < _FRESH_NS
        self.is_same = changed_ns == self._changed_ns and not is_fresh
        self._changed_ns = changed_ns


def _inode(name: str | None) -> int | None:
    """The inode of a namespace's file; None if there is none."""
    if name is None:
        return 0
    try:
        return os.stat(name).st_ino  # noqa: PTH116 - hundreds a second
    except OSError:
        return None
