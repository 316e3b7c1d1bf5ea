"""Parameter servers: every rank pushes to P servers, which sum, and pulls the sums back; 2 steps."""

from __future__ import annotations

import numpy as np

from hipsnet.collective.schedule import COPY, REDUCE, TRANSFER, Schedule, assemble, split
from hipsnet.errors import InputError
from hipsnet.topology import Fabric


def build(fabric: Fabric, count: int, servers: int = 1) -> Schedule:
    """Ranks 0 to `servers` - 1 are servers, and workers like all others; one thread for each port of a server."""
    world_size, ports = len(fabric.servers), len(fabric.servers[0].ports)
    if not 1 <= servers <= world_size:
        raise InputError(f"servers: found {servers}; allowed: 1 to {world_size}, the number of ranks")
    worker, server = (axis.ravel() for axis in np.mgrid[:world_size, :servers])
    worker, server = worker[worker != server], server[worker != server]
    parts = split(count, ports)
    tables = []
    for thread in range(ports):
        edges = parts[thread] + split(int(parts[thread + 1] - parts[thread]), servers)
        for stage, src, dst, op in ((0, worker, server, REDUCE), (1, server, worker, COPY)):
            table = np.zeros(len(worker), TRANSFER)
            table["thread"], table["stage"], table["level"], table["op"] = thread, stage, thread, op
            table["src"], table["dst"] = src, dst
            table["offset"], table["length"] = edges[server], edges[server + 1] - edges[server]
            tables.append(table)
    return assemble("ps", world_size, count, ports, tables)
