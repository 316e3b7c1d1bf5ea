# SPDX-License-Identifier: Apache-2.0
"""The actual state of one node, as read from the kernel: data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from hipsnet.node.desired import NeighbourConfig, PolicyConfig, RouteConfig, TableEntry


@dataclass(frozen=True)
class ActualLink:
    """One interface as it is.

    `peer_index` is the ifindex of a veth's other end, in the other end's namespace. `segments_bytes` is
    None where the kernel has no such limit (see hipsnet.node.big_tcp). `qdisc` is the kind of
    the root queueing discipline; `rate_bps`, the limit of its queue `queue_bytes`, and `delay_us` are those of
    ours, if it is ours.
    `ring_bytes` is the size of the ring that delays incoming frames (see hipsnet.node.delay), 0 without one.
    `program_id` is the id of the attached XDP program; `offloads` and `settings` hold the requested ones that
    exist.
    """

    index: int
    name: str
    mac: str
    mtu: int
    up: bool
    carrier: bool
    alias: str | None = None
    kind: str | None = None
    master: str | None = None
    peer_index: int | None = None
    segments_bytes: int | None = None
    qdisc: str = "noqueue"
    rate_bps: int | None = None
    queue_bytes: int | None = None
    delay_us: int = 0
    ring_bytes: int = 0
    loss_ppm: int = 0
    offloads: tuple[tuple[str, bool], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    program_id: int | None = None
    addresses: frozenset[IPv4Interface] = frozenset()
    foreign_addresses: frozenset[IPv4Interface] = frozenset()


@dataclass(frozen=True)
class Actual:
    """A node as it is: the objects that hipsnet created, and foreign ones that could be in the way.

    `table` is None without a forwarding table; `sysctls` and `program_differences` are None for a node that does
    not exist. `rxe` has the software RDMA devices that hipsnet added with the interface of each, `foreign_rxe`
    the others.
    """

    links: dict[str, ActualLink] = field(default_factory=dict)
    routes: frozenset[RouteConfig] = frozenset()
    foreign_routes: frozenset[IPv4Network] = frozenset()
    neighbours: frozenset[NeighbourConfig] = frozenset()
    resolved: dict[tuple[str, IPv4Address], str] = field(default_factory=dict)
    sysctls: dict[str, str] | None = None
    table: frozenset[TableEntry] | None = None
    policies: frozenset[PolicyConfig] = frozenset()
    program_differences: tuple[str, ...] | None = None
    rxe: dict[str, str] = field(default_factory=dict)
    foreign_rxe: dict[str, str] = field(default_factory=dict)
