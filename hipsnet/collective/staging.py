# SPDX-License-Identifier: Apache-2.0
"""The memory for segments that are to be reduced: for each neighbour a ring of `SLOTS` slots of one chunk each.

A neighbour writes into its ring, the reduction empties it, and credits report how many slots are empty again. The
slots fit the largest chunk so far, which is the same on all ranks, as chunk sizes follow from the schedule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.transport.interface import Region, Transport

SLOTS = 4
"""Staging slots for each neighbour: enough to keep a port busy while credits travel."""

_PAGE_BYTES = 4096


class Staging:
    """The rings of all neighbours of one rank. None of them holds anything while no collective runs."""

    def __init__(self, transport: Transport, neighbours: int) -> None:
        self._transport = transport
        self._neighbours = neighbours
        self._slot_bytes = 0
        self._rings: list[Region] = []
        self._replaced: list[Region] = []

    def make_room(self, chunk_bytes: int) -> bool:
        """Provide rings for such chunks in the next collective; True if they are new.

        Raises TransportError where the device cannot register them.
        """
        for ring in self._replaced:
            self._transport.deregister(ring)
        self._replaced = []
        if chunk_bytes <= self._slot_bytes:
            return False
        # A mismatched peer still addresses the old rings; keep them registered so that it gets the mismatch error.
        self._replaced = self._rings
        self._slot_bytes = -(-chunk_bytes // _PAGE_BYTES) * _PAGE_BYTES
        # One array, because numpy asks for huge pages from 4 MiB on: 4 % of an all-reduce of 64 MiB.
        size = SLOTS * self._slot_bytes
        memory = np.empty(self._neighbours * size, np.uint8)
        starts = range(0, len(memory), size)
        self._rings = [self._transport.register(memory[start : start + size]) for start in starts]
        return True

    def key(self, connection: int) -> int:
        """The key by which this neighbour addresses its ring."""
        return self._rings[connection].key

    def offset(self, slot: int) -> int:
        """The start of a slot in its ring, the same on all ranks; `slot` counts on beyond SLOTS."""
        return slot % SLOTS * self._slot_bytes

    def view(self, connection: int, slot: int, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The first `length` elements of a slot."""
        start = self.offset(slot)
        return self._rings[connection].memory[start : start + length * dtype.itemsize].view(dtype)
