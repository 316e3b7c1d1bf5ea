# SPDX-License-Identifier: Apache-2.0
"""Derive the desired state of each node from a topology."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network

from hipsnet.errors import InputError
from hipsnet.node import initcwnd, nic_settings, queues, rdma, sysctls
from hipsnet.node.desired import (
    GRO,
    TX_CHECKSUM,
    LinkConfig,
    NeighbourConfig,
    NodeConfig,
    PolicyConfig,
    RouteConfig,
    TableEntry,
)
from hipsnet.node.priorities import dscp_priorities
from hipsnet.node.watchdog import Watchdog
from hipsnet.topology import routes
from hipsnet.topology.fabric import Fabric, Port, Server, Switch
from hipsnet.topology.schema import Host, Topology

BRIDGE = "br0"
_LOOPBACK = "lo"

SOFT_SWITCH_BPS = 10_000_000_000
"""The rate of a soft switch's ports if the file says `unlimited`."""


def node_config(topology: Topology, fabric: Fabric, node: str) -> NodeConfig:
    """The desired state of a node of the lab, server or switch."""
    found = fabric.nodes[node]
    if isinstance(found, Server):
        return server_config(topology, fabric, found)
    return switch_config(topology, fabric, found)


def server_config(topology: Topology, fabric: Fabric, server: Server) -> NodeConfig:
    """The desired state of a server: of its lab namespace, or of the host that it is assigned to.

    Servers on the same host share its loopback, and need no routes: all addresses are local. Raises InputError if
    the file names hosts but not this one, or not all of its ports.
    """
    host = _host(topology, server)
    together = _together(topology, fabric, server)
    names = _interface_names(host, server)
    ports = tuple(_server_port(topology, fabric, port, names[port.index], host) for port in server.ports)
    if topology.lab.switch == "lossless":
        ports = tuple(_with_whole_frames(link) for link in ports)
    identity = IPv4Interface((server.identity, 32))
    identities = tuple(IPv4Interface((other.identity, 32)) for other in together)
    loopback = LinkConfig(_LOOPBACK, "loopback", addresses=identities)
    neighbours = tuple(_neighbours(topology, fabric, server, names))
    return NodeConfig(
        fabric=fabric.name,
        name=server.name,
        links=(loopback, *ports),
        routes=_server_routes(topology, fabric, server, names) if len(together) == 1 else (),
        neighbours=neighbours,
        sysctls=_server_sysctls(names, in_lab=host is None, is_alone=len(together) == 1)
        | _sender_sysctls(topology, fabric, server),
        table=_table(fabric, server, identity, neighbours, names),
        policies=_policies(topology, fabric, server, names) if len(together) == 1 else (),
        watchdog=_watchdog(topology),
        priorities=dscp_priorities(topology),
    )


def switch_config(topology: Topology, fabric: Fabric, switch: Switch) -> NodeConfig:
    """The desired state of a switch's lab namespace: a bridge, a router, or a soft switch."""
    names = [port.name for port in switch.ports]
    if topology.lab.switch == "lossless":
        return _soft_switch_config(topology, fabric, switch, names)
    bridged = switch.routes_at == "l2"
    ports = tuple(_switch_port(topology, fabric, port, BRIDGE if bridged else None) for port in switch.ports)
    if bridged:
        settings = dict(sysctls.BRIDGE)
        for name in (*names, BRIDGE):
            settings |= sysctls.quiet(name)
        bridge = LinkConfig(BRIDGE, "bridge")
        return NodeConfig(
            fabric.name, switch.name, (LinkConfig(_LOOPBACK, "loopback"), bridge, *ports), sysctls=settings
        )
    settings = dict(sysctls.ROUTER)
    for name in names:
        settings |= sysctls.of_port(name)
    return NodeConfig(
        fabric=fabric.name,
        name=switch.name,
        links=(LinkConfig(_LOOPBACK, "loopback"), *ports),
        routes=_kernel_routes(fabric, switch, names),
        neighbours=tuple(_neighbours(topology, fabric, switch, names)),
        sysctls=settings,
    )


def _watchdog(topology: Topology) -> Watchdog | None:
    watchdog = topology.pfc.watchdog if topology.pfc else None
    if watchdog is None:
        return None
    return Watchdog(watchdog.detect_ms, watchdog.restore_ms, watchdog.action, topology.link.rate_bps)


