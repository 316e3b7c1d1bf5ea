# SPDX-License-Identifier: Apache-2.0
"""The configuration of the soft switches: from the topology file to the lines that their process reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from math import ceil

from hipsnet.node.priorities import CNP_PRIORITY, dscp_priorities
from hipsnet.node.shaping import burst_bytes
from hipsnet.topology import Fabric, Switch, Topology, routes
from hipsnet.topology.headroom import thresholds
from hipsnet.units import parse_size

PRIORITIES = 8
_LATE_NS = 5_000_000  # how much a port may catch up after the process was descheduled
_ETHERNET_BYTES = 14
_CHUNK_BYTES = (
    1024  # of a frame, that a chunk of memory is counted on to hold: `chunk_bytes` of switch/config.c
)
_SPARE_CHUNKS = 256


@dataclass(frozen=True)
class Sockets:
    """The place of a switch's sockets: the id of the socket map, and the ports' interfaces in order.

    `rates_bps` are those that hold now, which may be impaired; None is unlimited.
    """

    map: int
    ifindexes: tuple[int, ...]
    rates_bps: tuple[int | None, ...]


def frame_bytes(topology: Topology) -> int:
    """The longest frame, without its FCS."""
    return topology.link.mtu + _ETHERNET_BYTES


def text(topology: Topology, fabric: Fabric, counters: str, sockets: Mapping[str, Sockets]) -> str:
    """The lines for all switches of a fabric; hipsnet/stack/switch/config.h describes them."""
    lines = [f"counters {counters}", *_common(topology)]
    for switch in fabric.switches:
        lines += _switch(topology, fabric, switch, sockets[switch.name])
    return "\n".join(lines) + "\n"


def digest(content: str) -> str:
    """A digest that identifies a configuration."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _common(topology: Topology) -> Iterator[str]:
    lab, roce = topology.lab, topology.roce
    weights = lab.weights if lab.scheduling == "weighted" else (0,) * PRIORITIES
    yield f"frame {frame_bytes(topology)}"
    yield f"weights {' '.join(map(str, weights))}"
    for dscp, priority in enumerate(dscp_priorities(topology)):
        yield f"dscp {dscp} {priority}"
    if roce.ecn.enabled:
        kmin, kmax = parse_size(roce.ecn.kmin), parse_size(roce.ecn.kmax)
        yield f"marking {roce.priority} {kmin} {kmax} {roce.ecn.pmax}"
    if topology.pfc and topology.pfc.watchdog:
        watchdog = topology.pfc.watchdog
        times = f"{watchdog.detect_ms * 1_000_000} {watchdog.restore_ms * 1_000_000}"
        yield f"watchdog {times} {watchdog.action}"
    for priority, found in enumerate(thresholds(topology)):
        numbers = (int(found.lossless), found.reserved, found.headroom, found.xoff, found.xon, found.alpha)
        yield f"class {priority} {' '.join(map(str, numbers))} {found.hysteresis}"


def _switch(topology: Topology, fabric: Fabric, switch: Switch, sockets: Sockets) -> Iterator[str]:
    shared, owed = topology.lab.buffer_bytes, len(switch.ports) * _owed_chunks(topology)
    chunks = ceil(shared / _CHUNK_BYTES) + owed + _SPARE_CHUNKS
    namespace = f"{fabric.name}-{switch.name}"
    yield f"switch {switch.name} {namespace} {sockets.map} {switch.routes_at} {shared} {chunks} {owed}"
    for port, ifindex, rate in zip(switch.ports, sockets.ifindexes, sockets.rates_bps, strict=True):
        burst_ns = burst_bytes(rate, topology.link.mtu) * 8_000_000_000 // rate if rate else 0
        yield f"port {port.name} {ifindex} {port.mac} {rate or 0} {max(_LATE_NS, burst_ns)}"
    if switch.routes_at == "l2":
        for port in switch.ports:
            yield f"mac {fabric.peer(port).mac} {port.index}"
    else:
        yield from _routes(fabric, switch)


def _owed_chunks(topology: Topology) -> int:
    """The chunks of one port's reserves and headrooms, for the priorities in use."""
    used = {0, CNP_PRIORITY, topology.roce.priority, *(topology.pfc.priorities if topology.pfc else ())}
    found = thresholds(topology)
    return sum(ceil((found[p].reserved + found[p].headroom) / _CHUNK_BYTES) for p in used)


def _routes(fabric: Fabric, switch: Switch) -> Iterator[str]:
    """The routes, longest prefixes first; neighbours have routes of their own."""
    for port in switch.ports:
        peer = fabric.peer(port)
        if peer.address is not None:
            yield _route(IPv4Network(peer.address.ip), [(port.index, peer.mac)])
    found = sorted(routes(fabric, switch.name), key=lambda route: -route.prefix.prefixlen)
    for route in found:
        yield _route(route.prefix, [(hop.port, hop.mac) for hop in route.hops])


def _route(prefix: IPv4Network, hops: list[tuple[int, str]]) -> str:
    ways = " ".join(f"{port} {mac}" for port, mac in hops)
    return f"route {int(prefix.network_address)} {int(prefix.netmask)} {ways}"
