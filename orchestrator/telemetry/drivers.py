# SPDX-License-Identifier: Apache-2.0
"""The counters of a host's network cards from `ethtool -S`, and the field and priority that each name stands for.

The names are those of Linux (torvalds/linux, drivers/net/ethernet):

- mlx5_core, mellanox/mlx5/core/en_stats.c: `pport_per_prio_pfc_stats_desc`, `pport_per_prio_traffic_stats_desc`
  (filled in by `mlx5e_grp_per_prio_*_fill_strings`), `pport_per_tc_prio_stats_desc`,
  `pport_per_tc_congest_prio_stats_desc` (group per_port_buff_congest); of the port `sw_stats_desc`, `q_stats_desc`,
  `pport_802_3_stats_desc`, `pport_2863_stats_desc`
- ice, intel/ice/ice_ethtool.c: `__ice_get_strings` by priority, `ice_gstrings_pf_stats` of the port
- bnxt_en, broadcom/bnxt/bnxt_ethtool.c: `bnxt_get_strings` from `bnxt_port_stats_arr` (PFC frames, the port),
  BNXT_{RX,TX}_STATS_EXT_PFC_ENTRY (durations) and `bnxt_{rx,tx}_{bytes,pkts}_pri_arr`

mlx5 has separate counters for frames lost because a buffer of the port is full (discards, commit 827a8cb2dd2b), a
buffer of the host is full (buf_discard, 1297d97f4862), or the host is congested (cong_discard). bnxt counts losses
by queue, not by priority. For other drivers, names of the same pattern are accepted.
"""

from __future__ import annotations

import re
import socket
from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hipsnet.node.ethtool_ioctl import Statistics
from orchestrator.telemetry.fields import ALL, INDEX
from orchestrator.telemetry.ports import WatchedPorts
from orchestrator.telemetry.reading import Reading


class Meaning(NamedTuple):
    """The field and the priority of a driver's counter."""

    field: int
    priority: int


Table = Sequence[tuple[str, str]]
"""(pattern, field) pairs; {way} in a field is rx or tx. A group `priority` is the priority, none the whole port."""

_MLX5: Table = (
    (r"(?P<way>rx|tx)_prio(?P<priority>[0-7])_pause", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_prio(?P<priority>[0-7])_pause_duration", "{way}_pause_us"),
    (r"(?P<way>rx|tx)_prio(?P<priority>[0-7])_bytes", "{way}_bytes"),
    (r"(?P<way>rx|tx)_prio(?P<priority>[0-7])_packets", "{way}_frames"),
    (r"rx_prio(?P<priority>[0-7])_(discards|buf_discard|cong_discard)", "drops"),
    (r"rx_ecn_mark|rx_prio(?P<priority>[0-7])_marked", "ecn_marks"),
    (r"(?P<way>rx|tx)_bytes_phy", "{way}_bytes"),
    (r"(?P<way>rx|tx)_packets_phy", "{way}_frames"),
    (r"rx_out_of_buffer|rx_discards_phy|tx_discards_phy", "drops"),
)
_ICE: Table = (
    (r"(?P<way>rx|tx)_priority_(?P<priority>[0-7])_(xon|xoff)\.nic", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_bytes\.nic", "{way}_bytes"),
    (r"(?P<way>rx|tx)_(unicast|multicast|broadcast)\.nic", "{way}_frames"),
    (r"rx_dropped\.nic|tx_dropped_link_down\.nic", "drops"),
)
_BNXT: Table = (
    (r"(?P<way>rx|tx)_pfc_ena_frames_pri(?P<priority>[0-7])", "{way}_pause_frames"),
    (r"pfc_pri(?P<priority>[0-7])_(?P<way>rx|tx)_duration_us", "{way}_pause_us"),
    (r"(?P<way>rx|tx)_bytes_pri(?P<priority>[0-7])", "{way}_bytes"),
    (r"(?P<way>rx|tx)_packets_pri(?P<priority>[0-7])", "{way}_frames"),
    (r"(?P<way>rx|tx)_bytes", "{way}_bytes"),
    (r"(?P<way>rx|tx)_total_frames", "{way}_frames"),
    (r"(rx|tx)_stat_discard", "drops"),
)
_PRIORITY = r"(prio|pri|priority|pfc|up|tc)_?(?P<priority>[0-7])"
_UNKNOWN: Table = (
    (rf"(?P<way>rx|tx)_{_PRIORITY}_(pause|pfc|xoff|xon)s?(_frames|_count|_packets)?", "{way}_pause_frames"),
    (rf"(?P<way>rx|tx)_(pfc|pause)_(frames_|packets_)?{_PRIORITY}", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_pfc_?(?P<priority>[0-7])", "{way}_pause_frames"),
    (rf"(?P<way>rx|tx)_{_PRIORITY}_(pause_)?duration(_us)?", "{way}_pause_us"),
    (rf"(?P<way>rx|tx)_{_PRIORITY}_bytes", "{way}_bytes"),
    (rf"(?P<way>rx|tx)_{_PRIORITY}_(packets|frames)", "{way}_frames"),
    (rf"rx_{_PRIORITY}_(drops?|dropped|discards?)", "drops"),
)
_TABLES: Mapping[str, Table] = {"mlx5_core": _MLX5, "ice": _ICE, "bnxt_en": _BNXT}


def meanings(driver: str, names: Sequence[str]) -> dict[int, Meaning]:
    """The meaning of a driver's counters by their position in `names`; several may add up to one field."""
    table = [(re.compile(pattern), field) for pattern, field in _TABLES.get(driver, _UNKNOWN)]
    found = {}
    for place, name in enumerate(names):
        for pattern, field in table:
            match = pattern.fullmatch(name)
            if match:
                groups = match.groupdict()
                priority = groups.get("priority")
                known = INDEX[field.format(way=groups.get("way"))]
                found[place] = Meaning(known, ALL if priority is None else int(priority))
                break
    return found


class Drivers:
    """The statistics of the ports' drivers that have a known name."""

    def __init__(self, ports: WatchedPorts) -> None:
        self._ports = ports
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._open: dict[int, tuple[Statistics, dict[int, Meaning]]] = {}

    def read(self, reading: Reading) -> None:
        """Store the cards' counters; they replace those of other sources."""
        for number, port in enumerate(self._ports.ports):
            try:
                if number not in self._open:
                    statistics = Statistics(self._control, port.interface)
                    self._open[number] = statistics, meanings(statistics.driver, statistics.names)
                statistics, found = self._open[number]
                self._store(reading, number, found, statistics.read())
            except (
                OSError
            ):  # no such interface, or its driver has no statistics: try again with the next reading
                self._open.pop(number, None)

    def close(self) -> None:
        """Close the socket."""
        self._control.close()

    @staticmethod
    def _store(reading: Reading, number: int, found: dict[int, Meaning], counts: array[int]) -> None:
        values = np.array(counts, np.uint64)
        cleared = set()
        for place, (field, priority) in found.items():
            if (field, priority) not in cleared:
                cleared.add((field, priority))
                reading.store(field, number, priority, 0)
            reading.add(field, number, priority, values[place])