def _soft_switch_config(topology: Topology, fabric: Fabric, switch: Switch, names: list[str]) -> NodeConfig:
    """Ports that hand every frame to the fabric's soft switch, past the kernel's stack.

    Their queueing discipline sees none of the switch's frames. But a veth with one reports to its sender that its
    peer is full, and a veth without one drops the frame: these ports have one even if the rate is unlimited.
    """
    ports = (_switch_port(topology, fabric, port, None) for port in switch.ports)
    rate_bps = topology.link.rate_bps or SOFT_SWITCH_BPS
    links = (replace(link, program="switched", addresses=(), rate_bps=rate_bps) for link in ports)
    settings: dict[str, str] = {}
    for name in names:
        settings |= sysctls.quiet(name)
    return NodeConfig(fabric.name, switch.name, (LinkConfig(_LOOPBACK, "loopback"), *links), sysctls=settings)


def _with_whole_frames(link: LinkConfig) -> LinkConfig:
    """A soft switch forwards frames as they are: nothing behind this port completes a checksum."""
    return replace(link, offloads=tuple((name, on and name != TX_CHECKSUM) for name, on in link.offloads))


def _host(topology: Topology, server: Server) -> Host | None:
    if topology.nodes == "lab":
        return None
    host = topology.nodes.get(server.name)
    if host is None:
        known = ", ".join(topology.nodes)
        raise InputError(f"nodes: {server.name} is missing; the file has {known}; add it")
    if len(host.ports) != len(server.ports):
        raise InputError(
            f"nodes.{server.name}.ports: needs {len(server.ports)} interfaces, has {len(host.ports)}"
        )
    return host


def _together(topology: Topology, fabric: Fabric, server: Server) -> list[Server]:
    """The servers on the same host, this one included."""
    if topology.nodes == "lab" or topology.nodes[server.name].host is None:
        return [server]
    hosts = {name: found.host for name, found in topology.nodes.items()}
    return [other for other in fabric.servers if hosts.get(other.name) == hosts[server.name]]


def _interface_names(host: Host | None, server: Server) -> list[str]:
    if host is None:
        return [port.name for port in server.ports]
    return [port.interface for port in host.ports]


def _server_port(topology: Topology, fabric: Fabric, port: Port, name: str, host: Host | None) -> LinkConfig:
    alias = f"hipsnet {fabric.name} {fabric.links_by_port[port.node, port.index].name}"
    addresses = (port.address,) if port.address else ()
    rxe = rdma.device_name(fabric.name, port.node, port.index) if topology.roce.device == "rxe" else None
    if host is not None:
        return LinkConfig(
            name, "card", port.index, host.ports[port.index].mac, topology.link.mtu, alias,
            offloads=((TX_CHECKSUM, False),), program="forward", addresses=addresses, rxe=rxe,
            settings=nic_settings.settings(topology),
        )  # fmt: skip
    return LinkConfig(
        name, "cable", port.index, port.mac, topology.link.mtu, alias,
        shaped=True, rate_bps=topology.link.rate_bps, delay_us=topology.link.delay_us,
        offloads=_cable_offloads(fabric, port), program="forward", addresses=addresses, rxe=rxe,
    )  # fmt: skip


def _switch_port(topology: Topology, fabric: Fabric, port: Port, master: str | None) -> LinkConfig:
    alias = f"hipsnet {fabric.name} {fabric.links_by_port[port.node, port.index].name}"
    return LinkConfig(
        port.name, "cable", port.index, port.mac, topology.link.mtu, alias, master,
        shaped=True, rate_bps=topology.link.rate_bps, delay_us=topology.link.delay_us,
        offloads=_cable_offloads(fabric, port), program="cable", addresses=(port.address,) if port.address else (),
    )  # fmt: skip


def _cable_offloads(fabric: Fabric, port: Port) -> tuple[tuple[str, bool], ...]:
    """The offloads of a veth port of the lab.

    A server's XDP program forwards a frame as it is, so the device before it completes the checksum. GRO merges
    incoming segments; without GRO or a program, a veth accepts no redirected frames.
    """
    to_server = isinstance(fabric.nodes[fabric.peer(port).node], Server)
    return ((TX_CHECKSUM, not to_server), (GRO, True))


def _server_sysctls(names: list[str], in_lab: bool, is_alone: bool) -> dict[str, str]:
    """In a lab those of the whole namespace, on a host those of its ports alone."""
    settings = sysctls.LAB_SERVER | sysctls.LAB_BUFFERS if in_lab else {}
    for name in names:
        settings |= sysctls.of_port(name) if in_lab else sysctls.of_host_port(name)
        if not is_alone:
            settings |= sysctls.from_ourselves(name)
    return settings


