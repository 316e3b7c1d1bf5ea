# SPDX-License-Identifier: Apache-2.0
"""`nodes` and `lab`: the machines that are the servers, or the lab on one machine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from hipsnet import units
from hipsnet.topology.schema.section import Section, Size


class HostPort(Section):
    """The network interface that is one port of a server."""

    interface: str = Field(
        pattern=r"^[^\s/:]{1,15}$", description="interface name", examples=["eth1", "enp65s0f0np0"]
    )
    mac: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$",
        description="MAC address of the NIC, in lower case; default: found by ARP",
        examples=["02:00:00:aa:bb:01"],
    )


class Host(Section):
    """The machine that is one server."""

    host: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9.:_-]{1,253}$", description="host name", examples=["node7.cluster"]
    )
    ports: tuple[HostPort, ...] = Field(min_length=1, description="interfaces in order of the server's ports")


def _where(nodes: Any) -> str:
    return "hosts" if isinstance(nodes, dict) else "lab"


Nodes = Annotated[
    Annotated[Literal["lab"], Tag("lab")] | Annotated[dict[str, Host], Tag("hosts")],
    Discriminator(_where),
]


class Lab(Section):
    """The lab on one machine."""

    switch: Literal["bridge", "lossless"] = Field(
        default="bridge",
        description="the switches are kernel bridges (or routers), or the soft switch, which obeys `pfc`",
    )
    buffer: Size = Field(default="2MiB", description="shared buffer of a lossless switch")
    scheduling: Literal["strict", "weighted"] = Field(
        default="strict",
        description="scheduling of priorities in a lossless switch",
    )
    weights: tuple[Annotated[int, Field(ge=1, le=100)], ...] = Field(
        default=(1,) * 8,
        min_length=8,
        max_length=8,
        description="shares of priorities 0 to 7 with weighted scheduling",
    )

    @property
    def buffer_bytes(self) -> int:
        """Size of the shared buffer in bytes."""
        return units.parse_size(self.buffer)
