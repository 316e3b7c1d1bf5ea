# SPDX-License-Identifier: Apache-2.0
"""The cables of the lab, veth pairs between namespaces: plan, make and remove them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hipsnet.node import namespace
from hipsnet.node.actual import Actual
from hipsnet.node.context import Context
from hipsnet.node.desired import MAC_MARK
from hipsnet.topology import Fabric, Link, Port
from orchestrator.lab.namespaces import namespace_name


@dataclass(frozen=True)
class CablePlan:
    """`remove` are (node, interface) ends, removed together with their peers; `add` are cables to make."""

    remove: tuple[tuple[str, str], ...]
    add: tuple[Link, ...]


def alias_of(fabric: str, link: Link) -> str:
    """The alias of both ends of a complete cable."""
    return f"hipsnet {fabric} {link.name}"


def plan_cables(fabric: Fabric, actual: Mapping[str, Actual]) -> CablePlan:
    """Compare the cables of a fabric with the veth ends found in its namespaces (missing ones left out)."""
    ends = {(node, name) for node, found in actual.items() for name in _our_ends(found)}
    right: set[tuple[str, str]] = set()
    add = []
    for link in fabric.links:
        if _is_whole(fabric.name, link, actual):
            right |= {(link.a.node, link.a.name), (link.b.node, link.b.name)}
        else:
            add.append(link)
    return CablePlan(tuple(sorted(ends - right)), tuple(add))


def _our_ends(found: Actual) -> Iterator[str]:
    for link in found.links.values():
        if link.kind == "veth" and link.mac.startswith(MAC_MARK):
            yield link.name


def _is_whole(fabric: str, link: Link, actual: Mapping[str, Actual]) -> bool:
    """Whether both ends exist, are peers, and have their aliases: a run may end between making and naming."""
    ends = [
        actual[port.node].links.get(port.name) if port.node in actual else None for port in (link.a, link.b)
    ]
    a, b = ends
    if a is None or b is None:
        return False
    return (a.peer_index, b.peer_index) == (b.index, a.index) and a.alias == b.alias == alias_of(fabric, link)


def remove_end(context: Context, name: str) -> None:
    """Remove the veth pair of this interface; no error if it does not exist."""
    found = context.netlink.get_link(name)
    if found is not None:
        context.netlink.link("del", index=found["index"])


def make(context: Context, fabric: str, links: Iterable[Link], mtu: int) -> Iterator[Link]:
    """Make the cables that have their a-end in this open node; yields each when it is made.

    Each pair is created in its two namespaces with its MACs, so no end is visible elsewhere or without our mark.
    """
    for link in links:
        with namespace.handle(namespace_name(fabric, link.b.node)) as far:
            peer = _end(link.b, mtu) | {"net_ns_fd": far}
            context.netlink.link("add", kind="veth", peer=peer, **_end(link.a, mtu))
        yield link


def name_ends(context: Context, fabric: str, ports: Iterable[tuple[str, Link]]) -> None:
    """Set the aliases of these (interface, cable) pairs, which mark the cables as complete."""
    for name, link in ports:
        context.netlink.link("set", ifname=name, ifalias=alias_of(fabric, link))


def _end(port: Port, mtu: int) -> dict[str, Any]:
    # One queue per direction: a receiver needs as many as its peer has for sending, and the shaper has one.
    return {"ifname": port.name, "address": port.mac, "mtu": mtu, "num_tx_queues": 1, "num_rx_queues": 1}
