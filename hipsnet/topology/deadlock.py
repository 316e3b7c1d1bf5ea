# SPDX-License-Identifier: Apache-2.0
"""Deadlock analysis: cycles in the channel-dependency graph of the routes that lossless traffic uses.

A channel is one direction of a cable, named by the port that sends into it. A packet that holds one channel
and requests the next makes the first depend on the second. A network whose channels depend on one another in a
cycle can deadlock (Dally and Seitz, IEEE ToC 1987), and with PFC the deadlock lasts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Literal, get_args

from hipsnet.topology.fabric import Fabric, Port, Server
from hipsnet.topology.routing import routes

Ways = Literal["neighbours", "fixed", "disjoint"]
Channel = tuple[str, int]  # (node, index of the port that sends)
Graph = dict[Channel, set[Channel]]


@dataclass(frozen=True)
class _Entry:
    """A node forwards the addresses of a prefix out of `sender`, into `receiver`."""

    prefix: IPv4Network
    sender: Port
    receiver: Port


def cycle(fabric: Fabric, ways: Ways) -> tuple[str, ...] | None:
    """Return a cycle of channels that wait for one another, the first repeated at the end, or None.

    `ways` are the routes that lossless traffic may take: "neighbours", one hop only, as HiPS itself goes (where
    servers have routers as their neighbours: the same as "fixed"); "fixed", the routes to the identities;
    "disjoint", those to every port address and the path sets' detours.
    """
    found = shortest_cycle(_graph(fabric, ways))
    return tuple(f"{node}.{fabric.nodes[node].ports[index].name}" for node, index in found) if found else None


def cure(fabric: Fabric, ways: Ways) -> Ways | None:
    """Return the widest of the narrower choices of `ways` that cannot deadlock on this fabric, if there is one."""
    every: tuple[Ways, ...] = get_args(Ways)
    narrower = reversed(every[: every.index(ways)])
    return next((way for way in narrower if cycle(fabric, way) is None), None)


def _graph(fabric: Fabric, ways: Ways) -> Graph:
    graph: Graph = defaultdict(set)
    if ways == "neighbours" and not _behind_routers(fabric):  # the receiver consumes every packet
        return graph
    for base in _server_subnets(fabric) if ways == "disjoint" else [fabric.identities]:
        table = _table(fabric, base)
        for entries in table.values():
            for entry in entries:
                following = _after(fabric, entry, table[entry.receiver.node])
                _depend(fabric, graph, entry.sender, entry.receiver, following)
        if ways == "disjoint" and fabric.shape.has_detours:
            _add_detours(fabric, graph, fabric.subnets.index(base), table)
    return graph


def _behind_routers(fabric: Fabric) -> bool:
    """Whether servers have routers as neighbours, so that no traffic between servers is one hop long."""
    port = fabric.servers[0].ports[0]
    return any(not isinstance(fabric.nodes[other.node], Server) for other in _neighbours(fabric, port))


def _server_subnets(fabric: Fabric) -> tuple[IPv4Network, ...]:
    """Return the prefixes of the servers' port addresses."""
    levels = sorted({port.level for server in fabric.servers for port in server.ports})
    return tuple(fabric.subnets[level] for level in levels)


def _table(fabric: Fabric, base: IPv4Network) -> dict[str, list[_Entry]]:
    """Return, for each node, its entries for the addresses in `base`: routes and neighbours."""
    nodes = fabric.nodes.values()
    ports = {port.address.ip: port for node in nodes for port in node.ports if port.address}
    table: dict[str, list[_Entry]] = {}
    for node in nodes:
        entries = table[node.name] = []
        for route in routes(fabric, node.name):
            if route.prefix.subnet_of(base):
                entries += [_Entry(route.prefix, node.ports[hop.port], ports[hop.via]) for hop in route.hops]
        for port in node.ports:
            if port.address and port.address.ip in base:
                entries += [
                    _Entry(IPv4Network(other.address.ip), port, other)
                    for other in _neighbours(fabric, port)
                    if other.address
                ]
    return table


