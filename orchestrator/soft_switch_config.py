"""What the soft switches of a fabric are like: from the topology file to the lines that their process reads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from math import ceil

from hipsnet.node.shaping import burst_bytes
from hipsnet.topology import Fabric, Switch, Topology, routes
from hipsnet.topology.quantities import parse_size
from hipsnet.topology.schema import Pfc

PRIORITIES = 8
RESPONSE_US = 5000
"""How long a sender of the lab may go on after it was told to stop: it may be waiting for a processor."""

_LATE_NS = 5_000_000  # what a port catches up with when the process had to wait for a processor
_UNLIMITED_BPS = 10_000_000_000
_NS_PER_M = 5
_ETHERNET_BYTES = 14
_CHUNK_BYTES = (
    1024  # of a frame, that a chunk of memory is counted on to hold: `chunk_bytes` of switch_config.c
)
_SPARE_CHUNKS = 256


@dataclass(frozen=True)
class Sockets:
    """Where a switch's process puts its sockets: the id of the map, and the ports' interfaces in order.

    `rates_bps` are those that hold now, which may be impaired; None is unlimited.
    """

    map: int
    ifindexes: tuple[int, ...]
    rates_bps: tuple[int | None, ...]


@dataclass(frozen=True)
class Thresholds:
    """Those of one priority, the same at every port, in bytes; see hipsnet/stack/switch_buffer.h."""

    lossless: bool
    reserved: int
    headroom: int
    xoff: int
    xon: int
    alpha: float
    hysteresis: int


def thresholds(topology: Topology) -> tuple[Thresholds, ...]:
    """What each priority may hold, by the file or by the formulas of hipsnet/stack/README.md."""
    frame, pfc = frame_bytes(topology), topology.pfc
    lossy = Thresholds(False, 2 * frame, 0, 0, 0, pfc.alpha if pfc else 1.0, 0)
    if pfc is None:
        return (lossy,) * PRIORITIES
    xoff = parse_size(pfc.xoff) if pfc.xoff else 0
    xon = parse_size(pfc.xon) if pfc.xon else xoff // 2
    room = headroom(topology, pfc)
    lossless = Thresholds(
        True, 2 * frame, room, xoff, max(xon, 1) if pfc.xon or xoff else 0, pfc.alpha, 2 * frame
    )
    return tuple(lossless if priority in pfc.priorities else lossy for priority in range(PRIORITIES))


def headroom(topology: Topology, pfc: Pfc) -> int:
    """What still comes after XOFF: the way there and back, the sender's answer, and a frame begun at each end."""
    if pfc.headroom:
        return parse_size(pfc.headroom)
    rate, frame = topology.link.rate_bps or _UNLIMITED_BPS, frame_bytes(topology)
    way_ns = pfc.cable_m * _NS_PER_M + topology.link.delay_us * 1000
    late_ns = 2 * way_ns + RESPONSE_US * 1000
    return ceil(rate * late_ns / 8e9) + burst_bytes(rate, topology.link.mtu) + 2 * frame


def frame_bytes(topology: Topology) -> int:
    """The longest frame, without its FCS."""
    return topology.link.mtu + _ETHERNET_BYTES


def text(topology: Topology, fabric: Fabric, counters: str, sockets: Mapping[str, Sockets]) -> str:
    """The lines for all switches of a fabric; hipsnet/stack/switch_config.h says what they mean."""
    lines = [f"counters {counters}", *_common(topology)]
    for switch in fabric.switches:
        lines += _switch(topology, fabric, switch, sockets[switch.name])
    return "\n".join(lines) + "\n"


def digest(content: str) -> str:
    """What tells one configuration from another."""
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _common(topology: Topology) -> Iterator[str]:
    lab, roce = topology.lab, topology.roce
    weights = lab.weights if lab.scheduling == "weighted" else (0,) * PRIORITIES
    yield f"frame {frame_bytes(topology)}"
    yield f"weights {' '.join(map(str, weights))}"
    yield f"dscp {roce.dscp} {roce.priority}"
    if roce.ecn.enabled:
        kmin, kmax = parse_size(roce.ecn.kmin), parse_size(roce.ecn.kmax)
        yield f"marking {roce.priority} {kmin} {kmax} {roce.ecn.pmax}"
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
    """What one port's reserves and headrooms take of the memory, for the priorities in use."""
    used = {0, topology.roce.priority, *(topology.pfc.priorities if topology.pfc else ())}
    found = thresholds(topology)
    return sum(ceil((found[p].reserved + found[p].headroom) / _CHUNK_BYTES) for p in used)


def _routes(fabric: Fabric, switch: Switch) -> Iterator[str]:
    """The longest prefixes first. A neighbour is reached by its own address."""
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
