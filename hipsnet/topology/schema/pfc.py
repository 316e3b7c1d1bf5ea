# SPDX-License-Identifier: Apache-2.0
"""`pfc`: lossless priorities, their thresholds, and the watchdog over them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipsnet import units
from hipsnet.topology.schema.section import Delay, Priority, Section, Size


class Watchdog(Section):
    """When a port that is paused for ever is cut loose."""

    detect_ms: int = Field(default=200, ge=100, le=5000, description="paused without a packet sent, ms")
    restore_ms: int = Field(default=200, ge=100, le=60000, description="quiet time before it is restored, ms")
    action: Literal["drop", "forward", "alert"] = "drop"


class Pfc(Section):
    """Priority flow control (IEEE 802.1Qbb): which priorities are lossless, and their thresholds."""

    priorities: tuple[Priority, ...] = Field(default=(3,), min_length=1, max_length=8)
    routes: Literal["neighbours", "fixed", "disjoint"] = Field(
        default="neighbours",
        description="ways of lossless traffic: one hop only (HiPS itself), the identity routes, every path",
    )
    cable_m: float = Field(
        default=3, ge=0, le=100_000, description="cable length in metres, for the headroom"
    )
    xoff: Size | None = Field(default=None, description="queue length that sends XOFF; derived unless given")
    xon: Size | None = Field(default=None, description="queue length that sends XON; derived unless given")
    headroom: Size | None = Field(default=None, description="room above XOFF; derived unless given")
    phy: Literal["fibre", "twinax", "base-t"] = Field(
        default="fibre", description="what the cable is, for the headroom; a base-t PHY takes its time"
    )
    response: Delay | None = Field(
        default=None,
        description="how long a peer may go on after PFC; unless given IEEE 802.3 31B.3.7's, in the lab 5ms",
    )
    cell: Size = Field(default="1B", description="piece in which the buffer is given out", examples=["96B"])
    buffer: Size | None = Field(
        default=None, description="receive buffer of a port; if given, headroom and XOFF have to fit into it"
    )
    delay: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="delay that a host's NIC is told with PFC: bit times; mlx5 takes metres of cable",
    )
    required: bool = Field(
        default=False, description="on hosts: a NIC that lacks what is asked for is an error, not a remark"
    )
    alpha: float = Field(
        default=1, gt=0, le=128, description="share of the free shared buffer that one queue may take"
    )
    watchdog: Watchdog | None = Field(default=None, description="left out: there is none")

    @property
    def response_us(self) -> int | None:
        """The given response time in microseconds."""
        return units.parse_delay(self.response) if self.response else None
