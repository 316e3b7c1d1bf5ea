"""Fat-Tree(k): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches.

After Al-Fares et al., SIGCOMM 2008. A NIC sits in host slot rank * NICs + NIC, counted along the edge
switches; every cable is a /31 and every switch a router. Cables of layer 0 join servers and edge, 1 edge and
aggregation, 2 aggregation and core; all switches are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _End:
    """A port before its switch is put together: its cable's layer and address."""

    layer: int
    address: IPv4Interface


def build(topology: schema.Topology, shape: schema.FatTree) -> Fabric:
    """Return the fabric; a switch's ports are first those towards the servers (in use), then the others."""
    k, half = shape.ports_per_switch, shape.ports_per_switch // 2
    subnets = addressing.subnets(topology, LAYERS)
    mac = addressing.mac_source(topology)
    used = shape.servers * shape.nics

    def end(layer: int, cable: tuple[int, int, int], which: int) -> _End:
        address = port_plan(subnets[layer], k).address(cable, which)
        return _End(layer, IPv4Interface((address, 31)))

    servers = []
    for rank in range(shape.servers):
        name = addressing.server_name((rank,), (shape.servers,))
        slots = [slot_place(rank * shape.nics + nic, k) for nic in range(shape.nics)]
        ports = _ports(name, [end(0, slot, LOWER) for slot in slots], mac)
        identity = identity_plan(topology.addresses.identity, shape.servers).address((rank,))
        servers.append(Server(rank, name, (rank,), identity, ports))

    pods, halves = range(k), range(half)
    edges = {
        (pod, edge): [end(0, (pod, edge, i), UPPER) for i in halves if (pod * half + edge) * half + i < used]
        + [end(1, (pod, edge, agg), LOWER) for agg in halves]
        for pod in pods
        for edge in halves
    }
    aggregations = {
        (pod, agg): [end(1, (pod, edge, agg), UPPER) for edge in halves]
        + [end(2, (pod, agg, i), LOWER) for i in halves]
        for pod in pods
        for agg in halves
    }
    cores = {(agg, i): [end(2, (pod, agg, i), UPPER) for pod in pods] for agg in halves for i in halves}
    switches = (
        *(_switch(edge_name(*at), 0, ends, mac) for at, ends in edges.items()),
        *(_switch(aggregation_name(*at), 1, ends, mac) for at, ends in aggregations.items()),
        *(_switch(core_name(*at, k), 2, ends, mac) for at, ends in cores.items()),
    )
    links = tuple(_links((*servers, *switches)))
    sides = (shape.servers,)
    return Fabric(
        topology.name, "fattree", sides, subnets, topology.addresses.identity, tuple(servers), switches, links
    )


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


def _ports(node: str, ends: list[_End], mac: Callable[[str, int], str]) -> tuple[Port, ...]:
    return tuple(
        Port(node, index, end.layer, mac(node, index), end.address) for index, end in enumerate(ends)
    )


def _switch(name: str, level: int, ends: list[_End], mac: Callable[[str, int], str]) -> Switch:
    return Switch(name, level, _ports(name, ends, mac), "l3")


def _links(nodes: tuple[Server | Switch, ...]) -> Iterator[Link]:
    """Join the two ends of each /31, the lower first."""
    lower: dict[IPv4Network, Port] = {}
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == LOWER:
            lower[port.address.network] = port
    for port in (port for node in nodes for port in node.ports):
        if port.address and int(port.address.ip) & 1 == UPPER:
            yield Link(lower[port.address.network], port)
