# SPDX-License-Identifier: Apache-2.0
"""`pfc`: lossless priorities, their thresholds, and the watchdog over them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipsnet import units
from hipsnet.topology.schema.section import Delay, Priority, Section, Size


class Watchdog(Section):
    """When a priority that stays paused is treated as a storm, and what is done then."""

    detect_ms: int = Field(
        default=200, ge=100, le=5000, description="detect a storm after this time without a frame sent, ms"
    )
    restore_ms: int = Field(
        default=200, ge=100, le=60000, description="restore the priority after this time without a pause, ms"
    )
    action: Literal["drop", "forward", "alert"] = Field(
        default="drop",
        description="during a storm: drop the queue's frames, send them in spite of the pause, or only report",
    )


class Pfc(Section):
    """Priority flow control (IEEE 802.1Qbb): which priorities are lossless, and their thresholds."""

    priorities: tuple[Priority, ...] = Field(
        default=(3,),
        min_length=1,
        max_length=8,
        description="lossless priorities; must contain roce.priority",
    )
    routes: Literal["neighbours", "fixed", "disjoint"] = Field(
        default="neighbours",
        description="routes of lossless traffic: one hop (HiPS), the identity routes, or all disjoint paths",
    )
    cable_m: float = Field(
        default=3, ge=0, le=100_000, description="cable length in metres, for the headroom"
    )
    xoff: Size | None = Field(
        default=None, description="queue length at which XOFF is sent; default: derived"
    )
    xon: Size | None = Field(default=None, description="queue length at which XON is sent; default: derived")
    headroom: Size | None = Field(default=None, description="buffer above XOFF; default: derived")
    phy: Literal["fibre", "twinax", "base-t"] = Field(
        default="fibre", description="cable and PHY, for the headroom"
    )
    response: Delay | None = Field(
        default=None,
        description="time in which a peer obeys a PFC frame; default: IEEE 802.3 31B.3.7, in a lab 5ms",
    )
    cell: Size = Field(default="1B", description="allocation unit of the buffer", examples=["96B"])
    buffer: Size | None = Field(
        default=None, description="receive buffer of a port; must hold headroom and XOFF"
    )
    delay: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="on hosts: PFC delay of the NIC in bit times (mlx5: metres of cable)",
    )
    required: bool = Field(
        default=False, description="on hosts: fail if a NIC lacks a setting, instead of reporting it"
    )
    alpha: float = Field(
        default=1, gt=0, le=128, description="share of the free shared buffer that a queue may use"
    )
    watchdog: Watchdog | None = Field(default=None, description="PFC watchdog; default: none")

    @property
    def response_us(self) -> int | None:
        """The given response time in microseconds."""
        return units.parse_delay(self.response) if self.response else None
