# SPDX-License-Identifier: Apache-2.0
"""Routes and paths of any fabric."""

from __future__ import annotations

from collections.abc import Iterator

from hipsnet.errors import InputError
from hipsnet.topology import bcube, fattree_routing, torus
from hipsnet.topology.building import find_server
from hipsnet.topology.fabric import Fabric, Path, Route, Server, Switch


def routes(fabric: Fabric, node_name: str) -> tuple[Route, ...]:
    """Return a node's forwarding table, the shortest prefixes first; its connected subnets are left out.

    A layer-2 switch has none. InputError when there is no such node.
    """
    node = fabric.nodes.get(node_name)
    if node is None:
        node = find_server(fabric, node_name)
    if not isinstance(node, Server) and node.routes_at == "l2":
        return ()
    connected = {
        port.address.network for port in node.ports if port.address
    }  # a Fat-Tree's pod may be one cable
    found = (route for route in _routes(fabric, node) if route.prefix not in connected)
    return tuple(sorted(found, key=lambda route: (route.prefix.prefixlen, route.prefix)))


def _routes(fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
    if isinstance(node, Switch) or fabric.kind == "fattree":
        return fattree_routing.routes(fabric, node)
    return bcube.routes(fabric, node) if fabric.kind == "bcube" else torus.routes(fabric, node)


def paths(fabric: Fabric, src_name: str, dst_name: str) -> tuple[Path, ...]:
    """Return the disjoint paths between two servers, the shortest first.

    BCube: k node-disjoint paths; torus: one per dimension or more, up to one per port; Fat-Tree: one per NIC.
    A path's `destination` makes every node behind the first hop forward along it; the first hop is the
    source's own choice of a port. InputError when a name is unknown or both are the same server.
    """
    source, target = find_server(fabric, src_name), find_server(fabric, dst_name)
    if source is target:
        raise InputError(f"no path from {source.name} to itself: wanted two different servers")
    if fabric.kind == "fattree":
        found = fattree_routing.paths(fabric, source, target)
    else:
        found = (bcube if fabric.kind == "bcube" else torus).paths(fabric, source, target)
    return tuple(sorted(found, key=lambda path: len(path.hops)))
