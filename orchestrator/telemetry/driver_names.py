"""What drivers call their counters by priority: which of our fields a name of theirs is.

mlx5: drivers/net/ethernet/mellanox/mlx5/core/en_stats.c; ice: .../intel/ice/ice_ethtool.c; bnxt:
.../broadcom/bnxt/bnxt_ethtool.c. Of drivers without a table, names are taken that say it as these do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.telemetry.fields import INDEX, WHOLE


class Meaning(NamedTuple):
    """A counter of a driver: our field, and the lane."""

    field: int
    lane: int


Table = Sequence[tuple[str, str]]
"""(pattern, field) pairs; {way} in a field is rx or tx. A group `lane` is the priority, none the whole port."""

_MLX5: Table = (
    (r"(?P<way>rx|tx)_prio(?P<lane>[0-7])_pause", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_prio(?P<lane>[0-7])_pause_duration", "{way}_pause_us"),
    (r"(?P<way>rx|tx)_prio(?P<lane>[0-7])_bytes", "{way}_bytes"),
    (r"(?P<way>rx|tx)_prio(?P<lane>[0-7])_packets", "{way}_frames"),
    (r"rx_prio(?P<lane>[0-7])_(buf_discard|discards)", "drops"),
    (r"rx_ecn_mark|rx_prio(?P<lane>[0-7])_marked", "ecn_marks"),
    (r"(?P<way>rx|tx)_bytes_phy", "{way}_bytes"),
    (r"(?P<way>rx|tx)_packets_phy", "{way}_frames"),
    (r"rx_out_of_buffer|rx_discards_phy|tx_discards_phy", "drops"),
)
_ICE: Table = (
    (r"(?P<way>rx|tx)_priority_(?P<lane>[0-7])_(xon|xoff)\.nic", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_bytes\.nic", "{way}_bytes"),
    (r"rx_dropped\.nic|tx_dropped_link_down\.nic", "drops"),
)
_BNXT: Table = (
    (r"(?P<way>rx|tx)_pfc_ena_frames_pri(?P<lane>[0-7])", "{way}_pause_frames"),
    (r"pfc_pri(?P<lane>[0-7])_(?P<way>rx|tx)_duration_us", "{way}_pause_us"),
    (r"(?P<way>rx|tx)_bytes_pri(?P<lane>[0-7])", "{way}_bytes"),
    (r"(?P<way>rx|tx)_packets_pri(?P<lane>[0-7])", "{way}_frames"),
)
_LANE = r"(prio|pri|priority|pfc|up|tc)_?(?P<lane>[0-7])"
_UNKNOWN: Table = (
    (rf"(?P<way>rx|tx)_{_LANE}_(pause|pfc|xoff|xon)s?(_frames|_count|_packets)?", "{way}_pause_frames"),
    (rf"(?P<way>rx|tx)_(pfc|pause)_(frames_|packets_)?{_LANE}", "{way}_pause_frames"),
    (r"(?P<way>rx|tx)_pfc_?(?P<lane>[0-7])", "{way}_pause_frames"),
    (rf"(?P<way>rx|tx)_{_LANE}_(pause_)?duration(_us)?", "{way}_pause_us"),
    (rf"(?P<way>rx|tx)_{_LANE}_bytes", "{way}_bytes"),
    (rf"(?P<way>rx|tx)_{_LANE}_(packets|frames)", "{way}_frames"),
    (rf"rx_{_LANE}_(drops?|dropped|discards?)", "drops"),
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
                lane = groups.get("lane")
                known = INDEX[field.format(way=groups.get("way"))]
                found[place] = Meaning(known, WHOLE if lane is None else int(lane))
                break
    return found