def _sender_sysctls(topology: Topology, fabric: Fabric, server: Server) -> dict[str, str]:
    """In a lab, how much of a connection may wait, if each of a port's peers has one."""
    if topology.nodes != "lab":
        return {}
    rate_bps, mtu = topology.link.rate_bps, topology.link.mtu
    peers = max((len(facing(fabric, port)) for port in server.ports), default=1)
    return sysctls.sender(queues.connection_bytes(rate_bps, mtu, peers), queues.unsent_bytes(rate_bps, mtu))


def _server_routes(
    topology: Topology, fabric: Fabric, server: Server, names: list[str]
) -> tuple[RouteConfig, ...]:
    """A server's routes; in the lab with an initial window, also for on-link destinations."""
    others = _kernel_routes(fabric, server, names, _window(topology, len(fabric.servers) - 1))
    if topology.nodes != "lab":
        return others
    on_link = tuple(
        RouteConfig(
            port.address.network,
            ((names[port.index], None),),
            _window(topology, len(facing(fabric, port))),
        )
        for port in server.ports
        if port.address is not None
    )
    return (*on_link, *others)


def _window(topology: Topology, peers: int) -> int | None:
    if topology.nodes != "lab":
        return None
    return initcwnd.segments(topology.link.rate_bps, topology.link.mtu, peers)


def _kernel_routes(
    fabric: Fabric, node: Server | Switch, names: list[str], window: int | None = None
) -> tuple[RouteConfig, ...]:
    return tuple(
        RouteConfig(route.prefix, tuple(sorted((names[hop.port], hop.via) for hop in route.hops)), window)
        for route in routes(fabric, node.name)
    )


def _policies(
    topology: Topology, fabric: Fabric, server: Server, names: list[str]
) -> tuple[PolicyConfig, ...]:
    """For each port, the routes that several ports share, by that port alone."""
    window = _window(topology, len(fabric.servers) - 1)
    shared = [route for route in routes(fabric, server.name) if len(route.hops) > 1]
    found = []
    for port in server.ports:
        name = names[port.index]
        own = (
            RouteConfig(route.prefix, ((name, hop.via),), window)
            for route in shared
            for hop in route.hops
            if hop.port == port.index
        )
        ways = tuple(sorted(own, key=lambda route: route.prefix))
        if ways and port.address is not None:
            found.append(PolicyConfig(name, port.address.ip, ways))
    return tuple(found)


def _neighbours(
    topology: Topology, fabric: Fabric, node: Server | Switch, names: list[str]
) -> Iterator[NeighbourConfig]:
    for port in node.ports:
        for peer in facing(fabric, port):
            if peer.address is not None:
                yield NeighbourConfig(names[port.index], peer.address.ip, _mac(topology, peer))


def facing(fabric: Fabric, port: Port) -> tuple[Port, ...]:
    """The addressed ports at the other end of a port's cable: all those behind it if that is a bridge."""
    peer = fabric.peer(port)
    other = fabric.nodes[peer.node]
    if isinstance(other, Switch) and other.routes_at == "l2":
        return tuple(fabric.peer(place) for place in other.ports if place != peer)
    return (peer,)


def _mac(topology: Topology, port: Port) -> str | None:
    if topology.nodes == "lab":
        return port.mac
    host = topology.nodes.get(port.node)
    return host.ports[port.index].mac if host is not None and port.index < len(host.ports) else None


def _table(
    fabric: Fabric,
    server: Server,
    identity: IPv4Interface,
    neighbours: tuple[NeighbourConfig, ...],
    names: list[str],
) -> tuple[TableEntry, ...]:
    """The forwarding table: own addresses, neighbours, then the routes by way of a neighbour."""
    own = [identity.network, *(IPv4Network(port.address.ip) for port in server.ports if port.address)]
    macs = {(entry.link, entry.address): entry.mac for entry in neighbours}
    entries = [TableEntry(prefix) for prefix in own]
    for entry in neighbours:
        port = names.index(entry.link)
        entries.append(TableEntry(IPv4Network(entry.address), port, entry.mac, entry.address))
    for route in routes(fabric, server.name):
        hop = route.hops[0]  # a forwarded frame takes one way; only senders share the load
        entries.append(TableEntry(route.prefix, hop.port, macs.get((names[hop.port], hop.via)), hop.via))
    return tuple(entries)
