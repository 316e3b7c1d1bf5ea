# SPDX-License-Identifier: Apache-2.0
"""The counters and gauges of a port and priority."""

from __future__ import annotations

from typing import NamedTuple

PRIORITIES = 8
ALL = PRIORITIES
"""The index of the port as a whole, behind those of its priorities 0 to 7."""
PRIORITY_SLOTS = PRIORITIES + 1
"""The length of the priority axis of all arrays."""
EACH_PRIORITY = slice(0, PRIORITIES)


class Field(NamedTuple):
    """A counter, which only grows, or a gauge, which has the value of now."""

    name: str
    meaning: str
    is_gauge: bool = False


FIELDS = (
    Field("rx_pause_frames", "PFC frames received that name the priority"),
    Field("tx_pause_frames", "PFC frames sent that name the priority"),
    Field("rx_pause_us", "microseconds for which the other end paused this port"),
    Field("tx_pause_us", "microseconds for which this port paused the other end"),
    Field("rx_frames", "frames received"),
    Field("tx_frames", "frames sent"),
    Field("rx_bytes", "bytes received, with the Ethernet header"),
    Field("tx_bytes", "bytes sent, with the Ethernet header"),
    Field("drops", "frames lost"),
    Field("ecn_marks", "frames marked with congestion experienced"),
    Field("storms", "PFC storms that a watchdog has detected"),
    Field("buffer_bytes", "bytes in the queue", is_gauge=True),
    Field("buffer_size_bytes", "bytes that the queue can hold", is_gauge=True),
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
"""Pairs of the same events at the two ends of a cable."""
