# SPDX-License-Identifier: Apache-2.0
"""The initial congestion window of TCP connections in a lab.

The kernel starts with ten segments and needs several synchronizations to fill a cable: of 16 MiB among nine servers
the first took 330 ms, the fourth 265 ms. A lab's switches buffer the larger burst.
"""

from __future__ import annotations

KERNEL_SEGMENTS = 10
"""The kernel's default (RFC 6928)."""

MOST_BYTES = 1 << 20

_CABLE_TIME_MS = 16
_PEERS = 8
_HEADERS_BYTES = 52
"""IPv4 and TCP with timestamps."""


def segments(rate_bps: int | None, mtu: int, peers: int) -> int:
    """Segments that keep a cable busy for 16 ms; with more than 8 peers per port, for 128 ms all together.

    A longer first burst of all peers could exceed the kernel's retransmission timeout.
    """
    full = MOST_BYTES if rate_bps is None else min(MOST_BYTES, rate_bps // 8 * _CABLE_TIME_MS // 1000)
    share = full * _PEERS // max(_PEERS, peers)
    return max(KERNEL_SEGMENTS, share // (mtu - _HEADERS_BYTES))
