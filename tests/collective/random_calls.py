# SPDX-License-Identifier: Apache-2.0
"""Random collectives on real communicators, compared with numpy bit by bit.

`python -m tests.collective.random_calls CASES [SEED]` runs any number of them. The ranks of a job are threads of
one process, and their engines are connected by socket pairs. A job has a fabric and an algorithm with its options,
and runs a random sequence of collectives, several at once. numpy combines the contributions in the order of the
schedule.
"""

from __future__ import annotations

import random
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective import communicator
from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.collective.communicator import Communicator
from hipsnet.collective.vector import layout
from hipsnet.engine.reduction import DTYPES
from hipsnet.engine.wire.tcp import TcpWire
from hipsnet.settings import Settings
from hipsnet.transport.interface import Peer
from tests.collective.oracle import execute
from tests.collective.shapes import fabric, text_of

CALLS = 20
"""Collectives of a job."""

BOUND_S = 120.0
SHAPES = (
    *("bcube(2,2)", "bcube(3,2)", "bcube(4,1)", "bcube(2,3)", "torus(3,3)", "torus(2,2)", "torus(5)"),
    *("torus(2,3)", "fattree(5,2)", "fattree(2,1)", "leafspine(2,2)", "dragonfly(3,2)"),
)
COMBINE = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Case:
    """A collective of a job: its vector has `count` elements, all_reduce in several arrays (`sizes`)."""

    collective: Collective
    count: int
    sizes: tuple[int, ...]
    dtype: np.dtype[Any]
    op: str
    is_async: bool
    seed: int

    def edges(self, ranks: int) -> NDArray[np.int64]:
        """The edges of the shares of the vector."""
        return (
            self.collective.shares(self.count, ranks) if self.collective.has_shares else np.empty(0, np.int64)
        )

    def vector(self, rank: int) -> NDArray[Any]:
        source = np.random.default_rng((self.seed, rank))
        if self.dtype.kind == "i":
            info = np.iinfo(self.dtype)
            return source.integers(info.min, info.max, self.count, self.dtype, endpoint=True)
        sign = source.choice([-1.0, 1.0], self.count)
        return (sign * source.uniform(0.5, 2.0, self.count)).astype(self.dtype)


class PairedTransport:
    """Stands for a rank's transport: `connect` takes one end of a socket pair for each peer."""

    def __init__(self, rank: int, far_ends: dict[Any, socket.socket]) -> None:
        self._rank, self._far_ends = rank, far_ends
        self.descriptors: list[int] = []

    def connect(self, peers: Sequence[Peer], _timeout_s: float) -> None:
        self.descriptors = [self._end(peer).detach() for peer in peers]

    def _end(self, peer: Peer) -> socket.socket:
        mine, theirs = (self._rank, peer.port), (peer.rank, peer.remote_port)
        if (theirs, mine) in self._far_ends:
            return self._far_ends.pop((theirs, mine))
        near, self._far_ends[mine, theirs] = socket.socketpair()
        near.setblocking(False)
        self._far_ends[mine, theirs].setblocking(False)
        return near


def open_transport(far_ends: dict[Any, socket.socket]) -> Any:
    return lambda _name, greeting, _options: PairedTransport(greeting.rank, far_ends)


def open_wire(_name: str, transport: PairedTransport, message_max: int) -> TcpWire:
    return TcpWire(transport.descriptors, message_max)


