# SPDX-License-Identifier: Apache-2.0
"""BIG TCP: the largest frame of TCP segments that a lab's cable carries before the kernel divides it.

Most of the cost of a lab's cable is per frame of the kernel (the shaper's timer, the way through the switch), so
frames beyond the usual 64 KiB leave more processor time to the job.
"""

from __future__ import annotations

from typing import Any

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

MOST_BYTES = 524_280
"""The limit of a veth (tso_max_size: GSO_MAX_SIZE of include/linux/skbuff.h)."""

_CABLE_TIME_MS = 8
_LEAST_SEGMENTS = 2
_HEADERS_BYTES = 512
"""More than what TCP subtracts for headers from a frame of segments (MAX_TCP_HEADER of include/net/tcp.h)."""

# Since Linux 6.3 (include/uapi/linux/if_link.h); pyroute2 does not have them yet.
_ATTRIBUTES = (
    ("IFLA_DEVLINK_PORT", "hex"),
    ("IFLA_GSO_IPV4_MAX_SIZE", "uint32"),
    ("IFLA_GRO_IPV4_MAX_SIZE", "uint32"),
)
if _ATTRIBUTES[1] not in ifinfmsg.nla_map:
    ifinfmsg.nla_map = (*ifinfmsg.nla_map, *_ATTRIBUTES)


def segments_bytes(rate_bps: int | None, mtu: int) -> int:
    """The largest frame of segments for a cable: 8 ms of its time, so that other flows get their turn.

    At least two segments, because a receiver acknowledges every second one without delay.
    """
    if rate_bps is None:
        return MOST_BYTES
    return min(
        MOST_BYTES, max(_LEAST_SEGMENTS * mtu + _HEADERS_BYTES, rate_bps // 8 * _CABLE_TIME_MS // 1000)
    )


def read(message: Any) -> int | None:
    """The actual limit of a link, from its netlink message; None before Linux 6.3."""
    size: int | None = message.get("IFLA_GSO_IPV4_MAX_SIZE")
    return size


def setting(size_bytes: int) -> dict[str, int]:
    """The arguments of `Netlink.link("set", ...)`: the same limit for sending (GSO) and receiving (GRO)."""
    return {"gso_ipv4_max_size": size_bytes, "gro_ipv4_max_size": size_bytes}
