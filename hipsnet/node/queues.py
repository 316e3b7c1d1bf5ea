# SPDX-License-Identifier: Apache-2.0
"""How much may wait in front of a lab's cable, so that small messages do not wait behind large ones.

TCP fills every queue that it finds. Two limits keep it short: a connection has at most its share of 20 ms in the
queue of its own port, and never less than one frame of segments (TCP small queues); and a port's queue ends at
50 ms. The second limit is larger because a frame beyond it is lost. Switch ports queue while some of their senders
are delayed by scheduling: with 20 ms, nine servers at 500 Mbit/s lost thousands of frames, and 10 % of their rate.
"""

from __future__ import annotations

from hipsnet.node import big_tcp

_SENDER_MS = 20
_PORT_MS = 50
_LEAST_FRAMES = 128
_UNLIMITED_BYTES = 2**32 - 1
_LONGEST_BYTES = 1 << 30
_MOST_BYTES = 4 << 20
"""The default of recent kernels."""


def connection_bytes(rate_bps: int | None, mtu: int, peers: int) -> int:
    """The net.ipv4.tcp_limit_output_bytes of a server with `peers` connections on a port.

    The kernel sends one more frame of segments below the limit, hence at least one.
    """
    if rate_bps is None:
        return _MOST_BYTES
    share = _bytes(rate_bps, _SENDER_MS) // max(1, peers)
    return min(_MOST_BYTES, max(1, share - big_tcp.segments_bytes(rate_bps, mtu)))


def unsent_bytes(rate_bps: int | None, mtu: int) -> int:
    """The net.ipv4.tcp_notsent_lowat of a server: what a socket accepts beyond what it has sent.

    Two frames of segments: one more is ready when the previous one leaves. Without a rate the kernel's default,
    no limit: an unlimited cable has no queue, and a sender that wakes up more often costs processor time.
    """
    if rate_bps is None:
        return _UNLIMITED_BYTES
    return 2 * big_tcp.segments_bytes(rate_bps, mtu)


def port_bytes(rate_bps: int, mtu: int) -> int:
    """The limit of a port's queue, at least what its peers may send before the first acknowledgement.

    That is ten segments each (initcwnd.KERNEL_SEGMENTS): on slow cables more than 50 ms.
    """
    wanted = max(_bytes(rate_bps, _PORT_MS), _LEAST_FRAMES * (mtu + 14))
    return min(_LONGEST_BYTES, wanted)


def _bytes(rate_bps: int, duration_ms: int) -> int:
    return rate_bps // 8 * duration_ms // 1000