def _neighbours(fabric: Fabric, port: Port) -> list[Port]:
    """Return the ports that a port reaches by its cable and at most a layer-2 switch."""
    peer = fabric.peer(port)
    switch = fabric.nodes[peer.node]
    if isinstance(switch, Server) or switch.routes_at == "l3":
        return [peer]
    return [fabric.peer(other) for other in switch.ports if other is not peer]


def _after(fabric: Fabric, entry: _Entry, table: list[_Entry]) -> Iterator[Port]:
    """Yield the ports that forward packets received by `entry`: narrower prefixes and the next wider one."""
    prefix, here = entry.prefix, fabric.nodes[entry.receiver.node]
    own = {port.address.ip for port in here.ports if port.address}
    own |= {here.identity} if isinstance(here, Server) else set()
    if prefix.prefixlen == 32 and prefix.network_address in own:
        return
    wider = [e.prefix.prefixlen for e in table if prefix.subnet_of(e.prefix)]
    for other in table:
        next_wider = prefix.subnet_of(other.prefix) and other.prefix.prefixlen == max(wider)
        if next_wider or other.prefix.subnet_of(prefix):
            yield other.sender


def _depend(fabric: Fabric, graph: Graph, sender: Port, receiver: Port, following: Iterable[Port]) -> None:
    """Record that packets from `sender` into `receiver` wait for the ports `following`."""
    channel, last_cable = (sender.node, sender.index), fabric.peer(receiver)
    if last_cable != sender:  # a layer-2 switch in between holds packets, too
        graph[channel].add((last_cable.node, last_cable.index))
        channel = (last_cable.node, last_cable.index)
    graph[channel].update((port.node, port.index) for port in following)


def _add_detours(fabric: Fabric, graph: Graph, level: int, table: dict[str, list[_Entry]]) -> None:
    """Add the first hops that a source takes against the routes, to its neighbours of `level`, as in `paths`.

    From there the other digits are corrected first, or on a torus the packet continues along the ring.
    """
    for server in fabric.servers:
        for port in server.ports:
            if port.level == level:
                for aside in _neighbours(fabric, port):
                    following = [
                        entry.sender
                        for entry in table[aside.node]
                        if entry.sender.level != level or entry.sender.direction == port.direction != 0
                    ]
                    _depend(fabric, graph, port, aside, following)


def shortest_cycle(graph: Graph) -> list[Channel] | None:
    """Return a shortest cycle through one of the channels that lie on any, its first channel repeated."""
    start = _on_a_cycle(graph)
    if start is None:
        return None
    before: dict[Channel, Channel] = {}
    waiting = deque([start])
    while start not in before:
        channel = waiting.popleft()
        for following in sorted(graph.get(channel, ())):
            if following not in before:
                before[following] = channel
                waiting.append(following)
    cycle = [start, before[start]]
    while cycle[-1] != start:
        cycle.append(before[cycle[-1]])
    return cycle[::-1]


def _on_a_cycle(graph: Graph) -> Channel | None:
    """Remove the channels that wait for none until all are removed, or the rest leads to cycles."""
    waits = {channel: set(following) for channel, following in graph.items()}
    waited: dict[Channel, list[Channel]] = defaultdict(list)
    for channel, following in graph.items():
        for other in following:
            waited[other].append(channel)
            waits.setdefault(other, set())
    free = [channel for channel, following in waits.items() if not following]
    while free:
        done = free.pop()
        waits.pop(done)
        for channel in waited[done]:
            waits[channel].discard(done)
            if not waits[channel]:
                free.append(channel)
    if not waits:
        return None
    channel = min(waits)  # some of the rest only lead to a cycle: follow one to it
    seen: set[Channel] = set()
    while channel not in seen:
        seen.add(channel)
        channel = min(waits[channel])
    return channel
