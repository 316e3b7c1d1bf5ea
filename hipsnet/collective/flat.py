"""A flat algorithm: all servers are one group, and every port of a server is a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hipsnet.collective import pieces
from hipsnet.collective.assembly import assemble, transfers
from hipsnet.collective.exchange import Exchange
from hipsnet.collective.schedule import COPY, REDUCE, Schedule
from hipsnet.topology import Fabric


def build(algorithm: str, fabric: Fabric, count: int, exchanges: Sequence[Exchange]) -> Schedule:
    """Return the schedule in which thread t does exchanges[t] with an equal share of the vector, by port t."""
    threads = len(exchanges)
    cuts = pieces.cut(count, [Fraction(1, threads)] * threads, exchanges[0].parts)
    rows = [
        transfers(steps, steps.src, steps.dst, steps.part, bounds, thread=thread, stage=stage, op=op)
        for thread, (exchange, bounds) in enumerate(zip(exchanges, cuts, strict=True))
        for stage, (steps, op) in enumerate(((exchange.aggregate, REDUCE), (exchange.broadcast, COPY)))
    ]
    return assemble(algorithm, fabric, count, threads, rows)
