"""Kernel routes of a node, single and shared over several next hops."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import PROTOCOL, NodeConfig, RouteConfig

_MAIN_TABLE = 254
_KERNEL_PROTOCOL = 2


def read(context: Context) -> tuple[frozenset[RouteConfig], frozenset[IPv4Network]]:
    """Routes of the main table: those that hipsnet made, and the prefixes of other people's."""
    ours, foreign = set(), set()
    names = {index: name for name, index in context.indexes.items()}
    for message in context.netlink.get_routes(family=socket.AF_INET, table=_MAIN_TABLE):
        prefix = IPv4Network((message.get("RTA_DST") or "0.0.0.0", message["dst_len"]))
        if message["proto"] == PROTOCOL:
            ours.add(RouteConfig(prefix, _hops(message, names)))
        elif message["proto"] != _KERNEL_PROTOCOL:
            foreign.add(prefix)
    return frozenset(ours), frozenset(foreign)


def _hops(message: Any, names: dict[int, str]) -> tuple[tuple[str, IPv4Address], ...]:
    several = message.get("RTA_MULTIPATH")
    if several:
        pairs = [(names.get(hop["oif"], "?"), IPv4Address(hop.get("RTA_GATEWAY"))) for hop in several]
    else:
        via = message.get("RTA_GATEWAY") or "0.0.0.0"
        pairs = [(names.get(message.get("RTA_OIF"), "?"), IPv4Address(via))]
    return tuple(sorted(pairs))


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Routes to remove, to change and to add; those over other links than the node's are another server's."""
    mine = {link.name for link in desired.links}
    have = {
        route.prefix: route for route in actual.routes if mine.intersection(link for link, _ in route.hops)
    }
    want = {route.prefix: route for route in desired.routes}
    for prefix in sorted(have.keys() - want.keys()):
        yield Change(desired.name, "route", "remove", str(prefix), _text(have[prefix]), "", have[prefix])
    for prefix, route in want.items():
        if prefix not in have:
            yield Change(desired.name, "route", "add", str(prefix), "", _text(route), route)
        elif tuple(sorted(route.hops)) != have[prefix].hops:
            before, after = _text(have[prefix]), _text(route)
            yield Change(desired.name, "route", "change", str(prefix), before, after, route)


def _text(route: RouteConfig) -> str:
    return " + ".join(f"via {via} {link}" for link, via in sorted(route.hops))


def apply(context: Context, change: Change) -> None:
    """Add, replace or remove one route."""
    route: RouteConfig = change.value
    verb = {"add": "add", "change": "replace", "remove": "del"}[change.action]
    request: dict[str, Any] = {"dst": str(route.prefix), "proto": PROTOCOL, "table": _MAIN_TABLE}
    hops = [{"gateway": str(via), "oif": context.index(link)} for link, via in route.hops]
    if change.action != "remove":
        request |= {"multipath": hops} if len(hops) > 1 else hops[0]
    context.netlink.route(verb, **request)
