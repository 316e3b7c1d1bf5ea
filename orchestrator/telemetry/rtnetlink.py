# SPDX-License-Identifier: Apache-2.0
"""The few rtnetlink messages that are read every second, as bytes: pyroute2 is too slow for them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

NEW_LINK, DEL_LINK, GET_LINK = 16, 17, 18
NEW_QDISC, GET_QDISC = 36, 38
NEW_STATS, GET_STATS = 92, 94
ERROR, DONE = 2, 3
GROUP_LINK = 1
_AF_BRIDGE = 7
_REQUEST_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_LINK = struct.Struct("=BxHiII")  # struct ifinfomsg
_QDISC = struct.Struct("=B3xiIII")  # struct tcmsg
_STATS = struct.Struct("=B3xII")  # struct if_stats_msg
_INDEX_AT = 4  # of the ifindex, in all three structures
_IFNAME, _MTU, _QUEUE_LENGTH = 3, 4, 13  # linux/if_link.h
_UP, _LOWER_UP = 1 << 0, 1 << 16
_LINK_64 = 1  # IFLA_STATS_LINK_64
_TCA_STATS = 3
_ROOT = 0xFFFF_FFFF

LINK_64_WORDS = {
    "rx_frames": 0,
    "tx_frames": 1,
    "rx_bytes": 2,
    "tx_bytes": 3,
    "rx_dropped": 6,
    "tx_dropped": 7,
}
"""The 64-bit words of struct rtnl_link_stats64."""
TC_STATS_WORDS = {"dropped": 3, "backlog_bytes": 8}
"""The 32-bit words of struct tc_stats."""


class LinkState(NamedTuple):
    """An interface: `up` if it is up with a carrier; `queue_bytes` is its queue's length in full frames."""

    name: str
    up: bool
    queue_bytes: int


class Place(NamedTuple):
    """The offsets of an interface's index and numbers in the body of a message."""

    ifindex: int
    index_at: int
    data_at: int


def link_request() -> bytes:
    """The request for all interfaces."""
    return _request(GET_LINK, _LINK.pack(0, 0, 0, 0, 0))


def counts_request() -> bytes:
    """The request for the counters of all interfaces."""
    return _request(GET_STATS, _STATS.pack(0, 0, _LINK_64))


def queues_request() -> bytes:
    """The request for all queueing disciplines."""
    return _request(GET_QDISC, _QDISC.pack(0, 0, 0, 0, 0))


def messages(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """(type, offset of the body, body) of each message."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _, _, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, at + _HEADER.size, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def is_last(data: memoryview) -> bool:
    """Whether these messages end a dump, or refuse it."""
    last = len(data) - _HEADER.size - 4
    if last >= 0 and _HEADER.unpack_from(data, last)[:2] == (_HEADER.size + 4, DONE):
        return True
    # A refusal is a message of its own.
    return len(data) >= _HEADER.size and _HEADER.unpack_from(data)[1] in (ERROR, DONE)


def parse_link(body: memoryview) -> tuple[int, LinkState] | None:
    """The ifindex and state of NEW_LINK or DEL_LINK; None if it is about a bridge port, not the link."""
    family, _, index, flags, _ = _LINK.unpack_from(body)
    if family == _AF_BRIDGE:
        return None
    found = {kind: body[at:end] for kind, at, end in _attributes(body, _LINK.size)}
    name = bytes(found.get(_IFNAME, b"")).rstrip(b"\0").decode()
    mtu, queue = (int.from_bytes(found.get(kind, b""), sys.byteorder) for kind in (_MTU, _QUEUE_LENGTH))
    up = bool(flags & _UP) and bool(flags & _LOWER_UP)
    return index, LinkState(name, up, queue * (mtu + 14))


def place_counts(body: memoryview) -> Place | None:
    """The position of struct rtnl_link_stats64 in NEW_STATS."""
    _, index, _ = _STATS.unpack_from(body)
    return _place(body, index, _STATS.size, _LINK_64)


def place_queue(body: memoryview) -> Place | None:
    """The position of struct tc_stats in NEW_QDISC; None if the discipline is not an interface's root."""
    _, index, _, parent, _ = _QDISC.unpack_from(body)
    return _place(body, index, _QDISC.size, _TCA_STATS) if parent == _ROOT else None


def _place(body: memoryview, index: int, first: int, attribute: int) -> Place | None:
    for kind, at, _ in _attributes(body, first):
        if kind == attribute:
            return Place(index, _INDEX_AT, at)
    return None


def _request(kind: int, body: bytes) -> bytes:
    return _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST_DUMP, 0, 0) + body


def _attributes(body: memoryview, at: int) -> Iterator[tuple[int, int, int]]:
    """(type, offset, end) of each attribute."""
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & 0x3FFF, at + _ATTRIBUTE.size, at + length
        at += (length + 3) & ~3
