# SPDX-License-Identifier: Apache-2.0
"""Addresses from digits: each digit has its own bits, so that a prefix names leading digits.

Correcting one digit after the other is then a longest-prefix match: the longest prefix of the destination
that a route of a node names ends at the first digit that differs from the node's, and the route leads to the
neighbour in which this digit is correct.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import TYPE_CHECKING

from hipsnet.topology.fabric import NextHop, Port, Route

if TYPE_CHECKING:
    from hipsnet.topology.schema import Topology

SUBNET_BITS = 16


def bits(values: int) -> int:
    """Bits that hold the numbers 0 .. values - 1."""
    return (values - 1).bit_length()


@dataclass(frozen=True)
class Plan:
    """Addresses out of `base`: digits of `sizes` values, the most significant first, then `tail` bits."""

    base: IPv4Network
    sizes: tuple[int, ...]
    tail: int = 0

    @property
    def width(self) -> int:
        """Bits in use, at the right end of the address."""
        return sum(map(bits, self.sizes)) + self.tail

    def address(self, digits: Sequence[int], tail: int = 0) -> IPv4Address:
        """Return the address of all the digits."""
        return IPv4Address(self._value(digits) | tail)

    def prefix(self, digits: Sequence[int]) -> IPv4Network:
        """Return the prefix of every address that begins with these digits."""
        length = 32 - self.width + sum(bits(size) for size in self.sizes[: len(digits)])
        return IPv4Network((self._value(digits), length))

    def _value(self, digits: Sequence[int]) -> int:
        value, shift = int(self.base.network_address), self.width
        for digit, size in zip(digits, self.sizes, strict=False):
            shift -= bits(size)
            value |= digit << shift
        return value


@dataclass(frozen=True)
class Numbering:
    """Names and addresses of one fabric: a /16 for each level of cables, the identities' prefix, and MACs.

    `mac(node, index)` has to be called once per port, in order.
    """

    fabric: str
    subnets: tuple[IPv4Network, ...]
    identities: IPv4Network
    mac: Callable[[str, int], str]


def numbering(topology: Topology) -> Numbering:
    """Return the names and addresses that a topology gives to its fabric."""
    addresses, levels = topology.addresses, len(topology.fabric.cable_levels)
    subnets = itertools.islice(addresses.ports.subnets(new_prefix=SUBNET_BITS), levels)
    return Numbering(topology.name, tuple(subnets), addresses.identity, mac_source(topology))


def correcting_routes(
    plan: Plan, order: Sequence[int], own: Sequence[int], step: Callable[[int, int], NextHop]
) -> Iterator[Route]:
    """Yield the routes that correct the plan's digits, which are `order`, at a node whose digits are `own`.

    `step(digit, value)` is the next hop towards the nodes that have `value` in this digit.
    """
    for position, digit in enumerate(order):
        right = [own[before] for before in order[:position]]
        for value in range(plan.sizes[position]):
            if value != own[digit]:
                yield Route(plan.prefix([*right, value]), (step(digit, value),))


def digits_of(rank: int, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the rank's digits, digit 0 (the least significant) first."""
    digits = []
    for radix in dims:
        rank, digit = divmod(rank, radix)
        digits.append(digit)
    return tuple(digits)


def rank_of(digits: Sequence[int], dims: Sequence[int]) -> int:
    """Return the rank of these digits, digit 0 first."""
    rank = 0
    for digit, radix in zip(reversed(digits), reversed(dims), strict=True):
        rank = rank * radix + digit
    return rank


def digits_text(digits: Sequence[int], dims: Sequence[int]) -> str:
    """Return the digits as text for a name: the highest first, each as wide as its largest value."""
    return "".join(
        f"{digit:0{len(str(radix - 1))}d}"
        for digit, radix in zip(reversed(digits), reversed(dims), strict=True)
    )


def server_name(digits: Sequence[int], dims: Sequence[int]) -> str:
    """Return a server's name."""
    return "s" + digits_text(digits, dims)


def address_of(port: Port) -> IPv4Address:
    """Return the address of a port that has one."""
    assert port.address is not None
    return port.address.ip


def mac_source(topology: Topology) -> Callable[[str, int], str]:
    """Return the function that gives the port (node, index) its MAC address; call it once per port, in order.

    02:48 marks an address as locally administered by hipsnet; 16 bits of a hash of the fabric's name
    distinguish fabrics, 16 bits number the ports. A MAC address in the file takes precedence.
    """
    running = itertools.count()
    mark = bytes((0x02, 0x48)) + hashlib.sha256(topology.name.encode()).digest()[:2]
    hosts = {} if topology.nodes == "lab" else topology.nodes

    def mac(node: str, index: int) -> str:
        number = next(running)
        if node in hosts and (given := hosts[node].ports[index].mac):
            return given
        return (mark + number.to_bytes(2, "big")).hex(":")

    return mac
