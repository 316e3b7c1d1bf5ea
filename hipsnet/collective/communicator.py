# SPDX-License-Identifier: Apache-2.0
"""The communicator of a program: this rank's position in the fabric, its connections and its plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective import choice
from hipsnet.collective.calls import Calls, require_array, require_op
from hipsnet.collective.collectives import ALL_REDUCE, Collective
from hipsnet.collective.endpoints import node_ports, receiver_ports
from hipsnet.collective.memory import as_array
from hipsnet.collective.placement import Ranges, touched
from hipsnet.collective.plan import Route, chunk_elements, compile_plan
from hipsnet.collective.purpose import name_of, purpose_of
from hipsnet.collective.runner import Runner
from hipsnet.collective.schedule import Schedule, involving
from hipsnet.collective.vector import Vector, layout
from hipsnet.collective.work import Work
from hipsnet.engine.engine import Engine, Limits, Piece
from hipsnet.engine.plans import PlanArrays
from hipsnet.engine.wire.wire import library_of, open_wire
from hipsnet.errors import InputError
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology, build, parse
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs.qp_attributes import QpAttributes

Buffer = TypeVar("Buffer")

PLANS_KEPT = 64
"""Number of cached plans, one for each size of vector; far more than a model has buckets."""


class Communicator(Calls):
    """One rank's membership in a job, created by `hipsnet.init`. Use `with`, or call `close`.

    Several threads may use a communicator. All ranks must start the same collectives in the same order.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect this rank with its neighbours.

        Raises InputError for settings that do not fit the topology file, TransportError if a neighbour does not
        connect within `start_timeout_s`, CapabilityError if the C library cannot be compiled.
        """
        self._settings = settings
        topology = _load_topology(settings)
        self._fabric = build(topology)
        self._plan = lru_cache(PLANS_KEPT)(self._compile)
        self._layout = lru_cache(PLANS_KEPT)(layout)
        self._ranges = lru_cache(PLANS_KEPT)(self._find_touched)
        self._chooser = choice.of_settings(topology, self._fabric, settings)
        # A vector large enough to use every connection of the algorithms.
        count = max(1, len(self._fabric.servers)) ** 2 * 64
        schedules = [one.build(self._fabric, count) for one in self._chooser.candidates]
        self._connections = _routes(schedules, self._fabric, self.rank)
        peers = [_peer(self._fabric, self.rank, route) for route in self._connections]
        library_of(settings.transport)  # compile it now, if necessary, not while peers wait
        transport = open_transport(settings.transport, self._greeting(), _options(settings, topology))
        transport.connect(peers, settings.start_timeout_s)
        limits = Limits.of_chunk(settings.warn_s, settings.timeout_s, settings.chunk_bytes)
        wire = open_wire(settings.transport, transport, limits.message_max)
        engine = Engine(wire, self.rank, self.world_size, peers, limits)
        self._runner = Runner(engine, self.rank, peers, limits, name_of)

    @property
    def rank(self) -> int:
        return self._settings.rank

    @property
    def world_size(self) -> int:
        return self._settings.world_size

    @overload
    def all_reduce(self, memory: Buffer, op: str = "sum", async_op: Literal[False] = False) -> Buffer: ...

    @overload
    def all_reduce(self, memory: Any, op: str = "sum", *, async_op: Literal[True]) -> Work: ...

    def all_reduce(self, memory: Any, op: str = "sum", async_op: bool = False) -> Any:
        """Combine `memory` over all ranks element by element, in place.

        `memory`: a numpy array, or CPU memory exported by DLPack or the buffer protocol; C-contiguous and
        writable, of any shape, of dtype float16, bfloat16, float32, float64, int32 or int64. A list or tuple of
        them (of one dtype) is treated as one vector; up to 63 arrays of 64 KiB or more are not copied.
        `op`: sum, mean (integers are rounded toward zero), max, min or prod.
        The numbers of elements, the dtype and `op` must be the same on every rank. The result is
        bitwise identical on all ranks and in repeated runs.

        Returns `memory`; with `async_op`, a `Work` at once: the arrays must not be used before it is completed.
        Up to 32 collectives are under way at once; starting more waits for the oldest.

        Raises InputError for an unsupported array or op, CollectiveError if a peer fails or calls with another
        size, dtype or op. After a CollectiveError, `memory` is undefined and the communicator must be closed.
        """
        arrays = [as_array(one) for one in memory] if isinstance(memory, list | tuple) else [as_array(memory)]
        _check(arrays, op)
        flat = [array.reshape(-1) for array in arrays]
        placed = self._layout(tuple(array.size for array in flat), flat[0].itemsize)
        vector = Vector(flat, placed)
        work = self._run(
            ALL_REDUCE,
            placed.count,
            vector.pieces,
            op,
            cuts=placed.cuts,
            is_async=async_op,
            finish=vector.unpack,
        )
        if async_op:
            return work
        work.wait()
        return memory

    def barrier(self) -> None:
        """Wait until every rank has called `barrier`. Raises CollectiveError if a peer fails."""
        self._run(Collective("barrier"), 1, [Piece(np.zeros(1, np.int32))], "sum").wait()

    def close(self) -> None:
        """Wait for the collectives under way, then close the connections after all data in flight has arrived."""
        self._runner.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._runner.close(error)

    def _run(
        self,
        collective: Collective,
        count: int,
        pieces: Sequence[Piece],
        op: str,
        *,
        cuts: tuple[int, ...] = (),
        is_async: bool = False,
        finish: Callable[[], None] | None = None,
    ) -> Work:
        """Start a collective on a vector of `count` elements, of which `pieces` hold what this rank touches.

        The pieces are in ascending order and of one dtype; a rank without pieces has an empty one. `cuts` are the
        same on every rank; a piece begins and ends at one of them, or at the boundary of a transfer. `op` is copy
        for a collective that does not reduce. `finish` is called when the collective is done.
        """
        dtype = pieces[0].array.dtype
        plan = self._plan(collective, count, dtype.itemsize, cuts)
        return self._runner.start(
            plan,
            pieces,
            dtype,
            op,
            purpose=purpose_of(collective),
            cuts=_digest(cuts, collective.counts),
            is_async=is_async,
            finish=finish,
        )

    def _schedule(self, collective: Collective, count: int, itemsize: int) -> Schedule:
        algorithm = self._chooser.choose(count * itemsize, collective)
        return algorithm.build(self._fabric, count, collective)

    def _touched(self, collective: Collective, count: int, itemsize: int, borders: tuple[int, ...]) -> Ranges:
        return self._ranges(collective, count, itemsize, borders)

    def _find_touched(
        self, collective: Collective, count: int, itemsize: int, borders: tuple[int, ...]
    ) -> Ranges:
        return touched(self._schedule(collective, count, itemsize), self.rank, borders)

    def _compile(
        self, collective: Collective, count: int, itemsize: int, cuts: tuple[int, ...]
    ) -> PlanArrays:
        schedule = self._schedule(collective, count, itemsize)
        ports = receiver_ports(self._fabric, schedule.transfers)
        chunk = chunk_elements(schedule, self._settings.chunk_bytes, itemsize)
        return compile_plan(schedule, self.rank, self._connections, ports, chunk, cuts)

    def _greeting(self) -> Greeting:
        s = self._settings
        configuration = (
            f"fabric {self._fabric.name} {self._fabric.shape}, transport {s.transport}, "
            f"algorithm {s.algorithm}, {self._chooser.description}, "
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


def _routes(schedules: Sequence[Schedule], fabric: Fabric, rank: int) -> dict[Route, int]:
    """The connections of `rank` in these schedules, numbered in the order of their first use."""
    transfers = np.concatenate([schedule.transfers for schedule in schedules])
    transfers = transfers[involving(transfers, rank)]
    routes: dict[Route, int] = {}
    for row, theirs in zip(transfers, receiver_ports(fabric, transfers), strict=True):
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


def _digest(*numbers: tuple[int, ...]) -> int:
    """A number of 64 bits that differs between different tuples; 0 for empty ones."""
    if not any(numbers):
        return 0
    return int.from_bytes(sha256(repr(numbers).encode()).digest()[:8], "little")


def _check(arrays: Sequence[NDArray[Any]], op: str) -> None:
    if not arrays:
        raise InputError("all_reduce takes at least one array; found an empty list")
    for array in arrays:
        require_array(array)
        if array.dtype != arrays[0].dtype:
            raise InputError(
                f"the arrays of one call have one dtype; found {arrays[0].dtype} and {array.dtype}"
            )
        if not array.flags.writeable:
            raise InputError("all_reduce works in place: the array must be writable")
    require_op(op)
