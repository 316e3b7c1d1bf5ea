# SPDX-License-Identifier: Apache-2.0
"""Which sizes fit into the prefixes and the MAC numbers, and which size does where one does not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network

from hipsnet.topology import addressing, bcube, fattree, torus
from hipsnet.topology.addressing import Plan
from hipsnet.topology.schema import Addresses, BCube, FatTree, Torus

MAX_PORTS = 1 << 16  # a MAC address numbers the ports with 16 bits

Shape = BCube | Torus | FatTree


def levels(shape: Shape) -> int:
    """Return how many /16s the port addresses take."""
    if isinstance(shape, BCube):
        return shape.levels
    return len(shape.dims) if isinstance(shape, Torus) else fattree.LAYERS


def misfit(shape: Shape, addresses: Addresses) -> str | None:
    """Return what does not fit, or None if the fabric can be numbered."""
    if isinstance(shape, FatTree) and shape.servers * shape.nics > shape.ports_per_switch**3 // 4:
        k = shape.ports_per_switch
        return f"{shape.servers} servers x {shape.nics} NICs, but Fat-Tree({k}) has {k**3 // 4} host slots"
    if (ports := _port_count(shape)) > MAX_PORTS:
        return f"{ports} ports, but {MAX_PORTS} can be numbered"
    port_plan, identity_plan = _plans(shape, addresses.identity)
    if port_plan.width > addressing.SUBNET_BITS:
        return (
            f"port addresses need {port_plan.width} bits, but a level's /16 leaves {addressing.SUBNET_BITS}"
        )
    if identity_plan.width > (left := 32 - addresses.identity.prefixlen):
        return f"identities need {identity_plan.width} bits, but {addresses.identity} leaves {left}"
    return None


def nearest_fit(shape: Shape, addresses: Addresses) -> str:
    """Return the sizes nearest to this one that fit, in words."""
    found = [next((s for s in sizes if misfit(s, addresses) is None), None) for sizes in _smaller(shape)]
    return " or ".join(_describe(shape) for shape in found if shape) or "a larger prefix"


def misplaced(shape: Shape, addresses: Addresses) -> str | None:
    """Return what is wrong with the base prefixes of this fabric, or None."""
    base, wanted = addresses.ports, levels(shape)
    if base.prefixlen > addressing.SUBNET_BITS:
        return f"{base} has no room for a /16"
    if 1 << (addressing.SUBNET_BITS - base.prefixlen) < wanted:
        return f"{base} has room for {1 << (addressing.SUBNET_BITS - base.prefixlen)} of the {wanted} /16s"
    for subnet in itertools.islice(base.subnets(new_prefix=addressing.SUBNET_BITS), wanted):
        if subnet.overlaps(addresses.identity):
            return f"{addresses.identity} overlaps {subnet}, which holds port addresses"
    return None


def _port_count(shape: Shape) -> int:
    """Ports of servers and switches together."""
    if isinstance(shape, BCube):
        return 2 * shape.levels * math.prod([shape.n] * shape.levels)
    if isinstance(shape, Torus):
        return math.prod(shape.dims) * sum(len(torus.directions(side)) for side in shape.dims)
    return 2 * shape.servers * shape.nics + shape.ports_per_switch**3


def _plans(shape: Shape, identities: IPv4Network) -> tuple[Plan, Plan]:
    """Return the widest plan of the port addresses and that of the identities."""
    subnet = IPv4Network("10.0.0.0/16")
    if isinstance(shape, BCube):
        n, k = shape.n, shape.levels
        return bcube.port_plan(subnet, n, k), bcube.identity_plan(identities, n, k)
    if isinstance(shape, Torus):
        return torus.port_plan(subnet, shape.dims, 0), torus.identity_plan(identities, shape.dims)
    ports = fattree.port_plan(subnet, shape.ports_per_switch)
    return ports, fattree.identity_plan(identities, shape.servers)


def _smaller(shape: Shape) -> Iterator[Iterable[Shape]]:
    """Yield series of ever smaller shapes, one series for each size that could give way."""
    if isinstance(shape, BCube):
        yield (BCube(kind="bcube", n=n, levels=shape.levels) for n in range(shape.n - 1, 1, -1))
        yield (BCube(kind="bcube", n=shape.n, levels=k) for k in range(shape.levels - 1, 0, -1))
    elif isinstance(shape, Torus):
        tops = range(max(shape.dims) - 1, 1, -1)
        yield (Torus(kind="torus", dims=tuple(min(side, top) for side in shape.dims)) for top in tops)
        yield (Torus(kind="torus", dims=shape.dims[:d]) for d in range(len(shape.dims) - 1, 0, -1))
    else:
        larger = range(shape.ports_per_switch + 2, 34, 2)
        yield (FatTree(kind="fattree", servers=shape.servers, nics=shape.nics, k=k) for k in larger)
        fewer = range(shape.servers - 1, 1, -1)
        k = shape.k or min(shape.ports_per_switch, 32)
        yield (FatTree(kind="fattree", servers=count, nics=shape.nics, k=k) for count in fewer)


def _describe(shape: Shape) -> str:
    if isinstance(shape, BCube):
        return f"BCube({shape.n},{shape.levels})"
    if isinstance(shape, Torus):
        return f"dims {', '.join(map(str, shape.dims))}"
    return f"{shape.servers} servers x {shape.nics} NICs with k = {shape.ports_per_switch}"
