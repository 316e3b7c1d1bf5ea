# SPDX-License-Identifier: Apache-2.0
"""How many packets a connection may have under way: no more than the rings on the way hold while nobody looks.

A wire stops a sender whose frames find no room; a ring in memory loses them. A process that has to wait for a
processor sends no PFC meanwhile, so what comes for it then has to fit. The two ends of a connection each say
how many packets they have room for, and the smaller number holds: N senders share the room of one receiver.
"""

from __future__ import annotations

from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS
from hipsnet.transport.xdp.path import HEADERS_BYTES

FLIGHT_NS = 20_000_000
"""Of a port's rate, for all its connections: many times the way there and back, less than a soft switch's ring."""

LEAST, MOST = 8, 512
_CHUNK_BYTES, _ETHERNET_BYTES = 3840, 14  # what a chunk holds of a frame


def window(path_mtu: int, rate_bps: int, delay_ns: int, connections: int) -> int:
    """The share of one of a port's connections, in packets of `path_mtu`; `rate_bps` 0 is no limit.

    `delay_ns` is what the cables add; two lie between neighbours, and what is on them is in no ring.
    """
    chunks = -(-(path_mtu + HEADERS_BYTES + _ETHERNET_BYTES) // _CHUNK_BYTES)
    room = RECEIVE_CHUNKS * 3 // 4 // chunks  # the rest is for ACKs and pauses, which take a chunk each
    if rate_bps:
        flight_ns = FLIGHT_NS + 4 * delay_ns
        room = min(room, rate_bps * flight_ns // 8_000_000_000 // path_mtu)
    return max(LEAST, min(MOST, room // connections))
