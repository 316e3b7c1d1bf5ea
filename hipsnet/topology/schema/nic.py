# SPDX-License-Identifier: Apache-2.0
"""`nic`: settings of the hosts' network cards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hipsnet.topology.schema.section import Priority, Rate, Section, Size

Ring = Annotated[int, Field(ge=16, le=65536)]
Usecs = Annotated[int, Field(ge=0, le=65535)]


class DscpPriority(Section):
    """The priority of what carries a DSCP."""

    dscp: int = Field(ge=0, le=63)
    priority: Priority


class TrafficClasses(Section):
    """Enhanced transmission selection (IEEE 802.1Qaz): how traffic classes share a port."""

    classes: tuple[Priority, ...] = Field(
        min_length=8, max_length=8, description="traffic class of priorities 0 to 7"
    )
    bandwidth: tuple[Annotated[int, Field(ge=0, le=100)], ...] = Field(
        default=(0,) * 8,
        min_length=8,
        max_length=8,
        description="percent of classes 0 to 7; 0 is served strictly, before the others",
    )


class PortBuffers(Section):
    """Receive buffers of a port, where the driver has them to set."""

    of: tuple[Priority, ...] = Field(min_length=8, max_length=8, description="buffer of priorities 0 to 7")
    sizes: tuple[Size, ...] = Field(min_length=8, max_length=8, description="sizes of buffers 0 to 7")


class Nic(Section):
    """Settings of the hosts' network cards; what is left out stays as it is."""

    pause: Literal["on", "off"] | None = Field(
        default=None, description="pause of the whole link (IEEE 802.3x); off with `pfc`"
    )
    rx_ring: Ring | None = Field(default=None, description="descriptors of a receive queue")
    tx_ring: Ring | None = Field(default=None, description="descriptors of a transmit queue")
    channels: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, description="pairs of queues")
    adaptive: bool | None = Field(default=None, description="the driver chooses when to interrupt")
    rx_usecs: Usecs | None = Field(default=None, description="wait before a receive interrupt, us")
    tx_usecs: Usecs | None = Field(default=None, description="wait before a transmit interrupt, us")
    dscp: tuple[DscpPriority, ...] = Field(
        default=(), max_length=64, description="priorities by DSCP beside that of `roce`"
    )
    ets: TrafficClasses | None = Field(default=None, description="how traffic classes share a port")
    max_rates: tuple[Rate, ...] | None = Field(
        default=None, min_length=8, max_length=8, description="the most that traffic classes 0 to 7 may send"
    )
    trust: tuple[Literal["dscp", "pcp"], ...] | None = Field(
        default=None,
        min_length=1,
        max_length=2,
        description="what a packet's priority is taken from, the first that it has",
    )
    dcbx: Literal["host"] | None = Field(
        default=None, description="`host`: the card's firmware stops speaking DCBX, so that settings stay"
    )
    buffers: PortBuffers | None = Field(default=None, description="receive buffers of a port")
    required: bool = Field(
        default=False, description="a card that lacks what is asked for is an error, not a remark"
    )