@contextmanager
def job(shape: str, **options: Any) -> Iterator[list[Communicator]]:
    """The communicators of all ranks of a fabric, in this process."""
    ranks = len(fabric(shape).servers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(text_of(shape))
        with (
            mock.patch.object(communicator, "open_transport", open_transport({})),
            mock.patch.object(communicator, "open_wire", open_wire),
        ):
            every = [
                Communicator(Settings(rank, ranks, str(file), token="0123456789abcdef", **options))
                for rank in range(ranks)
            ]
    try:
        yield every
    finally:
        on_all(every, lambda comm: comm.close())


def on_all(every: Sequence[Communicator], body: Any) -> list[Any]:
    with ThreadPoolExecutor(len(every)) as threads:
        return [one.result(BOUND_S) for one in [threads.submit(body, comm) for comm in every]]


def options_of(order: random.Random, shape: str) -> dict[str, Any]:
    """An algorithm that the fabric supports, with random options, and a random chunk."""
    made = fabric(shape)
    names = ["ring", "mesh", "ps"] + ["hips"] * 3 * (made.shape.hips is not None)
    name = order.choice(names)
    found: dict[str, Any] = {"algorithm": name, "chunk_bytes": order.choice((64 << 10, 256 << 10, 1 << 20))}
    if name == "ps":
        found["servers"] = order.randint(1, len(made.servers))
    elif name == "mesh":
        found["exchange"] = order.choice(((), ("full",)))
    elif name == "hips":
        exchanges = ("mesh", "ring")
        every = tuple(order.choice(exchanges) for _ in made.dims)
        found["exchange"] = order.choice(((), ("full",), (order.choice(exchanges),), every))
    return found


def case(order: random.Random, ranks: int, algorithm: str) -> Case:
    names = ("all_reduce", "barrier") if algorithm == "ps" else NAMES
    name = order.choice(("all_reduce", order.choice(names)))
    size = order.choice((order.randint(0, 40), order.randint(0, 5000), order.choice((997, 4099, 65_537))))
    count = Collective(name).total(min(size, 3000) if name == "all_to_all" else size, ranks)
    counts: tuple[int, ...] = ()
    parts = ranks**2 if name == "all_to_all" else ranks
    if Collective(name).has_shares:
        count -= count % parts
    if Collective(name).has_shares and order.random() < 0.5:
        counts = tuple(order.randint(0, 1 + 2 * count // parts) for _ in range(parts))
        count = sum(counts)
    root = order.randrange(ranks) if Collective(name).has_root else 0
    collective = Collective(name, root, counts)
    edges = sorted(order.randint(0, count) for _ in range(order.randint(0, 4)))
    sizes = tuple(b - a for a, b in zip([0, *edges], [*edges, count], strict=True))
    op = order.choice(tuple(COMBINE)) if collective.reduces else "copy"
    dtype = order.choice(DTYPES)
    return Case(collective, count, sizes, dtype, op, order.random() < 0.6, order.getrandbits(30))


def start(comm: Communicator, one: Case) -> tuple[NDArray[Any], Any]:
    """Start a collective; return the array of its result (empty if this rank gets none), and its work, or None."""
    vector, edges, rank = one.vector(comm.rank), one.edges(comm.world_size), comm.rank
    collective, dtype, later = one.collective, one.dtype, one.is_async
    counts = collective.counts or None
    if collective.name == "barrier":
        comm.barrier()
        return np.empty(0, dtype), None
    if collective.name == "all_reduce":
        arrays = np.split(vector, np.cumsum(one.sizes)[:-1])
        if later:
            return vector, comm.all_reduce(arrays, one.op, async_op=True)
        comm.all_reduce(arrays, one.op)
        return vector, None
    if collective.name == "broadcast":
        return vector, comm.broadcast(vector, collective.root, later)
    if collective.name == "reduce":
        return vector, comm.reduce(vector, collective.root, one.op, later)
    if collective.name == "all_to_all":
        sizes = np.diff(edges).reshape(comm.world_size, comm.world_size)
        output = np.empty(sizes[:, rank].sum(), dtype)
        mine = vector[edges[rank * comm.world_size] : edges[(rank + 1) * comm.world_size]]
        return output, comm.all_to_all(output, mine, sizes.tolist() if counts else None, later)
    share, is_root = vector[edges[rank] : edges[rank + 1]], rank == collective.root
    output = np.empty_like(share)
    if collective.name == "reduce_scatter":
        return output, comm.reduce_scatter(output, vector, one.op, counts, later)
    if collective.name == "scatter":
        return output, comm.scatter(output, vector if is_root else None, collective.root, counts, later)
    whole = np.empty_like(vector)
    if collective.name == "all_gather":
        return whole, comm.all_gather(whole, share, counts, later)
    work = comm.gather(whole if is_root else None, share, collective.root, counts, later)
    return whole if is_root else whole[:0], work


def run(comm: Communicator, cases: Sequence[Case]) -> list[NDArray[Any]]:
    started = [start(comm, one) for one in cases]
    for _, work in started:
        if work is not None:
            work.wait()
    return [vector for vector, _ in started]


def placed(one: Case) -> NDArray[np.int64]:
    """The elements in the order of the vector: several arrays are not in the caller's order (`Layout`)."""
    if one.collective.name != "all_reduce":
        return np.arange(one.count)
    found = layout(one.sizes, one.dtype.itemsize)
    parts = np.split(np.arange(one.count), np.cumsum(one.sizes)[:-1])
    return np.concatenate([parts[i] for i in (*found.direct, *found.packed)] or [np.arange(0)])


def expected(one: Case, comm: Communicator) -> NDArray[Any]:
    """The vectors of all ranks; an element matters only on its holders."""
    order = placed(one)
    vectors = np.stack([one.vector(rank)[order] for rank in range(comm.world_size)])
    schedule = comm._schedule(one.collective, one.count, one.dtype.itemsize)
    result = np.empty_like(vectors)
    with np.errstate(all="ignore"):
        result[:, order] = execute(schedule, vectors, COMBINE.get(one.op, np.add))
        if one.op == "mean" and one.dtype.kind == "i":
            result = (result - np.fmod(result, comm.world_size)) // comm.world_size
        elif one.op == "mean":
            result = result / one.dtype.type(comm.world_size)
    return result.astype(one.dtype)


def result_of(one: Case, rank: int, correct: NDArray[Any]) -> NDArray[Any]:
    """What a rank's call gives, from the final vectors of all ranks."""
    ranks, name, is_root = len(correct), one.collective.name, rank == one.collective.root
    edges, vector = one.edges(ranks), correct[rank]
    if name == "barrier" or (name == "gather" and not is_root):
        return vector[:0]
    if name == "reduce" and not is_root:
        return one.vector(rank)
    if name in ("reduce_scatter", "scatter"):
        return vector[edges[rank] : edges[rank + 1]]
    if name == "all_to_all":
        blocks = [edges[source * ranks + rank :][:2] for source in range(ranks)]
        return np.concatenate([vector[start:stop] for start, stop in blocks])
    return vector


def compare(one: Case, found: Sequence[NDArray[Any]], correct: NDArray[Any]) -> None:
    for rank, ours in enumerate(found):
        theirs = result_of(one, rank, correct)
        assert ours.tobytes() == theirs.tobytes(), f"{one} on rank {rank}: {ours} is not {theirs}"


def run_job(seed: int, number: int, calls: int = CALLS) -> None:
    """Run the job of this number; AssertionError names the case and the rank that is wrong."""
    order = random.Random(f"{seed}.{number}")
    shape = order.choice(SHAPES)
    options = options_of(order, shape)
    ranks = len(fabric(shape).servers)
    cases = [case(order, ranks, options["algorithm"]) for _ in range(calls)]
    with job(shape, **options) as every:
        found = on_all(every, lambda comm: run(comm, cases))
        for index, one in enumerate(cases):
            try:
                compare(one, [vectors[index] for vectors in found], expected(one, every[0]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, job {number}, {shape}, {options}: {error}") from None


def main(arguments: Sequence[str]) -> None:
    cases, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    for number in range(-(-cases // CALLS)):
        run_job(seed, number)
        print(f"{(number + 1) * CALLS} cases", end="\r", flush=True)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
