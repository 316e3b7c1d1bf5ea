# SPDX-License-Identifier: Apache-2.0
"""What is known of a port and priority: the names of its numbers."""

from __future__ import annotations

from typing import NamedTuple

PRIORITIES = 8
ALL = PRIORITIES
"""The priority of what is counted for a port as a whole; priorities 0 to 7 are its priorities."""
COLUMNS = PRIORITIES + 1


class Field(NamedTuple):
    """A number; a gauge says how much there is now, everything else only ever grows."""

    name: str
    meaning: str
    is_gauge: bool = False


FIELDS = (
    Field("rx_pause_frames", "PFC frames received that name the priority"),
    Field("tx_pause_frames", "PFC frames sent that name the priority"),
    Field("rx_pause_us", "microseconds for which the other end has stopped this one"),
    Field("tx_pause_us", "microseconds for which this end has stopped the other one"),
    Field("rx_frames", "frames received"),
    Field("tx_frames", "frames sent"),
    Field("rx_bytes", "bytes received, with the Ethernet header"),
    Field("tx_bytes", "bytes sent, with the Ethernet header"),
    Field("drops", "frames lost"),
    Field("ecn_marks", "frames marked with congestion experienced"),
    Field("storms", "storms of pauses that a watchdog has detected"),
    Field("buffer_bytes", "bytes that wait", is_gauge=True),
    Field("buffer_size_bytes", "bytes that may wait", is_gauge=True),
)
INDEX = {field.name: number for number, field in enumerate(FIELDS)}
GAUGES = tuple(number for number, field in enumerate(FIELDS) if field.is_gauge)
RX_PAUSE_FRAMES, TX_PAUSE_FRAMES = INDEX["rx_pause_frames"], INDEX["tx_pause_frames"]
RX_PAUSE_US, TX_PAUSE_US = INDEX["rx_pause_us"], INDEX["tx_pause_us"]
RX_FRAMES, TX_FRAMES = INDEX["rx_frames"], INDEX["tx_frames"]
RX_BYTES, TX_BYTES = INDEX["rx_bytes"], INDEX["tx_bytes"]
DROPS, ECN_MARKS, STORMS = INDEX["drops"], INDEX["ecn_marks"], INDEX["storms"]
BUFFER, BUFFER_SIZE = INDEX["buffer_bytes"], INDEX["buffer_size_bytes"]
RECEIVED_AND_SENT = (
    (RX_PAUSE_FRAMES, TX_PAUSE_FRAMES),
    (RX_PAUSE_US, TX_PAUSE_US),
    (RX_FRAMES, TX_FRAMES),
    (RX_BYTES, TX_BYTES),
)
"""What one end of a cable receives is what the other has sent."""
