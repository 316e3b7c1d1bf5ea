# SPDX-License-Identifier: Apache-2.0
"""Fabric kinds: the base class that every kind in the registry implements.

An instance is the `fabric` section of a topology file: the kind's parameters, without names or addresses.
Everything outside hipsnet/topology/kinds asks this object and never compares `kind`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, ClassVar, Self, get_args

from hipsnet.topology.addressing import Numbering, Plan
from hipsnet.topology.diagram import Line
from hipsnet.topology.fabric import Fabric, Path, Port, Route, Server, Switch
from hipsnet.topology.picture import Drawing
from hipsnet.topology.schema.section import Section


@dataclass(frozen=True)
class HipsLevels:
    """The levels that HiPS works through.

    At level l a server exchanges with the servers whose digit l alone differs from its own. `ports[l][d]` is
    the index of the port that leads one hop to the server whose digit l is d higher (mod the radix);
    `ports[l][0]` is not used. `exchange` is the default exchange inside a level. `has_rings`: the servers of a
    level form a ring with a port in each direction, so that ring exchanges can use both.
    """

    exchange: str
    ports: tuple[tuple[int, ...], ...]
    has_rings: bool = False


@dataclass(frozen=True)
class Census:
    """What a fabric consists of, counted without building it.

    `bisection_cables`: cables between two halves of the servers (the larger half has at most one group of servers
    more), cut where the structure is weakest. `diameter_cables`: cables on a shortest way between the two servers
    that are farthest apart.
    """

    switches: int
    cables: int
    bisection_cables: int
    diameter_cables: int


class FabricKind(Section, ABC):
    """Parameters of a fabric, and everything that depends on its kind.

    The first line of a kind's docstring is the help of `hipsnet init KIND`, the fields are its options.
    """

    kind: str

    example: ClassVar[Mapping[str, Any]]
    """Parameters of a small fabric, for the documentation."""
    level_noun: ClassVar[str]
    """The noun for a level of cables, each of which has its own /16: level, dimension, layer."""
    port_noun: ClassVar[str] = "NIC"
    """The noun for a server's ports, numbered by `port_number`."""
    option_names: ClassVar[Mapping[str, str]] = {}
    """Options of `hipsnet init` whose names differ from their fields'."""
    no_hips: ClassVar[str] = "its servers have no levels of one-hop neighbours"
    """The reason why HiPS is not defined, where `hips` is None."""
    has_detours: ClassVar[bool] = False
    """Whether `paths` begins with hops that the route tables of the source would not take."""
    deadlock_note: ClassVar[str] = ""
    """The requirements of a fabric of this kind if its routes form a cycle."""

    @classmethod
    def kind_name(cls) -> str:
        """Return the value of `fabric.kind` in a topology file."""
        (name,) = get_args(cls.model_fields["kind"].annotation)
        return str(name)

    @classmethod
    def sample(cls) -> Self:
        """Return the shape of `example`."""
        return cls(kind=cls.kind_name(), **cls.example)

    # Numbers.

    @property
    @abstractmethod
    def title(self) -> str:
        """The kind with its parameters, as the literature writes it."""

    @property
    @abstractmethod
    def radices(self) -> tuple[int, ...]:
        """The number of values of each digit of a server, digit 0 (the fastest in rank order) first."""

    @property
    @abstractmethod
    def ports_per_server(self) -> int: ...

    @property
    @abstractmethod
    def switch_ports(self) -> int:
        """Ports of the largest switch; 0 without switches."""

    @property
    @abstractmethod
    def port_count(self) -> int:
        """Ports of all servers and switches together, or an upper bound."""

    @property
    @abstractmethod
    def cable_levels(self) -> tuple[str, ...]:
        """The name of each level of cables, in order of `Port.level`."""

    @property
    @abstractmethod
    def census(self) -> Census:
        """Switches, cables and distances."""

    @classmethod
    @abstractmethod
    def fitting(cls, servers: int, ports: int, switch_ports: int) -> Iterator[Self]:
        """Yield the shapes with so many servers, at most `ports` ports each, and such switches or smaller ones.

        Where a parameter is free, it is the smallest that does not slow the network down, or the largest that fits.
        """

    @property
    def is_nonblocking(self) -> bool:
        """Whether only the servers' own ports limit traffic, if it is spread evenly over ways of equal cost."""
        return False

    def misfit(self) -> str | None:
        """Return the contradiction between parameters, or None."""
        return None

    @abstractmethod
    def smaller(self) -> Iterator[Iterable[Self]]:
        """Yield series of ever smaller shapes, one series for each parameter that could be reduced."""

    def altered(self, **parameters: int) -> Self:
        """Return the shape with other values for some parameters."""
        return type(self)(**{**self.model_dump(), **parameters})

    def describe(self) -> str:
        """Name the parameters in an error message that proposes them."""
        return self.title

    # Addresses.

    @abstractmethod
    def port_plan(self, level: int, subnet: IPv4Network) -> Plan:
        """Return the plan of the port addresses of one level of cables."""

    def identity_plan(self, prefix: IPv4Network) -> Plan:
        """Return the plan of the identities: the digits, the highest first."""
        return Plan(prefix, self.radices[::-1])

    # The network.

    @abstractmethod
    def build(self, numbering: Numbering) -> Fabric:
        """Return the fabric."""

    @abstractmethod
    def routes(self, fabric: Fabric, node: Server | Switch) -> Iterator[Route]:
        """Yield the forwarding table of a server, or of a switch that routes."""

    @abstractmethod
    def paths(self, fabric: Fabric, source: Server, target: Server) -> Iterator[Path]:
        """Yield the paths between two servers, each with another port of the target as its destination."""

    @property
    def paths_are_disjoint(self) -> bool:
        """Whether `paths` share no node between their ends; otherwise there is one path per NIC."""
        return False

    def equal_ways(self, path: Path) -> int:
        """Return among how many ways of equal cost, this one included, switches choose by hash."""
        return 1

    # Collectives.

    @property
    def hips(self) -> HipsLevels | None:
        """The levels of HiPS; None where it is not defined, see `no_hips`."""
        return None

    @property
    def far_ports(self) -> tuple[int, ...]:
        """By a sender's port index: the port index by which the receiver is addressed."""
        return tuple(range(self.ports_per_server))

    def port_number(self, port: Port) -> int:
        """Return the number of a server's port that goes with `port_noun`."""
        return port.index

    # Pictures.

    @abstractmethod
    def draw(self, fabric: Fabric) -> Drawing:
        """Return the boxes, wires (in order of the fabric's links) and regions of the picture."""

    @abstractmethod
    def diagram(self, fabric: Fabric) -> Iterator[Line]:
        """Yield the lines of the text map of `hipsnet top`; every server port has a sign."""

    @property
    def diagram_legend(self) -> str:
        """The meanings of the two signs of the text map."""
        return "behind a name: is stopped, stops"
