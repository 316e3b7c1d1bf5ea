# SPDX-License-Identifier: Apache-2.0
"""Permanent neighbours: the MAC of every directly connected address, so that no packet waits for ARP."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import PROTOCOL, NeighbourConfig, NodeConfig
from hipsnet.node.netlink import get_attrs

_PERMANENT = 0x80
_USE = 0x01  # NTF_USE: as if a packet had to be sent there
_POLL_S = 0.05
_VALID = 0x80 | 0x40 | 0x02 | 0x04 | 0x10 | 0x08
"""States with a valid MAC: permanent, noarp, reachable, stale, probe, delay."""

Resolved = dict[tuple[str, IPv4Address], str]


def read(context: Context) -> tuple[frozenset[NeighbourConfig], Resolved]:
    """Neighbours that hipsnet added, and all valid MACs of the kernel."""
    names = {index: name for name, index in context.indexes.items()}
    ours: set[NeighbourConfig] = set()
    resolved: Resolved = {}
    for message in context.netlink.get_neighbours(family=socket.AF_INET):
        destination, mac, protocol = get_attrs(message, "NDA_DST", "NDA_LLADDR", "NDA_PROTOCOL")
        link = names.get(message["ifindex"])
        if mac is None or link is None:
            continue
        address = IPv4Address(destination)
        if protocol == PROTOCOL and message["state"] & _PERMANENT:
            ours.add(NeighbourConfig(link, address, mac))
        if message["state"] & _VALID:
            resolved[link, address] = mac
    return frozenset(ours), resolved


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Neighbours to remove, to change and to add; one whose MAC is not known yet is no difference.

    Those on other links belong to other servers of this host.
    """
    mine = {link.name for link in desired.links}
    have = {(entry.link, entry.address): entry for entry in actual.neighbours if entry.link in mine}
    want = {(entry.link, entry.address): entry for entry in desired.neighbours}
    for key in sorted(have.keys() - want.keys()):
        yield _change(desired.name, "remove", have[key], have[key].mac or "", "")
    for key, entry in want.items():
        if entry.mac is None:
            continue
        if key not in have:
            yield _change(desired.name, "add", entry, "", entry.mac)
        elif have[key].mac != entry.mac:
            yield _change(desired.name, "change", entry, have[key].mac or "", entry.mac)


def _change(node: str, action: str, entry: NeighbourConfig, before: str, after: str) -> Change:
    return Change(node, "neighbour", action, f"{entry.address} on {entry.link}", before, after, entry)  # type: ignore[arg-type]


def apply(context: Context, change: Change) -> None:
    """Add, replace or remove one neighbour."""
    entry: NeighbourConfig = change.value
    index = context.index(entry.link)
    if change.action == "remove":
        context.netlink.neigh("del", dst=str(entry.address), ifindex=index)
        return
    context.netlink.neigh(
        "replace",
        dst=str(entry.address),
        lladdr=entry.mac,
        ifindex=index,
        state=_PERMANENT,
        protocol=PROTOCOL,
    )


def resolve(context: Context, entries: Iterable[tuple[str, IPv4Address]], timeout_s: float) -> None:
    """Let the kernel resolve (interface, address) by ARP; wait for the answers for up to `timeout_s`."""
    missing = set(entries)
    for link, address in missing:
        context.netlink.neigh("replace", dst=str(address), ifindex=context.index(link), state=0, flags=_USE)
    deadline = time.monotonic() + timeout_s
    while missing and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        missing -= read(context)[1].keys()
