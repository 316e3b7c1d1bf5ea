# SPDX-License-Identifier: Apache-2.0
"""What drivers call their counters by priority: which of our fields a name of theirs is.

Every name was compared with where Linux (torvalds/linux, drivers/net/ethernet) gives it:

- mlx5_core, mellanox/mlx5/core/en_stats.c: `pport_per_prio_pfc_stats_desc`, `pport_per_prio_traffic_stats_desc`
  (filled in by `mlx5e_grp_per_prio_*_fill_strings`), `pport_per_tc_prio_stats_desc`,
  `pport_per_tc_congest_prio_stats_desc` (group per_port_buff_congest); of the port `sw_stats_desc`, `q_stats_desc`,
  `pport_802_3_stats_desc`, `pport_2863_stats_desc`
- ice, intel/ice/ice_ethtool.c: `__ice_get_strings` by priority, `ice_gstrings_pf_stats` of the port
- bnxt_en, broadcom/bnxt/bnxt_ethtool.c: `bnxt_get_strings` from `bnxt_port_stats_arr` (PFC frames, the port),
  BNXT_{RX,TX}_STATS_EXT_PFC_ENTRY (durations) and `bnxt_{rx,tx}_{bytes,pkts}_pri_arr`

mlx5 counts apart what it loses for want of a buffer of the port (discards, commit 827a8cb2dd2b) or of the host
(buf_discard, 1297d97f4862), and by congestion of the host (cong_discard); bnxt counts losses by queue, not by
priority. Of drivers without a table, names are taken that say it as these do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.telemetry.fields import ALL, INDEX


class Meaning(NamedTuple):
    """A counter of a driver: our field, and the priority."""

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
    """What the driver's counters mean, by their place in the list of its names; several may be one field."""
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
