# SPDX-License-Identifier: Apache-2.0
"""The one map from DSCP to priority of a fabric, and its copy in a server's forwarding program.

Soft switches, NICs (`nic_settings.py`) and the frames that a server forwards follow the same map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import kernel
from hipsnet.node.pauses import mapped_pauses
from hipsnet.topology.schema import Topology

CNP_DSCP, CNP_PRIORITY = 48, 6
"""Of congestion notifications (class selector 6), as NICs send them: they must not wait behind the congestion."""


def dscp_priorities(topology: Topology) -> tuple[int, ...]:
    """The priority of each DSCP, 64 of them: 0 unless the file, or the default for CNPs, assigns another."""
    found = [0] * kernel.constant("DSCP_COUNT")
    found[CNP_DSCP] = CNP_PRIORITY
    for entry in topology.nic.dscp:
        found[entry.dscp] = entry.priority
    found[topology.roce.dscp] = topology.roce.priority
    return tuple(found)


def set_priorities(fabric: str, node: str, priorities: Sequence[int]) -> None:
    """Give all ports of a server this map, shape (64,). Raises ProvisionError if the node has no program."""
    with mapped_pauses(fabric, node) as rows:
        rows["priority_of"] = priorities


def priority_differences(fabric: str, node: str, priorities: Sequence[int]) -> Iterator[str]:
    """Where the map of the program differs, one sentence per DSCP; ProvisionError if the node has no program."""
    with mapped_pauses(fabric, node) as rows:
        found = rows["priority_of"].copy()
    for port, dscp in np.argwhere(found != np.asarray(priorities, np.uint8)):
        has = found[port, dscp]
        yield f"port {port} gives DSCP {dscp} the priority {has}, not {priorities[dscp]}"
