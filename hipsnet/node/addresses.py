# SPDX-License-Identifier: Apache-2.0
"""IPv4 addresses of a node's interfaces."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator
from ipaddress import IPv4Interface

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import PROTOCOL, NodeConfig
from hipsnet.node.netlink import get_attrs

Addresses = dict[int, set[IPv4Interface]]


def read(context: Context) -> tuple[Addresses, Addresses]:
    """Addresses by ifindex: those that hipsnet added, and the others."""
    ours: Addresses = defaultdict(set)
    foreign: Addresses = defaultdict(set)
    for message in context.netlink.get_addr(family=socket.AF_INET):
        local, address, protocol = get_attrs(message, "IFA_LOCAL", "IFA_ADDRESS", "IFA_PROTO")
        owner = ours if protocol == PROTOCOL else foreign
        owner[message["index"]].add(IPv4Interface((local or address, message["prefixlen"])))
    return ours, foreign


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Addresses to add and, of those that hipsnet added, to remove. Removals first: an address may move."""
    missing = []
    for link in desired.links:
        now = actual.links.get(link.name)
        have = now.addresses if now else frozenset()
        foreign = now.foreign_addresses if now else frozenset()
        for address in sorted(have - set(link.addresses)):
            subject = f"{address} on {link.name}"
            yield Change(desired.name, "address", "remove", subject, value=(link.name, address))
        missing += [(link.name, address) for address in link.addresses if address not in have | foreign]
    for name, address in missing:
        yield Change(desired.name, "address", "add", f"{address} on {name}", value=(name, address))


def apply(context: Context, change: Change) -> None:
    """Add or remove one address."""
    link, address = change.value
    verb = "add" if change.action == "add" else "del"
    context.netlink.addr(
        verb,
        index=context.index(link),
        address=str(address.ip),
        prefixlen=address.network.prefixlen,
        proto=PROTOCOL,
    )
