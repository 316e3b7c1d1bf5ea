# SPDX-License-Identifier: Apache-2.0
"""The desired state of one node: data only, the same for lab namespaces and real hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Literal

from hipsnet.node.watchdog import Watchdog

PROTOCOL = 72
"""rtnetlink protocol number of the addresses, routes and neighbours that hipsnet creates (72 = 'H')."""

MAC_MARK = "02:48:"
"""Prefix of the MAC of every lab port: hipsnet created each veth that has it."""

TX_CHECKSUM, GRO = "tx-checksum", "gro"
"""Device features that hipsnet switches on or off."""

LinkKind = Literal["cable", "card", "bridge", "loopback"]
Program = Literal["forward", "cable", "switched"]


@dataclass(frozen=True)
class Setting:
    """A setting of a card's driver, as text: see hipsnet.node.nic.

    A driver without it is an error if it is `required`, and is not reported if it is `optional`.
    """

    name: str
    value: str
    required: bool = False
    optional: bool = False


@dataclass(frozen=True)
class LinkConfig:
    """One interface of a node.

    `kind` is "cable" (a veth of the lab), "card" (an existing NIC), "bridge" (created by hipsnet) or "loopback".
    `port` is the index of the node's port, None for an interface that is no port. None in `mac`, `mtu` and
    `alias` means any value. `rate_bps` None is unlimited; a link that is not `shaped` keeps its own queueing
    discipline. `program` is the XDP program of its ports (see `runs`). `offloads` are the device features that
    are on (True) or off, by name (see `features`). `rxe` is the name of the software RDMA device that hipsnet
    adds to it. `settings` are those of a card's driver.
    """

    name: str
    kind: LinkKind
    port: int | None = None
    mac: str | None = None
    mtu: int | None = None
    alias: str | None = None
    master: str | None = None
    shaped: bool = False
    rate_bps: int | None = None
    delay_us: int = 0
    loss_ppm: int = 0
    offloads: tuple[tuple[str, bool], ...] = ()
    program: Program | None = None
    addresses: tuple[IPv4Interface, ...] = ()
    rxe: str | None = None
    settings: tuple[Setting, ...] = ()

    @property
    def runs(self) -> Program | None:
        """The program that has to be attached: a cable's only while the cable has a delay or a loss.

        XDP on a veth copies every frame that comes from the kernel's own stack.
        """
        return self.program if self.program != "cable" or self.delay_us or self.loss_ppm else None

    @property
    def features(self) -> tuple[tuple[str, bool], ...]:
        """The offloads to set: a delay line reads frames as they are, so they need their checksum."""
        return tuple((name, on and not (self.delay_us and name == TX_CHECKSUM)) for name, on in self.offloads)


@dataclass(frozen=True)
class RouteConfig:
    """A kernel route: `hops` are (interface, next hop) pairs; several hops share the load.

    The next hop of an on-link destination is None. `window` is the initial congestion window of a TCP connection
    in segments; None is the kernel's default.
    """

    prefix: IPv4Network
    hops: tuple[tuple[str, IPv4Address | None], ...]
    window: int | None = None


@dataclass(frozen=True)
class PolicyConfig:
    """Routes of packets that are sent from an address of a link: all by that link."""

    link: str
    source: IPv4Address
    routes: tuple[RouteConfig, ...]


@dataclass(frozen=True)
class NeighbourConfig:
    """A permanent neighbour; `mac` None has to be resolved by ARP (hosts only)."""

    link: str
    address: IPv4Address
    mac: str | None


@dataclass(frozen=True)
class TableEntry:
    """An entry of the XDP forwarding table: `port` None is up the stack, else out of that port to `mac`.

    A `mac` of None is not known yet: such frames go up the stack, which resolves it. It belongs to the neighbour
    `via`, which the program's table does not contain.
    """

    prefix: IPv4Network
    port: int | None = None
    mac: str | None = None
    via: IPv4Address | None = field(default=None, compare=False)


@dataclass(frozen=True)
class NodeConfig:
    """The desired state of one node.

    `sysctls` maps paths under /proc/sys to values. `watchdog` is over the frames that its program forwards, None
    for none; `priorities` are those of each DSCP, empty for a node without a forwarding program.
    """

    fabric: str
    name: str
    links: tuple[LinkConfig, ...]
    routes: tuple[RouteConfig, ...] = ()
    neighbours: tuple[NeighbourConfig, ...] = ()
    sysctls: dict[str, str] = field(default_factory=dict)
    table: tuple[TableEntry, ...] = ()
    policies: tuple[PolicyConfig, ...] = ()
    watchdog: Watchdog | None = None
    priorities: tuple[int, ...] = ()

    @property
    def ports(self) -> tuple[LinkConfig, ...]:
        """The interfaces that are ports, by port index."""
        return tuple(
            sorted((link for link in self.links if link.port is not None), key=lambda link: link.port or 0)
        )
