# SPDX-License-Identifier: Apache-2.0
"""Interfaces: creates bridges, and sets the MTU, alias, bridge and state of every link."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP

from hipsnet.node import big_tcp
from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import LinkConfig, NodeConfig
from hipsnet.node.netlink import get_attrs

_POLL_S = 0.01


def read(context: Context) -> dict[str, ActualLink]:
    """All interfaces of the node by name; fields of other aspects are left at their defaults."""
    messages = context.netlink.get_links()
    names = {message["index"]: get_attrs(message, "IFLA_IFNAME")[0] for message in messages}
    context.indexes.clear()
    context.indexes.update({name: index for index, name in names.items()})
    return {names[message["index"]]: _read_one(message, names) for message in messages}


def _read_one(message: Any, names: dict[int, str]) -> ActualLink:
    mac, mtu, carrier, alias, info, master, peer, qdisc, xdp = get_attrs(
        message, "IFLA_ADDRESS", "IFLA_MTU", "IFLA_CARRIER", "IFLA_IFALIAS", "IFLA_LINKINFO", "IFLA_MASTER",
        "IFLA_LINK", "IFLA_QDISC", "IFLA_XDP",
    )  # fmt: skip
    return ActualLink(
        index=message["index"],
        name=names[message["index"]],
        mac=mac or "",
        mtu=mtu,
        segments_bytes=big_tcp.read(message),
        up=bool(message["flags"] & IFF_UP),
        carrier=bool(carrier),
        alias=alias,
        kind=get_attrs(info, "IFLA_INFO_KIND")[0] if info else None,
        master=names.get(master),
        peer_index=peer,
        qdisc=qdisc or "noqueue",
        program_id=get_attrs(xdp, "IFLA_XDP_PROG_ID")[0] if xdp else None,
    )


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Bridges to create, and properties of links to set; `activations` has the links to bring up."""
    for link in desired.links:
        now = actual.links.get(link.name)
        if link.kind == "bridge" and now is None:
            yield Change(desired.name, "link", "add", link.name, "", "bridge", link)
        for key, value in _properties(link, now).items():
            before = getattr(now, key) if now else None
            if value is not None and (before or "") != value:
                yield _property(desired.name, link, key, before, value)


def _properties(link: LinkConfig, now: ActualLink | None) -> dict[str, object]:
    settings: dict[str, object] = {
        "mac": link.mac,
        "mtu": link.mtu,
        "alias": link.alias,
        "master": link.master,
    }
    if link.kind == "cable" and (now is None or now.segments_bytes is not None):
        settings["segments_bytes"] = big_tcp.segments_bytes(link.rate_bps, link.mtu or 1500)
    return settings


def _property(node: str, link: LinkConfig, key: str, before: object, value: object) -> Change:
    action: Any = "add" if before is None else "change"
    return Change(
        node, "link", action, f"{link.name} {key}", str(before or ""), str(value), (link.name, key, value)
    )


def activations(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Links to bring up: the last step of a link, after its program and addresses."""
    for link in desired.links:
        now = actual.links.get(link.name)
        if now is None or not now.up:
            before = "" if now is None else "down"
            yield Change(
                desired.name, "state", "add" if now is None else "change", link.name, before, "up", link
            )


def without_carrier(context: Context, names: Iterable[str], timeout_s: float) -> tuple[str, ...]:
    """Wait until these links carry frames; returns those that do not after `timeout_s`.

    The kernel takes up to a second to process a new carrier (net/core/link_watch.c): until then a bridge drops
    incoming frames. A request for a single link makes it process the carrier at once (linkwatch_sync_dev in
    rtnl_getlink).
    """
    deadline = time.monotonic() + timeout_s
    while True:
        waiting = tuple(name for name in names if not _is_operational(context, name))
        if not waiting or time.monotonic() > deadline:
            return waiting
        names = waiting
        time.sleep(_POLL_S)


def _is_operational(context: Context, name: str) -> bool:
    link = context.netlink.get_link(name)
    return link is not None and get_attrs(link, "IFLA_OPERSTATE") == ("UP",)


def apply(context: Context, change: Change) -> None:
    """Create a bridge, or set one property of a link."""
    if isinstance(change.value, LinkConfig):
        # No spanning tree and no snooping: a switch group has no loops, and frames must pass at once.
        context.netlink.link(
            "add", ifname=change.value.name, kind="bridge", br_stp_state=0, br_mcast_snooping=0
        )
        return
    link, key, value = change.value
    settings: dict[str, Any]
    if key == "segments_bytes":
        settings = big_tcp.setting(value)
    else:
        keyword = {"mac": "address", "mtu": "mtu", "alias": "ifalias", "master": "master"}[key]
        settings = {keyword: context.index(value) if key == "master" else value}
    context.netlink.link("set", index=context.index(link), **settings)


def activate(context: Context, change: Change) -> None:
    """Bring one link up."""
    context.netlink.link("set", index=context.index(change.subject), state="up")
