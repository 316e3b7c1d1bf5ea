# SPDX-License-Identifier: Apache-2.0
"""Fat-Tree(k): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.

After Al-Fares et al., SIGCOMM 2008. A NIC sits in host slot rank * NICs + NIC, counted along the edge
switches; every cable is a /31 and every switch a router. Cables of layer 0 join servers and edge, 1 edge and
aggregation, 2 aggregation and core; all switches are built.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from ipaddress import IPv4Interface, IPv4Network

from hipsnet.topology import addressing, schema
from hipsnet.topology.addressing import Plan
from hipsnet.topology.fabric import Fabric, Link, Port, Server, Switch

LAYERS = 3
LOWER, UPPER = 0, 1  # the ends of a cable: nearer to the servers, nearer to the core


def port_plan(subnet: IPv4Network, k: int) -> Plan:
    """Port addresses of one layer: pod, lower switch in the pod, its port on that side, then which end.

    In layers 0 and 1 the switch is an edge switch, in layer 2 an aggregation switch.
    """
    return Plan(subnet, (k, k // 2, k // 2), 1)


def identity_plan(prefix: IPv4Network, servers: int) -> Plan:
    """Identities: the rank."""
    return Plan(prefix, (servers,))


# A port before its node is put together: its cable's layer and digits, and which end of the cable it is.
_Plug = tuple[int, tuple[int, int, int], int]


def build(topology: schema.Topology, shape: schema.FatTree) -> Fabric:
    """Return the fabric; a switch's ports are first those towards the servers (in use), then the others."""
    k, identities = shape.ports_per_switch, topology.addresses.identity
    plans = [port_plan(subnet, k) for subnet in addressing.subnets(topology, LAYERS)]
    mac = addressing.mac_source(topology)

    def ports(node: str, plugs: list[_Plug]) -> tuple[Port, ...]:
        return tuple(
            Port(node, index, layer, mac(node, index), IPv4Interface((plans[layer].address(cable, end), 31)))
            for index, (layer, cable, end) in enumerate(plugs)
        )

    servers = []
    for rank in range(shape.servers):
        name = addressing.server_name((rank,), (shape.servers,))
        slots = [slot_place(rank * shape.nics + nic, k) for nic in range(shape.nics)]
        identity = identity_plan(identities, shape.servers).address((rank,))
        servers.append(
            Server(rank, name, (rank,), identity, ports(name, [(0, slot, LOWER) for slot in slots]))
        )
    switches = tuple(
        Switch(name, level, ports(name, plugs), "l3")
        for name, level, plugs in _switches(k, shape.servers * shape.nics)
    )
    subnets, dims = tuple(plan.base for plan in plans), (shape.servers,)
    links = tuple(_links((*servers, *switches)))
    return Fabric(topology.name, "fattree", dims, subnets, identities, tuple(servers), switches, links)


def _switches(k: int, slots: int) -> Iterator[tuple[str, int, list[_Plug]]]:
    """Yield every switch's name, level and plugs; of the host slots the first `slots` are in use."""
    pods, halves = range(k), range(k // 2)
    for pod, edge in itertools.product(pods, halves):
        used = min(max(slots - (pod * (k // 2) + edge) * (k // 2), 0), k // 2)
        down: list[_Plug] = [(0, (pod, edge, i), UPPER) for i in range(used)]
        yield edge_name(pod, edge), 0, [*down, *((1, (pod, edge, agg), LOWER) for agg in halves)]
    for pod, agg in itertools.product(pods, halves):
        down = [(1, (pod, edge, agg), UPPER) for edge in halves]
        yield aggregation_name(pod, agg), 1, [*down, *((2, (pod, agg, i), LOWER) for i in halves)]
    for agg, i in itertools.product(halves, halves):
        yield core_name(agg, i, k), 2, [(2, (pod, agg, i), UPPER) for pod in pods]


def slot_place(slot: int, k: int) -> tuple[int, int, int]:
    """Return a host slot's pod, edge switch and port there."""
    half = k // 2
    return slot // half**2, slot // half % half, slot % half


def edge_name(pod: int, edge: int) -> str:
    """Return the name of an edge switch."""
    return f"p{pod}e{edge}"


def aggregation_name(pod: int, aggregation: int) -> str:
    """Return the name of an aggregation switch."""
    return f"p{pod}a{aggregation}"


def core_name(aggregation: int, index: int, k: int) -> str:
    """Return the name of the core switch at port `index` of every pod's aggregation switch `aggregation`."""
    return f"c{aggregation * (k // 2) + index}"


def ports_per_switch(fabric: Fabric) -> int:
    """Return k: a core switch has one port per pod."""
    return len(fabric.switches[-1].ports)


def _links(nodes: tuple[Server | Switch, ...]) -> Iterator[Link]:
    """Join the two ends of each /31, the lower first."""
    lower: dict[IPv4Network, Port] = {}
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == LOWER:
            lower[port.address.network] = port
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == UPPER:
            yield Link(lower[port.address.network], port)
