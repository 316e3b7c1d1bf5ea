# SPDX-License-Identifier: Apache-2.0
"""Routing by source: packets sent from a port's address leave by that port, even if their route has several.

A connection that is bound to a port (RoCE's always is: its GID is that port's address) must not use the other
ports. Each such port has a routing table of its own, numbered by the interface's index, and a rule that directs
packets from its address there; destinations that the table lacks go by the main table.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.node import routes
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import PROTOCOL, NodeConfig, PolicyConfig
from hipsnet.node.netlink import get_attrs

_PRIORITY = 7200
_TABLES = PROTOCOL << 24
"""The first of hipsnet's tables; the interface's index is added."""


def read(context: Context) -> frozenset[PolicyConfig]:
    """hipsnet's rules in this namespace, with their tables; the link is "" if it no longer exists."""
    names = {index: name for name, index in context.indexes.items()}
    found = set()
    for message in context.netlink.get_rules(family=socket.AF_INET):
        protocol, priority, table, source = get_attrs(
            message, "FRA_PROTOCOL", "FRA_PRIORITY", "FRA_TABLE", "FRA_SRC"
        )
        if protocol != PROTOCOL or priority != _PRIORITY:
            continue
        ways = (
            routes.parse(way, names) for way in context.netlink.get_routes(family=socket.AF_INET, table=table)
        )
        own = tuple(sorted(ways, key=lambda route: route.prefix))
        found.add(PolicyConfig(names.get(table - _TABLES, ""), IPv4Address(source), own))
    return frozenset(found)


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Rules to remove, change and add; those of other links belong to other servers."""
    mine = {link.name for link in desired.links} | {""}
    have = {(found.link, found.source): found for found in actual.policies if found.link in mine}
    want = {(found.link, found.source): found for found in desired.policies}
    for key in sorted(have.keys() - want.keys()):
        yield Change(desired.name, "policy", "remove", f"from {key[1]}", _text(have[key]), "", have[key])
    for key, policy in want.items():
        if key not in have:
            yield Change(desired.name, "policy", "add", f"from {key[1]}", "", _text(policy), policy)
        elif have[key].routes != policy.routes:
            before, after = _text(have[key]), _text(policy)
            yield Change(desired.name, "policy", "change", f"from {key[1]}", before, after, policy)


def _text(policy: PolicyConfig) -> str:
    ways = ", ".join(f"{route.prefix} {routes.text(route)}" for route in policy.routes)
    return f"{policy.link or 'an interface that is gone'}: {ways or 'nothing'}"


def apply(context: Context, change: Change) -> None:
    """Write one table and its rule, or remove them."""
    policy: PolicyConfig = change.value
    _remove_rules(context, policy)
    if not policy.link:
        return
    table = _TABLES + context.index(policy.link)
    context.netlink.flush_routes(table=table, family=socket.AF_INET)
    if change.action == "remove":
        return
    for route in policy.routes:
        context.netlink.route("add", table=table, **routes.request(context, route))
    context.netlink.rule(
        "add",
        src=IPv4Network(policy.source),
        table=table,
        priority=_PRIORITY,
        protocol=PROTOCOL,
        iifname="lo",
    )


def _remove_rules(context: Context, policy: PolicyConfig) -> None:
    """Delete hipsnet's rules for an address, whatever their table."""
    while True:
        try:
            context.netlink.rule("del", src=IPv4Network(policy.source), priority=_PRIORITY, protocol=PROTOCOL)
        except NetlinkError as error:
            if error.code == errno.ENOENT:
                return
            raise
