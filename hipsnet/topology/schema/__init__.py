# SPDX-License-Identifier: Apache-2.0
"""The topology file's typed, versioned schema."""

from hipsnet.topology.schema.cost import Cost
from hipsnet.topology.schema.link import Addresses
from hipsnet.topology.schema.nic import Nic, PortBuffers
from hipsnet.topology.schema.nodes import Host
from hipsnet.topology.schema.pfc import Pfc
from hipsnet.topology.schema.roce import Roce
from hipsnet.topology.schema.topology import Topology

__all__ = [
    "Addresses",
    "Cost",
    "Host",
    "Nic",
    "Pfc",
    "PortBuffers",
    "Roce",
    "Topology",
]
