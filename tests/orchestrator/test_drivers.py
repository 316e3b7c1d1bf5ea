# SPDX-License-Identifier: Apache-2.0
"""Counters of network cards by the names their drivers use."""

from __future__ import annotations

import pytest

from orchestrator.telemetry.drivers import meanings
from orchestrator.telemetry.fields import ALL, FIELDS


@pytest.mark.parametrize(
    ("driver", "name", "field", "priority"),
    [
        ("mlx5_core", "rx_prio3_pause", "rx_pause_frames", 3),
        ("mlx5_core", "tx_prio0_pause", "tx_pause_frames", 0),
        ("mlx5_core", "rx_prio3_pause_duration", "rx_pause_us", 3),
        ("mlx5_core", "tx_prio7_pause_duration", "tx_pause_us", 7),
        ("mlx5_core", "rx_prio3_buf_discard", "drops", 3),
        ("mlx5_core", "rx_prio5_discards", "drops", 5),
        ("mlx5_core", "rx_prio5_cong_discard", "drops", 5),
        ("mlx5_core", "rx_prio2_marked", "ecn_marks", 2),
        ("mlx5_core", "rx_global_pause", None, None),
        ("mlx5_core", "tx_prio3_bytes", "tx_bytes", 3),
        ("mlx5_core", "rx_bytes_phy", "rx_bytes", ALL),
        ("mlx5_core", "rx_prio3_pause_transition", None, None),
        ("mlx5_core", "rx3_packets", None, None),
        ("ice", "rx_priority_3_xoff.nic", "rx_pause_frames", 3),
        ("ice", "tx_priority_5_xon.nic", "tx_pause_frames", 5),
        ("ice", "tx_priority_5_xon_2_xoff.nic", None, None),
        ("ice", "rx_bytes.nic", "rx_bytes", ALL),
        ("ice", "tx_multicast.nic", "tx_frames", ALL),
        ("ice", "tx_multicast", None, None),
        ("ice", "link_xoff_rx.nic", None, None),
        ("bnxt_en", "rx_pfc_ena_frames_pri3", "rx_pause_frames", 3),
        ("bnxt_en", "pfc_pri4_tx_duration_us", "tx_pause_us", 4),
        ("bnxt_en", "rx_bytes_pri6", "rx_bytes", 6),
        ("bnxt_en", "tx_packets_pri1", "tx_frames", 1),
        ("bnxt_en", "rx_bytes_cos6", None, None),
        ("bnxt_en", "pfc_pri4_rx_transitions", None, None),
        ("bnxt_en", "tx_total_frames", "tx_frames", ALL),
        ("bnxt_en", "rx_stat_discard", "drops", ALL),
        ("bnxt_en", "[0]: rx_bytes", None, None),
        ("strange", "rx_prio3_pause", "rx_pause_frames", 3),
        ("strange", "tx_pfc_frames_prio_2", "tx_pause_frames", 2),
        ("strange", "rx_pfc4", "rx_pause_frames", 4),
        ("strange", "rx_tc1_bytes", "rx_bytes", 1),
        ("strange", "rx_queue_3_bytes", None, None),
        ("strange", "rx_prio9_pause", None, None),
    ],
)
def test_a_name_means(driver: str, name: str, field: str | None, priority: int | None) -> None:
    found = meanings(driver, ["something", name])
    described = [(FIELDS[meaning.field].name, meaning.priority) for meaning in found.values()]
    assert described == ([] if field is None else [(field, priority)])
    assert set(found) <= {1}
