# SPDX-License-Identifier: Apache-2.0
"""What one node must look like: data only, the same for lab namespaces and real hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Literal

from hipsnet.node.watchdog import Watchdog

PROTOCOL = 72
"""rtnetlink protocol number on the addresses, routes and neighbours that hipsnet makes (72 = 'H')."""

MAC_MARK = "02:48:"
"""How the MAC of every lab port begins: a veth that carries it was made by hipsnet."""

TX_CHECKSUM, GRO = "tx-checksum", "gro"
"""Device features that are switched."""

LinkKind = Literal["cable", "card", "bridge", "loopback"]
Program = Literal["forward", "cable", "switched"]


@dataclass(frozen=True)
class Setting:
    """A setting of a card's driver, in words: see hipsnet.node.nic.

    A driver that does not have it is an error if it is `required`, not worth a word if it is `optional`.
    """

    name: str
    value: str
    required: bool = False
    optional: bool = False


@dataclass(frozen=True)
class LinkConfig:
    """One interface of a node.

    `kind` is "cable" (a veth that the lab makes), "card" (a NIC that is there already), "bridge" (made here)
    or "loopback". `port` is the index of the node's port, None where the interface is no port. None stands
    for "whatever it has" in `mac`, `mtu` and `alias`. `rate_bps` None is unlimited; a link that is not
    `shaped` keeps its own queueing discipline. `program` is the XDP program of its ports (see
    `runs`). `offloads` are the device features that are on (True) or off, by name (see `features`).
    `rxe` is the name of the RDMA device in software that hipsnet adds to it. `settings` are those of a card's
    driver.
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
        """The program that has to be attached now: the cable's only while the cable has a fault to act out.

        XDP on a veth copies every frame that comes from the kernel's own stack.
        """
        return self.program if self.program != "cable" or self.delay_us or self.loss_ppm else None

    @property
    def features(self) -> tuple[tuple[str, bool], ...]:
        """The offloads that have to hold now: a delay line takes frames as they are, so they must be finished."""
        return tuple((name, on and not (self.delay_us and name == TX_CHECKSUM)) for name, on in self.offloads)


@dataclass(frozen=True)
class RouteConfig:
    """A kernel route: `hops` are (interface, next hop) pairs, several of them share the load.

    The next hop of what is on the link itself is None. `window` is how many segments of a TCP connection may be
    under way at first; None is the kernel's own number.
    """

    prefix: IPv4Network
    hops: tuple[tuple[str, IPv4Address | None], ...]
    window: int | None = None


@dataclass(frozen=True)
class PolicyConfig:
    """What is sent from an address of a link has routes of its own, all by that link."""

    link: str
    source: IPv4Address
    routes: tuple[RouteConfig, ...]


@dataclass(frozen=True)
class NeighbourConfig:
    """A permanent neighbour; `mac` None is still to be found out by ARP (hosts only)."""

    link: str
    address: IPv4Address
    mac: str | None


@dataclass(frozen=True)
class TableEntry:
    """An entry of the XDP forwarding table: `port` None is up the stack, else out of that port to `mac`.

    A `mac` of None is not known yet: such frames go up the stack, which finds it out. It is that of `via`, the
    neighbour, which the kernel's table does not hold.
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
