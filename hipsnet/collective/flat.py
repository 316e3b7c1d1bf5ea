"""The flat algorithms' frame: one level that holds all ranks, one thread for each port."""

from __future__ import annotations

from hipsnet.collective.exchange import Exchange
from hipsnet.collective.hierarchy import Thread, build_hierarchy
from hipsnet.collective.schedule import Schedule
from hipsnet.topology import Fabric


def build_flat(name: str, fabric: Fabric, count: int, exchange: Exchange) -> Schedule:
    """Thread t does the same exchange over all ranks on its part of the vector, out of port t."""
    ports = len(fabric.servers[0].ports)
    threads = [Thread((0,), (exchange,), lambda _level, _src, _dst, port=port: port) for port in range(ports)]
    return build_hierarchy(name, (len(fabric.servers),), count, threads)
