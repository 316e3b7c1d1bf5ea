# SPDX-License-Identifier: Apache-2.0
"""The communicator of a program: this rank's position in the fabric, its connections and its plans."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.endpoints import node_ports, receiver_ports
from hipsnet.collective.executor import Executor, Reduction, Timeouts
from hipsnet.collective.memory import as_array
from hipsnet.collective.plan import Route, chunk_elements, compile_plan
from hipsnet.collective.schedule import Schedule
from hipsnet.collective.segments import Plan, as_objects
from hipsnet.engine import reduction
from hipsnet.engine.library import library
from hipsnet.engine.reduction import DTYPES
from hipsnet.errors import InputError
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology, build, parse
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs.qp_attributes import QpAttributes

REDUCTIONS: dict[str, Reduction] = {
    **{operation: partial(reduction.reduce, operation) for operation in reduction.OPERATIONS},
    "mean": partial(reduction.reduce, "sum"),
}

Buffer = TypeVar("Buffer")

PLANS_KEPT = 64
"""Number of cached plans, one for each size of vector; far more than a model has buckets."""


class Communicator:
    """One rank's membership in a job, created by `hipsnet.init`. Not thread-safe. Use `with`, or call `close`."""

    def __init__(self, settings: Settings) -> None:
        """Connect this rank with its neighbours.

        Raises InputError for settings that do not fit the topology file, TransportError if a neighbour does not
        connect within `start_timeout_s`, CapabilityError if the C library cannot be compiled.
        """
        self._settings = settings
        topology = _load_topology(settings)
        self._fabric = build(topology)
        self._plan = lru_cache(PLANS_KEPT)(self._compile)
        # A vector large enough to use every connection of the algorithm.
        schedule = self._schedule(max(1, len(self._fabric.servers)) ** 2 * 64)
        self._connections = _routes(schedule, self._fabric, self.rank)
        peers = [_peer(self._fabric, self.rank, route) for route in self._connections]
        library()  # compile it now, if necessary, not while peers wait in the first collective
        transport = open_transport(settings.transport, self._greeting(), _options(settings, topology))
        transport.connect(peers, settings.start_timeout_s)
        timeouts = Timeouts(settings.warn_s, settings.timeout_s)
        self._executor = Executor(transport, self.rank, peers, timeouts)

    @property
    def rank(self) -> int:
        return self._settings.rank

    @property
    def world_size(self) -> int:
        return self._settings.world_size

    def all_reduce(self, memory: Buffer, op: str = "sum") -> Buffer:
        """Combine `memory` over all ranks element by element, in place, and return it.

        `memory`: a numpy array, or CPU memory exported by DLPack or the buffer protocol; C-contiguous and
        writable, of any shape, of dtype float16, bfloat16, float32, float64, int32 or int64.
        `op`: sum, mean (integers are rounded toward zero), max, min or prod.
        The number of elements, the dtype and `op` must be the same on every rank. The result is
        bitwise identical on all ranks and in repeated runs.

        Raises InputError for an unsupported array or op, CollectiveError if a peer fails or calls with another
        size, dtype or op. After a CollectiveError, `memory` is undefined and the communicator must be closed.
        """
        array = as_array(memory)
        _check(array, op)
        flat = array.reshape(-1)
        self._executor.run(self._plan(flat.size, flat.itemsize), flat, op, REDUCTIONS[op])
        if op == "mean":
            reduction.divide(flat, self.world_size)
        return memory

    def barrier(self) -> None:
        """Wait until every rank has called `barrier`. Raises CollectiveError if a peer fails."""
        self.all_reduce(np.zeros(1, np.int32))

    def close(self) -> None:
        """Close the connections after all data in flight has arrived."""
        self._executor.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _schedule(self, count: int) -> Schedule:
        s = self._settings
        return Algorithm(s.algorithm, s.exchange, s.one_way, s.servers).build(self._fabric, count)

    def _compile(self, count: int, itemsize: int) -> Plan:
        schedule = self._schedule(count)
        ports = receiver_ports(self._fabric, schedule.transfers)
        chunk = chunk_elements(schedule, self._settings.chunk_bytes, itemsize)
        return as_objects(compile_plan(schedule, self.rank, self._connections, ports, chunk))

    def _greeting(self) -> Greeting:
        s = self._settings
        configuration = (
            f"fabric {self._fabric.name} {self._fabric.shape}, transport {s.transport}, "
            f"algorithm {s.algorithm}, "
            f"exchange {','.join(s.exchange) or 'default'}, one-way {s.one_way:d}, servers {s.servers}, "
            f"chunk {s.chunk_bytes}"
        )
        return Greeting(s.rank, s.world_size, configuration, s.token)


def _load_topology(settings: Settings) -> Topology:
    path = Path(settings.topology)
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"HIPSNET_TOPOLOGY: {path} cannot be read: {error.strerror}") from error
    topology = parse(text, str(path))
    servers = len(build(topology).servers)
    if servers != settings.world_size:
        raise InputError(
            f"WORLD_SIZE: found {settings.world_size}; allowed: {servers}, one rank on each server of {path}"
        )
    return topology


def _options(settings: Settings, topology: Topology) -> Options:
    roce = topology.roce
    qp_attributes = QpAttributes(
        roce.dscp, roce.priority, settings.ack_timeout, settings.retries, settings.rnr_retries
    )
    return Options(settings.port, settings.congestion, qp_attributes, node_ports(topology, settings.rank))


def _routes(schedule: Schedule, fabric: Fabric, rank: int) -> dict[Route, int]:
    """The connections of `rank`, numbered in the order of their first use."""
    ports = receiver_ports(fabric, schedule.transfers)
    routes: dict[Route, int] = {}
    for row, theirs in zip(schedule.transfers, ports, strict=True):
        src, dst, mine = int(row["src"]), int(row["dst"]), int(row["level"])
        if src == rank:
            routes.setdefault((dst, mine, int(theirs)), len(routes))
        elif dst == rank:
            routes.setdefault((src, int(theirs), mine), len(routes))
    return routes


def _peer(fabric: Fabric, rank: int, route: Route) -> Peer:
    remote, mine, theirs = route
    local_port, remote_port = fabric.servers[rank].ports[mine], fabric.servers[remote].ports[theirs]
    assert local_port.address and remote_port.address, "server ports always have addresses"
    return Peer(remote, mine, str(local_port.address.ip), theirs, str(remote_port.address.ip))


def _check(array: NDArray[Any], op: str) -> None:
    if array.dtype not in DTYPES:
        raise InputError(f"dtype {array.dtype} is not one of {', '.join(d.name for d in DTYPES)}")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise InputError("all_reduce works in place: the array must be C-contiguous and writable")
    if op not in REDUCTIONS:
        raise InputError(f"op {op!r} is not one of {', '.join(REDUCTIONS)}")
