# SPDX-License-Identifier: Apache-2.0
"""The window of a connection: at most as many packets in flight as the rings on the path can hold.

While a process is descheduled it sends no PFC frames, and a ring that is full drops frames. Packets in flight
must therefore fit into the rings. Each end of a connection offers the number of packets that it can buffer, and
the smaller number is used: N senders share the buffer of one receiver.
"""

from __future__ import annotations

from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS
from hipsnet.transport.xdp.path import HEADERS_BYTES

FLIGHT_NS = 20_000_000
"""Of a port's rate, for all its connections: many round trips, but less than a soft switch's ring holds."""

LEAST, MOST = 8, 512
_CHUNK_BYTES, _ETHERNET_BYTES = 3840, 14  # of a frame per chunk; of its header


def window(path_mtu: int, rate_bps: int, delay_ns: int, connections: int) -> int:
    """The share of each of a port's `connections`, in packets of `path_mtu`; `rate_bps` 0: no limit.

    `delay_ns` is the delay of a cable. Two cables lie between neighbours; packets on them are in no ring.
    """
    chunks = -(-(path_mtu + HEADERS_BYTES + _ETHERNET_BYTES) // _CHUNK_BYTES)
    room = RECEIVE_CHUNKS * 3 // 4 // chunks  # a quarter is for ACKs and PFC frames, one chunk each
    if rate_bps:
        flight_ns = FLIGHT_NS + 4 * delay_ns
        room = min(room, rate_bps * flight_ns // 8_000_000_000 // path_mtu)
    return max(LEAST, min(MOST, room // connections))
