# SPDX-License-Identifier: Apache-2.0
"""Checks of a topology file beyond the types of its keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from hipsnet import units
from hipsnet.topology import deadlock, headroom, limits
from hipsnet.topology.addressing import digits_of, server_name
from hipsnet.topology.building import build
from hipsnet.topology.document import Keys
from hipsnet.topology.schema import Host, Pfc, PortBuffers, Topology

SOFT_SWITCH_PORTS = 64  # SWITCH_PORTS of hipsnet/stack/switch/buffer.h


@dataclass(frozen=True)
class Finding:
    """Something wrong at a key: what was found there and what is allowed."""

    keys: Keys
    found: str
    allowed: str
    nearest: str | None = None


def findings(topology: Topology) -> Iterator[Finding]:
    """Yield everything that is wrong with the topology, in the order of the schema."""
    shape, addresses = topology.fabric, topology.addresses
    if reason := limits.misfit(shape, addresses):
        yield Finding(("fabric",), reason, limits.nearest_fit(shape, addresses))
    elif reason := limits.misplaced(shape, addresses):
        allowed = f"a ports prefix with {len(shape.cable_levels)} /16s that do not overlap identity"
        yield Finding(("addresses",), reason, allowed)
    elif topology.nodes != "lab" and (found := list(_nodes(topology, topology.nodes))):
        yield from found
    else:
        yield from _deadlock(topology)
    yield from _thresholds(topology)
    yield from _cards(topology)
    yield from _soft_switches(topology)


def _deadlock(topology: Topology) -> Iterator[Finding]:
    """The channels of lossless traffic must not form a cycle."""
    if topology.pfc is None:
        return
    ways, fabric = topology.pfc.routes, build(topology)
    if cycle := deadlock.cycle(fabric, ways):
        found = f"{ways}, with which packets can wait for one another: {' -> '.join(cycle)}"
        lossy = "no pfc section: all traffic lossy"
        cure = deadlock.cure(fabric, ways)
        allowed = f"{cure} (or {lossy})" if cure else f"{lossy}; {topology.fabric.deadlock_note}"
        yield Finding(("pfc", "routes"), found, allowed)


def _nodes(topology: Topology, nodes: dict[str, Host]) -> Iterator[Finding]:
    """Every server and every port must be present, once."""
    dims, ports = topology.fabric.radices, topology.fabric.ports_per_server
    names = [server_name(digits_of(rank, dims), dims) for rank in range(prod(dims))]
    known = set(names)
    macs: dict[str, str] = {}
    interfaces: dict[tuple[str, str], str] = {}
    for name, host in nodes.items():
        if name not in known:
            yield Finding(("nodes", name), "a server that is not in the fabric", f"{names[0]} to {names[-1]}")
            continue
        if len(host.ports) != ports:
            yield Finding(
                ("nodes", name, "ports"), f"{len(host.ports)} ports", f"{ports}, one per port of {name}"
            )
        for index, port in enumerate(host.ports):
            here: Keys = ("nodes", name, "ports", index)
            if (
                port.mac
                and (first := macs.setdefault(port.mac, f"{name} port {index}")) != f"{name} port {index}"
            ):
                yield Finding((*here, "mac"), f"{port.mac}, which {first} has", "another MAC address")
            place = (host.host or name, port.interface)
            if (first := interfaces.setdefault(place, f"{name} port {index}")) != f"{name} port {index}":
                yield Finding(
                    (*here, "interface"), f"{port.interface}, which {first} has", "another interface"
                )
    if missing := [name for name in names if name not in nodes]:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        yield Finding(("nodes",), f"nothing for {shown}", f"all of the {len(names)} servers, or `lab`")


def _thresholds(topology: Topology) -> Iterator[Finding]:
    """ECN thresholds are in order, the RoCE priority is lossless, and PFC thresholds lose no packets."""
    ecn = topology.roce.ecn
    if units.parse_size(ecn.kmin) > units.parse_size(ecn.kmax):
        yield Finding(("roce", "ecn", "kmin"), ecn.kmin, f"at most kmax, {ecn.kmax}")
    pfc = topology.pfc
    if pfc is None:
        return
    if len(set(pfc.priorities)) != len(pfc.priorities):
        yield Finding(("pfc", "priorities"), ", ".join(map(str, pfc.priorities)), "every priority once")
    if topology.roce.priority not in pfc.priorities:
        allowed = f"a list that contains roce.priority, {topology.roce.priority}"
        yield Finding(("pfc", "priorities"), ", ".join(map(str, pfc.priorities)), allowed)
    for key, found, allowed in headroom.misfits(topology, pfc):
        yield Finding(("pfc", key), found, allowed)


def _cards(topology: Topology) -> Iterator[Finding]:
    """Settings that exclude one another on a card, or that would lose packets."""
    nic, pfc, roce = topology.nic, topology.pfc, topology.roce
    if nic.pause == "on" and pfc is not None:
        yield Finding(
            ("nic", "pause"), "on, and a pfc section", "off: a port pauses the link or priorities, not both"
        )
    if nic.ets and any(nic.ets.bandwidth) and (total := sum(nic.ets.bandwidth)) != 100:
        yield Finding(
            ("nic", "ets", "bandwidth"), f"{total} percent in all", "100 percent in all, or 0 for each"
        )
    taken = {roce.dscp: f"roce.dscp has as priority {roce.priority}"} if pfc is not None else {}
    for index, entry in enumerate(nic.dscp):
        if entry.dscp in taken:
            found = f"{entry.dscp}, which {taken[entry.dscp]}"
            yield Finding(("nic", "dscp", index, "dscp"), found, "every DSCP once")
        taken[entry.dscp] = f"entry {index} has"
    if nic.buffers and pfc is not None:
        yield from _buffers(topology, nic.buffers, pfc)


def _buffers(topology: Topology, buffers: PortBuffers, pfc: Pfc) -> Iterator[Finding]:
    """The buffer of lossless priorities must hold their headrooms and the bytes below XOFF."""
    lossless = next(found for found in headroom.thresholds(topology) if found.lossless)
    each = lossless.headroom + (lossless.xoff or topology.link.mtu + 14)
    for number, size in enumerate(buffers.sizes):
        needed = each * sum(buffers.of[priority] == number for priority in pfc.priorities)
        if units.parse_size(size) < needed:
            allowed = f"{needed}B or more: headroom and XOFF of its lossless priorities"
            yield Finding(("nic", "buffers", "sizes", number), size, allowed)


def _soft_switches(topology: Topology) -> Iterator[Finding]:
    """The soft switch has 64 ports at most: a bit of a word for each."""
    ports = topology.fabric.switch_ports
    if topology.lab.switch == "lossless" and ports > SOFT_SWITCH_PORTS:
        allowed = f"at most {SOFT_SWITCH_PORTS} ports in a switch, or lab.switch: bridge"
        yield Finding(("fabric",), f"a switch with {ports} ports", allowed)
