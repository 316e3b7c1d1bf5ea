# SPDX-License-Identifier: Apache-2.0
"""The counters of a fabric's ports for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.lab.background import DELAY_LINE, SOFT_SWITCH
from orchestrator.telemetry.events import UnreadableCounters, storms
from orchestrator.telemetry.fields import ALL, INDEX, PRIORITIES, PRIORITY_SLOTS
from orchestrator.telemetry.ports import WatchedPort, WatchedPorts
from orchestrator.telemetry.rates import between, possible
from orchestrator.telemetry.reading import Flags, Reading

LABELS = ("fabric", "server", "port", "priority", "direction")
_PORT_LABELS = ("fabric", "server", "port", "role", "peer")
ANY = "all"
"""The priority of a counter of the whole port."""


@dataclass(frozen=True)
class Family:
    """A metric and its fields by direction; values are multiplied by `unit`."""

    name: str
    help: str
    fields: tuple[tuple[str, str], ...]
    unit: float = 1
    is_gauge: bool = False


def _both(field: str) -> tuple[tuple[str, str], ...]:
    return ("rx", f"rx_{field}"), ("tx", f"tx_{field}")


FAMILIES = (
    Family("hipsnet_pfc_frames", "PFC frames that name the priority", _both("pause_frames")),
    Family("hipsnet_pfc_pause_seconds", "time for which the peer paused the port (rx), and the port its peer (tx)",
           _both("pause_us"), 1e-6),
    Family("hipsnet_frames", "frames", _both("frames")),
    Family("hipsnet_bytes", "bytes, with the Ethernet header", _both("bytes")),
    Family("hipsnet_dropped_frames", "frames lost at the port", (("", "drops"),)),
    Family("hipsnet_ecn_marked_frames", "frames marked with congestion experienced", (("", "ecn_marks"),)),
    Family("hipsnet_pfc_storms", "PFC storms that a watchdog has detected", (("", "storms"),)),
    Family("hipsnet_buffer_used_bytes", "bytes in the queue", (("", "buffer_bytes"),), 1, True),
    Family("hipsnet_buffer_size_bytes", "bytes that the queue can hold", (("", "buffer_size_bytes"),), 1, True),
)  # fmt: skip


class FabricCollector(Collector):
    """Reads all counters with each scrape.

    `drift` returns the number of differences between kernel and file; None while it is unknown.
    """

    def __init__(
        self, ports: WatchedPorts, read: Callable[[], Reading], drift: Callable[[], int | None]
    ) -> None:
        self._ports, self._read, self._drift = ports, read, drift
        self._lock = Lock()  # two scrapes may run at once
        self._last: Reading | None = None
        self._unreadable = UnreadableCounters()
        self._storms: Flags = np.zeros((len(ports), PRIORITIES), bool)

    def collect(self) -> Iterable[Metric]:
        """All metrics of now."""
        with self._lock:
            reading = self._read()
            self._unreadable.warn(reading)
            self._look_for_storms(reading)
            return [*self._families(reading), *self._states(reading)]

    def describe(self) -> Iterable[Metric]:
        """No metrics: registering must not read counters."""
        return ()

    def _look_for_storms(self, reading: Reading) -> None:
        if self._last is not None:
            rates = [port.rate_bps for port in self._ports.ports]
            most = possible(reading.time_s - self._last.time_s, rates)
            self._storms = storms(between(self._last, reading, most))
        self._last = reading

    def _families(self, reading: Reading) -> Iterator[Metric]:
        for family in FAMILIES:
            kind = GaugeMetricFamily if family.is_gauge else CounterMetricFamily
            directed = bool(family.fields[0][0])
            metric = kind(family.name, family.help, labels=LABELS if directed else LABELS[:-1])
            for direction, field in family.fields:
                number = INDEX[field]
                # The sum of priorities is not exported again, so that sum() counts nothing twice.
                priorities = set(np.argwhere(reading.known[number, :, :PRIORITIES])[:, 0].tolist())
                for port, priority in np.argwhere(reading.known[number]).tolist():
                    if priority == ALL and port in priorities:
                        continue
                    labels = [
                        *self._names(self._ports.ports[port]),
                        ANY if priority == ALL else str(priority),
                    ]
                    value = float(reading.values[number, port, priority]) * family.unit
                    metric.add_metric([*labels, direction] if directed else labels, value)
            yield metric

    def _states(self, reading: Reading) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "hipsnet_port_up", "whether the port exists and has a carrier", labels=_PORT_LABELS
        )
        lossless = GaugeMetricFamily(
            "hipsnet_lossless", "whether the priority is lossless", labels=LABELS[:-1]
        )
        storm = GaugeMetricFamily(
            "hipsnet_pfc_storm", "whether the priority was paused all the time since the last scrape",
            labels=LABELS[:-1],
        )  # fmt: skip
        for number, port in enumerate(self._ports.ports):
            names = self._names(port)
            is_up = bool(reading.present[number] and reading.up[number])
            up.add_metric([*names, port.role, port.peer_name], float(is_up))
            for priority in range(PRIORITY_SLOTS - 1):
                is_lossless = priority in self._ports.lossless
                if is_lossless or self._storms[number, priority]:
                    lossless.add_metric([*names, str(priority)], float(is_lossless))
                    storm.add_metric([*names, str(priority)], float(self._storms[number, priority]))
        drift = GaugeMetricFamily(
            "hipsnet_drift",
            "number of differences between the kernel and the topology file",
            labels=("fabric",),
        )
        differences = self._drift()
        if differences is not None:
            drift.add_metric([self._ports.fabric.name], differences)
        yield from (up, lossless, storm, drift)
        yield from _processes(reading)

    def _names(self, port: WatchedPort) -> list[str]:
        return [self._ports.fabric.name, port.node, port.name.rpartition(".")[2]]


def _processes(reading: Reading) -> Iterator[Metric]:
    """Whether the background processes run: a series only for those that the lab needs."""
    for name in (SOFT_SWITCH, DELAY_LINE):
        metric = f"hipsnet_{name.replace(' ', '_')}_up"
        family = GaugeMetricFamily(metric, f"whether the {name} runs", labels=("fabric",))
        for process in reading.processes:
            if process.name == name:
                family.add_metric([process.fabric], float(process.is_running))
        yield family
