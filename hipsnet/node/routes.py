# SPDX-License-Identifier: Apache-2.0
"""Kernel routes of a node, single and shared over several next hops."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import PROTOCOL, NodeConfig, RouteConfig
from hipsnet.node.netlink import get_attrs

_MAIN_TABLE = 254
_KERNEL_PROTOCOL = 2
_ON_LINK = 253


def read(context: Context) -> tuple[frozenset[RouteConfig], frozenset[IPv4Network]]:
    """Routes of the main table: those that hipsnet added, and the prefixes of the others."""
    ours, foreign = set(), set()
    names = {index: name for name, index in context.indexes.items()}
    for message in context.netlink.get_routes(family=socket.AF_INET, table=_MAIN_TABLE):
        if message["proto"] == PROTOCOL:
            ours.add(parse(message, names))
        elif message["proto"] != _KERNEL_PROTOCOL:
            foreign.add(_prefix(message, *get_attrs(message, "RTA_DST")))
    return frozenset(ours), frozenset(foreign)


def parse(message: Any, names: dict[int, str]) -> RouteConfig:
    """The route that a netlink message describes; `names` are the interfaces' by index."""
    destination, metrics, several, via, link = get_attrs(
        message, "RTA_DST", "RTA_METRICS", "RTA_MULTIPATH", "RTA_GATEWAY", "RTA_OIF"
    )
    ways = [(hop["oif"], *get_attrs(hop, "RTA_GATEWAY")) for hop in several or ()] or [(link, via)]
    hops = ((names.get(index, "?"), IPv4Address(gateway) if gateway else None) for index, gateway in ways)
    (window,) = get_attrs(metrics, "RTAX_INITCWND") if metrics else (None,)
    return RouteConfig(_prefix(message, destination), tuple(sorted(hops)), window)


def _prefix(message: Any, destination: str | None) -> IPv4Network:
    return IPv4Network((destination or "0.0.0.0", message["dst_len"]))


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Routes to remove, to change and to add; those over other links belong to other servers."""
    mine = {link.name for link in desired.links}
    have = {
        route.prefix: route for route in actual.routes if mine.intersection(link for link, _ in route.hops)
    }
    want = {route.prefix: route for route in desired.routes}
    for prefix in sorted(have.keys() - want.keys()):
        yield Change(desired.name, "route", "remove", str(prefix), text(have[prefix]), "", have[prefix])
    for prefix, route in want.items():
        if prefix not in have:
            yield Change(desired.name, "route", "add", str(prefix), "", text(route), route)
        elif replace(route, hops=tuple(sorted(route.hops))) != have[prefix]:
            before, after = text(have[prefix]), text(route)
            yield Change(desired.name, "route", "change", str(prefix), before, after, route)


def text(route: RouteConfig) -> str:
    """A route as text for the reader."""
    way = " + ".join(f"via {via} {link}" if via else f"on {link}" for link, via in route.hops)
    return f"{way}, first window {route.window}" if route.window else way


def apply(context: Context, change: Change) -> None:
    """Add, replace or remove one route. An on-link route replaces the one that the kernel adds with an address."""
    route: RouteConfig = change.value
    on_link = any(via is None for _, via in route.hops)
    if change.action == "remove":
        scope = {"scope": _ON_LINK} if on_link else {}
        context.netlink.route("del", dst=route.prefix, proto=PROTOCOL, table=_MAIN_TABLE, **scope)
        return
    verb = "replace" if on_link or change.action == "change" else "add"
    context.netlink.route(verb, table=_MAIN_TABLE, **request(context, route))


def request(context: Context, route: RouteConfig) -> dict[str, Any]:
    """The arguments of `Netlink.route` for this route, but for the table."""
    way: dict[str, Any] = {"dst": route.prefix, "proto": PROTOCOL}
    if len(route.hops) > 1:
        way["multipath"] = [
            {"oif": context.index(link), "attrs": [("RTA_GATEWAY", str(via))]} for link, via in route.hops
        ]
    else:
        ((link, via),) = route.hops
        way |= {"oif": context.index(link)} | ({"gateway": str(via)} if via else {"scope": _ON_LINK})
    if route.window:
        way["metrics"] = {"attrs": [("RTAX_INITCWND", route.window)]}
    return way
