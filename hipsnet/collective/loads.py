# SPDX-License-Identifier: Apache-2.0
"""The load of a schedule: elements sent and received by each port, steps, and the longest transfer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.schedule import Schedule, steps
from hipsnet.topology import Fabric


@dataclass(frozen=True, eq=False)
class Report:
    """Loads in elements: `sent[rank, port]` and `received[rank, port]`, arrays of shape (ranks, ports).

    Only the two end ports of a transfer are counted, not the servers and switches that forward it.
    `steps`: the number of (stage, round) pairs that have a transfer. `in_steps`: the sum over all steps of the
    load of the busiest port, in elements: the bandwidth term if each step waits for the previous one.
    `largest`: elements of the longest transfer.
    """

    sent: NDArray[np.int64]
    received: NDArray[np.int64]
    steps: int
    in_steps: int
    largest: int

    @property
    def busiest(self) -> int:
        """The most loaded port's elements in one direction: the bandwidth term of a pipelined execution."""
        return int(max(self.sent.max(initial=0), self.received.max(initial=0)))


def report(schedule: Schedule, fabric: Fabric) -> Report:
    """Return the loads of a schedule on this fabric; the schedule has passed `check`."""
    transfers = schedule.transfers
    ports = len(fabric.servers[0].ports)
    out = transfers["src"].astype(np.int64) * ports + transfers["level"]
    into = transfers["dst"].astype(np.int64) * ports + receiver_ports(fabric, transfers)
    turns = steps(schedule)
    cuts = [slice(turn.start, turn.stop) for turn in turns]
    in_steps = sum(_busiest(transfers["length"][cut], out[cut], into[cut]) for cut in cuts)
    size = schedule.world_size * ports
    return Report(
        sent=_sums(out, transfers["length"], size).reshape(-1, ports),
        received=_sums(into, transfers["length"], size).reshape(-1, ports),
        steps=len(turns),
        in_steps=in_steps,
        largest=int(transfers["length"].max(initial=0)),
    )


def _sums(where: NDArray[np.int64], length: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    total = np.zeros(size, np.int64)
    np.add.at(total, where, length)
    return total


def _busiest(length: NDArray[np.int64], *ends: NDArray[np.int64]) -> int:
    """The largest sum of lengths over one port."""
    found = 0
    for end in ends:
        places, inverse = np.unique(end, return_inverse=True)
        found = max(found, int(_sums(inverse, length, len(places)).max()))
    return found
