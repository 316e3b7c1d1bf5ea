# SPDX-License-Identifier: Apache-2.0
"""Routes and paths of any fabric."""

from __future__ import annotations

from hipsnet.errors import InputError
from hipsnet.topology.building import find_server
from hipsnet.topology.fabric import Fabric, Path, Route, Server


def routes(fabric: Fabric, node_name: str) -> tuple[Route, ...]:
    """Return a node's forwarding table, the shortest prefixes first; its connected subnets are left out.

    A layer-2 switch has none. InputError when there is no such node.
    """
    node = fabric.nodes.get(node_name)
    if node is None:
        node = find_server(fabric, node_name)
    if not isinstance(node, Server) and node.routes_at == "l2":
        return ()
    # Where a switch has a single cable, a prefix that names the switch is the cable's subnet.
    connected = {port.address.network for port in node.ports if port.address}
    found = (route for route in fabric.shape.routes(fabric, node) if route.prefix not in connected)
    return tuple(sorted(found, key=lambda route: (route.prefix.prefixlen, route.prefix)))


def paths(fabric: Fabric, src_name: str, dst_name: str) -> tuple[Path, ...]:
    """Return the paths between two servers, the shortest first: disjoint ones, or one per NIC.

    A path's `destination` makes every node behind the first hop forward along it; the first hop is the
    source's own choice of a port. InputError when a name is unknown or both are the same server.
    """
    source, target = find_server(fabric, src_name), find_server(fabric, dst_name)
    if source is target:
        raise InputError(f"no path from {source.name} to itself; name two different servers")
    return tuple(sorted(fabric.shape.paths(fabric, source, target), key=lambda path: len(path.hops)))
