# SPDX-License-Identifier: Apache-2.0
"""`link` and `addresses`: what every cable is like, and how its ends are numbered."""

from __future__ import annotations

from ipaddress import IPv4Network

from pydantic import Field

from hipsnet import units
from hipsnet.topology.schema.section import Delay, Rate, Section


class Cable(Section):
    """What every cable of the fabric is like."""

    rate: Rate = Field(default="500Mbit/s", description="rate of a port in each direction")
    mtu: int = Field(default=9000, ge=1280, le=9000, description="largest IP packet in bytes")
    delay: Delay = Field(default="0us", description="one-way delay that is added to a cable")

    @property
    def rate_bps(self) -> int | None:
        """Rate in bit/s; None is unlimited."""
        return units.parse_rate(self.rate)

    @property
    def delay_us(self) -> int:
        """One-way delay in microseconds."""
        return units.parse_delay(self.delay)


class Addresses(Section):
    """The base prefixes of what the fabric numbers."""

    ports: IPv4Network = Field(
        default=IPv4Network("10.0.0.0/8"),
        description="port addresses: one /16 per level (dimension, layer)",
        examples=["10.0.0.0/8", "172.16.0.0/12"],
    )
    identity: IPv4Network = Field(
        default=IPv4Network("10.255.0.0/16"),
        description="one /32 per server, on its loopback",
        examples=["10.255.0.0/16", "192.168.0.0/16"],
    )
