# SPDX-License-Identifier: Apache-2.0
"""The pauses of a job: the growth of the servers' counters between two measurements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.telemetry.events import UnreadableCounters
from orchestrator.telemetry.fields import (
    ALL,
    RX_PAUSE_FRAMES,
    RX_PAUSE_US,
    TX_PAUSE_FRAMES,
    TX_PAUSE_US,
)
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.rates import Rates, between, possible
from orchestrator.telemetry.watching import Sources


@dataclass(frozen=True)
class JobPauses:
    """Sums over all ports of servers; None without a counter.

    rx are the pauses that the servers received, tx those that they sent. `worst` is the port that was paused, or
    paused its peer, for the longest time (or by the most frames); None if there was no pause.
    """

    rx_frames: int | None
    tx_frames: int | None
    rx_us: int | None
    tx_us: int | None
    worst: str | None


class PauseBook:
    """Keeps the last reading, to compute the growth since then."""

    def __init__(self, ports: WatchedPorts, sources: Sources) -> None:
        self._ports, self._sources = ports, sources
        self._last = sources.read()
        UnreadableCounters().warn(self._last)

    def since(self) -> JobPauses:
        """The pauses since the last call, or since the construction."""
        reading = self._sources.read()
        rates = [port.rate_bps for port in self._ports.ports]
        change = between(self._last, reading, possible(reading.time_s - self._last.time_s, rates))
        self._last = reading
        return summed(self._ports, change)


def summed(ports: WatchedPorts, change: Rates) -> JobPauses:
    """The sums over the servers' ports."""
    servers = np.array([number for number, port in enumerate(ports.ports) if port.role == "server"])
    of_ports = {
        field: change.amounts[field, servers, ALL]
        for field in (RX_PAUSE_FRAMES, TX_PAUSE_FRAMES, RX_PAUSE_US, TX_PAUSE_US)
    }
    time = np.nan_to_num(np.fmax(of_ports[RX_PAUSE_US], of_ports[TX_PAUSE_US]))
    frames = np.nan_to_num(np.fmax(of_ports[RX_PAUSE_FRAMES], of_ports[TX_PAUSE_FRAMES]))
    worst = int(np.lexsort((frames, time))[-1])
    return JobPauses(
        _sum(of_ports[RX_PAUSE_FRAMES]),
        _sum(of_ports[TX_PAUSE_FRAMES]),
        _sum(of_ports[RX_PAUSE_US]),
        _sum(of_ports[TX_PAUSE_US]),
        ports.ports[servers[worst]].name if time[worst] or frames[worst] else None,
    )


def _sum(amounts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int | None:
    return None if np.isnan(amounts).all() else int(np.nansum(amounts))
