# SPDX-License-Identifier: Apache-2.0
"""The first window of TCP connections in a lab: what each may have under way before anything is acknowledged.

The kernel begins with ten segments and takes several synchronizations to fill a cable: of 16 MiB among nine servers
the first took 330 ms, the fourth 265 ms. A lab's switches hold whatever comes: no reason to begin so low.
"""

from __future__ import annotations

KERNEL_SEGMENTS = 10
"""What the kernel begins with (RFC 6928)."""

MOST_BYTES = 1 << 20

_CABLE_TIME_MS = 16
_PEERS = 8
_HEADERS_BYTES = 52
"""IPv4 and TCP with timestamps."""


def segments(rate_bps: int | None, mtu: int, peers: int) -> int:
    """Segments that keep a cable busy for 16 ms; of more than 8 peers of a port, all together for 128 ms.

    Beyond that a first burst of all of them could last longer than the kernel waits for an acknowledgement.
    """
    full = MOST_BYTES if rate_bps is None else min(MOST_BYTES, rate_bps // 8 * _CABLE_TIME_MS // 1000)
    share = full * _PEERS // max(_PEERS, peers)
    return max(KERNEL_SEGMENTS, share // (mtu - _HEADERS_BYTES))
