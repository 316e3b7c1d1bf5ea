# SPDX-License-Identifier: Apache-2.0
"""Routing in a Fat-Tree: up by any of the equal ways (ECMP), down by the only one.

Every prefix names a pod or a switch in it, so that an address that nobody has finds no route and no loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network

from hipsnet.topology import fattree
from hipsnet.topology.addressing import Plan, address_of
from hipsnet.topology.fabric import Fabric, Hop, NextHop, Path, Port, Route, Server, Switch

Behind = Callable[[int, int, int], Port | None]  # the port that leads down to a host slot, if one does


def routes(fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
    """Yield a node's routes; the addresses of the switches are reached, too."""
    if isinstance(node, Server):
        return _server_routes(fabric, node)
    return (_edge_routes, _aggregation_routes, _core_routes)[node.level](fabric, node)


def _server_routes(fabric: Fabric, server: Server) -> Iterator[Route]:
    """With several NICs, NIC j of every other server is reached by the own NIC j; the rest by any."""
    if len(server.ports) > 1:
        for other in fabric.servers:
            for port in other.ports if other is not server else ():
                yield Route(IPv4Network(address_of(port)), _hops(fabric, [server.ports[port.index]]))
    for prefix in (*fabric.subnets, fabric.identities):
        yield Route(prefix, _hops(fabric, server.ports))


def _edge_routes(fabric: Fabric, switch: Switch) -> Iterator[Route]:
    (pod, own), up = _place(switch), _ports(switch, 1)
    yield from _other_pods(fabric, pod, up)
    servers, edges, aggregations = _plans(fabric)
    for index, port in enumerate(up):
        yield Route(aggregations.prefix((pod, index)), _hops(fabric, [port]))
        if index != own:
            yield Route(servers.prefix((pod, index)), _hops(fabric, up))
            yield Route(edges.prefix((pod, index)), _hops(fabric, up))
    yield from _identities(fabric, lambda p, edge, i: switch.ports[i] if (p, edge) == (pod, own) else None)
    yield Route(fabric.identities, _hops(fabric, up))


def _aggregation_routes(fabric: Fabric, switch: Switch) -> Iterator[Route]:
    (pod, own), down, up = _place(switch), _ports(switch, 1), _ports(switch, 2)
    yield from _other_pods(fabric, pod, up)
    servers, edges, aggregations = _plans(fabric)
    for index, port in enumerate(down):
        yield Route(servers.prefix((pod, index)), _hops(fabric, [port]))
        yield Route(edges.prefix((pod, index)), _hops(fabric, [port]))
        if index != own:
            yield Route(aggregations.prefix((pod, index)), _hops(fabric, down))
    yield from _identities(fabric, lambda p, edge, _: down[edge] if p == pod else None)
    yield Route(fabric.identities, _hops(fabric, up))


def _core_routes(fabric: Fabric, switch: Switch) -> Iterator[Route]:
    for pod, port in enumerate(switch.ports):
        for plan in _plans(fabric):
            yield Route(plan.prefix((pod,)), _hops(fabric, [port]))
    yield from _identities(fabric, lambda pod, _edge, _i: switch.ports[pod])


def _other_pods(fabric: Fabric, own: int, up: list[Port]) -> Iterator[Route]:
    for pod in range(fattree.ports_per_switch(fabric)):
        for plan in _plans(fabric) if pod != own else ():
            yield Route(plan.prefix((pod,)), _hops(fabric, up))


def _identities(fabric: Fabric, behind: Behind) -> Iterator[Route]:
    for server in fabric.servers:
        found = [behind(*_slot(fabric, server, nic)) for nic in range(len(server.ports))]
        if ports := [port for port in dict.fromkeys(found) if port is not None]:
            yield Route(IPv4Network(server.identity), _hops(fabric, ports))


def _plans(fabric: Fabric) -> list[Plan]:
    return [fattree.port_plan(subnet, fattree.ports_per_switch(fabric)) for subnet in fabric.subnets]


def _hops(fabric: Fabric, ports: Iterable[Port]) -> tuple[NextHop, ...]:
    peers = [(port.index, fabric.peer(port)) for port in ports]
    return tuple(NextHop(index, address_of(peer), peer.mac) for index, peer in peers)


def _ports(switch: Switch, layer: int) -> list[Port]:
    return [port for port in switch.ports if port.level == layer]


def _place(switch: Switch) -> tuple[int, int]:
    """Return an edge or aggregation switch's pod and its number there."""
    pod, index = re.findall(r"\d+", switch.name)
    return int(pod), int(index)


def _slot(fabric: Fabric, server: Server, nic: int) -> tuple[int, int, int]:
    return fattree.slot_place(server.rank * len(server.ports) + nic, fattree.ports_per_switch(fabric))


def paths(fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
    """Yield, for each NIC, one way from it to the target's same NIC.

    It is one of the equal ways among which the switches choose by hash; another one for every NIC while there
    are some left. The ways of two NICs at one edge switch share that switch.
    """
    k, half = fattree.ports_per_switch(fabric), fattree.ports_per_switch(fabric) // 2
    for nic, arrival in enumerate(target.ports):
        (pod, edge, _), (to_pod, to_edge, _) = _slot(fabric, source, nic), _slot(fabric, target, nic)
        aggregation, index = nic % half, nic // half % half
        way = [source.name, fattree.edge_name(pod, edge)]
        if pod != to_pod:
            way.append(fattree.aggregation_name(pod, aggregation))
            way.append(fattree.core_name(aggregation, index, k))
        if (pod, edge) != (to_pod, to_edge):
            way.append(fattree.aggregation_name(to_pod, aggregation))
            way.append(fattree.edge_name(to_pod, to_edge))
        senders = [source.ports[nic]]
        for here, there in zip(way[1:], [*way[2:], target.name], strict=True):
            senders.append(_port_towards(fabric, here, arrival if there == target.name else there))
        hops = tuple(Hop(port, fabric.peer(port)) for port in senders)
        yield Path(source.name, target.name, hops, address_of(arrival))


def _port_towards(fabric: Fabric, here: str, there: str | Port) -> Port:
    """Return the port of node `here` whose cable ends at the node (or port) `there`."""
    peers = ((port, fabric.peer(port)) for port in fabric.nodes[here].ports)
    return next(port for port, peer in peers if there in (peer, peer.node))
