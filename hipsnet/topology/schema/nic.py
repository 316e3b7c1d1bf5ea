# SPDX-License-Identifier: Apache-2.0
"""`nic`: settings of the hosts' network cards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hipsnet.topology.schema.section import Priority, Rate, Section, Size

Ring = Annotated[int, Field(ge=16, le=65536)]
Usecs = Annotated[int, Field(ge=0, le=65535)]


class DscpPriority(Section):
    """The priority of packets with a DSCP."""

    dscp: int = Field(ge=0, le=63, description="DSCP")
    priority: Priority = Field(description="its priority")


class TrafficClasses(Section):
    """Enhanced transmission selection (IEEE 802.1Qaz): how traffic classes share a port."""

    classes: tuple[Priority, ...] = Field(
        min_length=8, max_length=8, description="traffic class of priorities 0 to 7"
    )
    bandwidth: tuple[Annotated[int, Field(ge=0, le=100)], ...] = Field(
        default=(0,) * 8,
        min_length=8,
        max_length=8,
        description="bandwidth of classes 0 to 7 in percent; 0: strict priority",
    )


class PortBuffers(Section):
    """Receive buffers of a port, where the driver can set them."""

    of: tuple[Priority, ...] = Field(min_length=8, max_length=8, description="buffer of priorities 0 to 7")
    sizes: tuple[Size, ...] = Field(min_length=8, max_length=8, description="sizes of buffers 0 to 7")


class Nic(Section):
    """Settings of the hosts' NICs; a key that is left out changes nothing."""

    pause: Literal["on", "off"] | None = Field(
        default=None, description="link-wide pause (IEEE 802.3x); off with `pfc`"
    )
    rx_ring: Ring | None = Field(default=None, description="descriptors of a receive queue")
    tx_ring: Ring | None = Field(default=None, description="descriptors of a transmit queue")
    channels: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="pairs of receive and transmit queues"
    )
    adaptive: bool | None = Field(default=None, description="adaptive interrupt moderation")
    rx_usecs: Usecs | None = Field(default=None, description="delay of a receive interrupt, us")
    tx_usecs: Usecs | None = Field(default=None, description="delay of a transmit interrupt, us")
    dscp: tuple[DscpPriority, ...] = Field(
        default=(), max_length=64, description="priorities of DSCPs, besides that of `roce`"
    )
    ets: TrafficClasses | None = Field(default=None, description="how traffic classes share a port")
    max_rates: tuple[Rate, ...] | None = Field(
        default=None, min_length=8, max_length=8, description="rate limits of traffic classes 0 to 7"
    )
    trust: tuple[Literal["dscp", "pcp"], ...] | None = Field(
        default=None,
        min_length=1,
        max_length=2,
        description="fields that give a packet's priority, in order of precedence",
    )
    dcbx: Literal["host"] | None = Field(
        default=None,
        description="`host`: disable DCBX in the NIC's firmware, so that it does not change the settings",
    )
    buffers: PortBuffers | None = Field(default=None, description="receive buffers of a port")
    required: bool = Field(
        default=False, description="fail if a NIC lacks a setting, instead of reporting it"
    )
