# SPDX-License-Identifier: Apache-2.0
"""The capacity of a queue pair, and its memory for messages: receive slots, the ring of outgoing ones, credits.

The engine's wire (engine/wire/verbs_flow.h) limits senders to these numbers; both ends compare them.
"""

from __future__ import annotations

WINDOW = 32
"""Receives for writes and messages: a sender never has more of them in flight."""

CREDITS_UNDER_WAY = 2
RECEIVES = WINDOW + CREDITS_UNDER_WAY

SENDS = 2 * WINDOW
"""Capacity of the send queue: a window in flight, and one whose acknowledgements are."""

PROBES = 1
"""Capacity of the send queue for probes, which need neither credit nor a receive of the peer."""

SIGNAL_EVERY = 16
"""Every n-th request has a completion, and the last of a batch."""

HEADER_BYTES = 16
SLOT_BYTES = 34 << 10
"""A receive slot: a message with its header. A message may carry a segment of 32 KiB."""

RING_BYTES = 512 << 10
"""A power of two."""
