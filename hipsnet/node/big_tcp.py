# SPDX-License-Identifier: Apache-2.0
"""BIG TCP: how many bytes of segments a lab's cable carries as one frame of the kernel, until they are divided.

Most of what a cable in a lab costs is paid once for each frame that the kernel handles (its shaper's timer, its way
through the switch), so frames beyond the usual 64 KiB are what leaves processor time to the job.
"""

from __future__ import annotations

from typing import Any

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

LEAST_BYTES, MOST_BYTES = 64 << 10, 524_280
"""What every device takes, and the most that a veth does (tso_max_size: GSO_MAX_SIZE of include/linux/skbuff.h)."""

_CABLE_TIME_MS = 8

# Known to Linux from 6.3 on (include/uapi/linux/if_link.h), and not to pyroute2 yet.
_ATTRIBUTES = (
    ("IFLA_DEVLINK_PORT", "hex"),
    ("IFLA_GSO_IPV4_MAX_SIZE", "uint32"),
    ("IFLA_GRO_IPV4_MAX_SIZE", "uint32"),
)
if _ATTRIBUTES[1] not in ifinfmsg.nla_map:
    ifinfmsg.nla_map = (*ifinfmsg.nla_map, *_ATTRIBUTES)


def segments_bytes(rate_bps: int | None) -> int:
    """The largest frame of segments for a cable: never longer on it than 8 ms, so that others get their turn."""
    if rate_bps is None:
        return MOST_BYTES
    return min(MOST_BYTES, max(LEAST_BYTES, rate_bps // 8 * _CABLE_TIME_MS // 1000))


def read(message: Any) -> int | None:
    """What a link allows now, as its netlink message tells; None before Linux 6.3."""
    size: int | None = message.get("IFLA_GSO_IPV4_MAX_SIZE")
    return size


def setting(size_bytes: int) -> dict[str, int]:
    """The arguments of `Netlink.link("set", ...)`: the same limit for what leaves and for what is put together."""
    return {"gso_ipv4_max_size": size_bytes, "gro_ipv4_max_size": size_bytes}
