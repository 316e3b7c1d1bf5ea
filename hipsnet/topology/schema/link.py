# SPDX-License-Identifier: Apache-2.0
"""`link` and `addresses`: properties of all cables, and the prefixes of addresses."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, Field

from hipsnet import units
from hipsnet.topology.schema.section import Delay, Rate, Section


class Cable(Section):
    """Properties of every cable of the fabric."""

    rate: Rate = Field(default="500Mbit/s", description="rate of a port in each direction")
    mtu: int = Field(default=9000, ge=1280, le=9000, description="largest IP packet in bytes")
    delay: Delay = Field(default="0us", description="one-way delay added to a cable, at most 10s")

    @property
    def rate_bps(self) -> int | None:
        """Rate in bit/s; None is unlimited."""
        return units.parse_rate(self.rate)

    @property
    def delay_us(self) -> int:
        """One-way delay in microseconds."""
        return units.parse_delay(self.delay)


_NOT_UNICAST = {
    IPv4Network("0.0.0.0/8"): "addresses of no host",
    IPv4Network("127.0.0.0/8"): "the loopback",
    IPv4Network("169.254.0.0/16"): "link-local addresses",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved addresses",
}  # RFC 6890


def _unicast(prefix: IPv4Network) -> IPv4Network:
    for special, name in _NOT_UNICAST.items():
        if prefix.overlaps(special):
            raise ValueError(f"unicast only, but {special} is {name}")
    return prefix


Prefix = Annotated[IPv4Network, AfterValidator(_unicast)]


class Addresses(Section):
    """The base prefixes of the fabric's addresses."""

    ports: Prefix = Field(
        default=IPv4Network("10.0.0.0/8"),
        description="port addresses: one /16 per level (dimension, layer)",
        examples=["10.0.0.0/8", "172.16.0.0/12"],
    )
    identity: Prefix = Field(
        default=IPv4Network("10.255.0.0/16"),
        description="one /32 per server, on its loopback",
        examples=["10.255.0.0/16", "192.168.0.0/16"],
    )
