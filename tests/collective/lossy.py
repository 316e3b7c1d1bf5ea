# SPDX-License-Identifier: Apache-2.0
"""Three ranks in one process, over TCP on loopback addresses; a wrapper drops some of the messages of a rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from hipsnet.collective import protocol
from hipsnet.collective.algorithms import Algorithm
from hipsnet.collective.executor import Executor, Reduction, Timeouts
from hipsnet.collective.plan import compile_plan
from hipsnet.collective.segments import Plan, as_objects
from hipsnet.topology import build, parse
from tests.transport.meeting import End, meeting

RANKS = 3
LINKS = [(0, 1), (0, 2), (1, 2)]
COUNT, CHUNK = 3 * 64 * 16, 64
FABRIC = build(parse("version: 1\nname: lossy\nfabric: {kind: bcube, n: 3, levels: 1}\n", "lossy"))

Lost = Callable[[int, protocol.Message | int], bool]
"""Decides whether a message, or the write with this immediate, is lost on its way to a connection."""


class Lossy:
    """A transport that drops the posts selected by `loses`."""

    def __init__(self, transport: Any, loses: Lost) -> None:
        self._transport = transport
        self._loses = loses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def post_message(self, connection: int, payload: bytes) -> None:
        if not self._loses(connection, protocol.unpack(payload)):
            self._transport.post_message(connection, payload)

    def post_write(self, connection: int, *what: Any) -> None:
        if not self._loses(connection, what[-1]):
            self._transport.post_write(connection, *what)


def nothing(connection: int, posted: protocol.Message | int) -> bool:
    return False


class Job:
    """An executor for each rank."""

    def __init__(self, ends: Sequence[End], loses: dict[int, Lost], timeouts: Timeouts) -> None:
        self.ends = ends
        self.executors = [
            Executor(Lossy(end.transport, loses.get(rank, nothing)), rank, end.peers, timeouts)
            for rank, end in enumerate(ends)
        ]
        self.plans = [_plan(rank, end) for rank, end in enumerate(ends)]
        self.arrays = [np.full(COUNT, rank + 1, np.int64) for rank in range(RANKS)]

    def all_reduce(
        self, reductions: dict[int, Reduction] | None = None, ranks: Sequence[int] = range(RANKS)
    ) -> list[BaseException | None]:
        """Run one collective on these ranks, each in a thread, and return what they raise."""
        by_rank = reductions or {}
        with ThreadPoolExecutor(RANKS) as pool:
            runs = [
                pool.submit(
                    self.executors[rank].run,
                    self.plans[rank],
                    self.arrays[rank],
                    "sum",
                    by_rank.get(rank, add),
                )
                for rank in ranks
            ]
            return [run.exception(60) for run in runs]


def add(target: Any, other: Any) -> None:
    np.add(target, other, out=target)


@contextmanager
def job(loses: dict[int, Lost] | None = None, timeout_s: float = 10.0) -> Iterator[Job]:
    """A ring all-reduce of three ranks, with many small segments; `loses` by rank."""
    with meeting(LINKS) as ends:
        yield Job(ends, loses or {}, Timeouts(timeout_s / 2, timeout_s))


def _plan(rank: int, end: End) -> Plan:
    schedule = Algorithm("ring").build(FABRIC, COUNT)
    connections = {(peer.rank, 0, 0): index for index, peer in enumerate(end.peers)}
    ports = np.zeros(len(schedule.transfers), np.int64)
    return as_objects(compile_plan(schedule, rank, connections, ports, CHUNK))
