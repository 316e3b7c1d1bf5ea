# SPDX-License-Identifier: Apache-2.0
"""The whole file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hipsnet.topology.schema.cost import Cost
from hipsnet.topology.schema.fabric import AnyKind
from hipsnet.topology.schema.link import Addresses, Cable
from hipsnet.topology.schema.nic import Nic
from hipsnet.topology.schema.nodes import Lab, Nodes
from hipsnet.topology.schema.pfc import Pfc
from hipsnet.topology.schema.roce import Roce
from hipsnet.topology.schema.section import Section


class Topology(Section):
    """A whole topology file."""

    version: Literal[1] = Field(description="version of this schema")
    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,15}$",
        description="name of the fabric; everything that is made for it carries the name",
        examples=["demo", "rack-7"],
    )
    fabric: AnyKind
    link: Cable = Cable()
    addresses: Addresses = Addresses()
    roce: Roce = Roce()
    pfc: Pfc | None = Field(default=None, description="lossless priorities; without it all traffic is lossy")
    nic: Nic = Nic()
    nodes: Nodes = Field(
        default="lab", description="`lab`: namespaces on one machine; or the machine of every server"
    )
    lab: Lab = Lab()
    cost: Cost | None = Field(
        default=None, description="measured constants of the cost model; without them, defaults"
    )
