# SPDX-License-Identifier: Apache-2.0
"""Whether a fabric fits into the address prefixes and MAC numbers, and which smaller one does."""

from __future__ import annotations

import itertools
from ipaddress import IPv4Network

from hipsnet.topology import addressing
from hipsnet.topology.kinds import FabricKind
from hipsnet.topology.schema import Addresses

MAX_PORTS = 1 << 16  # a MAC address numbers the ports with 16 bits


def misfit(shape: FabricKind, addresses: Addresses) -> str | None:
    """Return the reason why the fabric cannot be numbered, or None."""
    if reason := shape.misfit():
        return reason
    if shape.port_count > MAX_PORTS:
        return f"{shape.port_count} ports, but {MAX_PORTS} can be numbered"
    subnet = IPv4Network("10.0.0.0/16")
    width = max(shape.port_plan(level, subnet).width for level in range(len(shape.cable_levels)))
    if width > addressing.SUBNET_BITS:
        return f"port addresses need {width} bits, but a level's /16 leaves {addressing.SUBNET_BITS}"
    width, left = shape.identity_plan(addresses.identity).width, 32 - addresses.identity.prefixlen
    return f"identities need {width} bits, but {addresses.identity} leaves {left}" if width > left else None


def nearest_fit(shape: FabricKind, addresses: Addresses) -> str:
    """Return the sizes nearest to this one that fit, in words."""
    found = [next((s for s in sizes if misfit(s, addresses) is None), None) for sizes in shape.smaller()]
    return " or ".join(shape.describe() for shape in found if shape) or "a larger prefix"


def misplaced(shape: FabricKind, addresses: Addresses) -> str | None:
    """Return the error in the base prefixes of this fabric, or None."""
    base, needed = addresses.ports, len(shape.cable_levels)
    if base.prefixlen > addressing.SUBNET_BITS:
        return f"{base} is smaller than a /16"
    if 1 << (addressing.SUBNET_BITS - base.prefixlen) < needed:
        return f"{base} has {1 << (addressing.SUBNET_BITS - base.prefixlen)} of the {needed} /16s required"
    for subnet in itertools.islice(base.subnets(new_prefix=addressing.SUBNET_BITS), needed):
        if subnet.overlaps(addresses.identity):
            return f"{addresses.identity} overlaps {subnet}, which holds port addresses"
    return None
