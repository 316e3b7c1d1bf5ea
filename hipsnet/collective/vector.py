# SPDX-License-Identifier: Apache-2.0
"""Several arrays as one vector: large ones stay where they are, small ones are packed into one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.engine.engine import Piece

PACKED_BYTES = 64 << 10
"""An array of fewer bytes is copied: that costs less than the message that it would take by itself."""

MOST_PIECES = 64
"""The engine's limit (`MESSAGE_BUFFERS`): of more large arrays, the smallest are packed, too."""


@dataclass(frozen=True)
class Layout:
    """The order of arrays in a vector: `direct`, then the packed ones; both are indices of the caller's list.

    `edges`: where each piece begins and the last one ends, in elements.
    """

    direct: tuple[int, ...]
    packed: tuple[int, ...]
    edges: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.edges[-1]

    @property
    def cuts(self) -> tuple[int, ...]:
        """The boundaries between pieces: a segment lies within one piece."""
        return self.edges[1:-1]


def layout(sizes: Sequence[int], itemsize: int) -> Layout:
    """The layout of arrays with these numbers of elements. It is the same on every rank with the same sizes."""
    if len(sizes) == 1:
        return Layout((0,), (), (0, sizes[0]))
    large = [i for i, size in enumerate(sizes) if size * itemsize >= PACKED_BYTES]
    if len(large) > MOST_PIECES - 1:
        large = sorted(sorted(large, key=lambda i: -sizes[i])[: MOST_PIECES - 1])
    kept = set(large)
    packed = [i for i, size in enumerate(sizes) if size and i not in kept]
    lengths = [sizes[i] for i in large]
    if packed or not large:
        lengths.append(sum(sizes[i] for i in packed))
    return Layout(tuple(large), tuple(packed), (0, *(int(edge) for edge in np.cumsum(lengths))))


class Vector:
    """Arrays (1-D, C-contiguous, of one dtype) that a call sees as one vector."""

    def __init__(self, arrays: Sequence[NDArray[Any]], placed: Layout) -> None:
        self._arrays = arrays
        self._layout = placed
        self._packed: NDArray[Any] | None = None
        found = [arrays[i] for i in placed.direct]
        if len(placed.edges) - 1 > len(found):
            self._packed = np.empty(placed.edges[-1] - placed.edges[-2], arrays[0].dtype)
            for part, array in self._parts(self._packed):
                part[:] = array
            found.append(self._packed)
        self.pieces = [Piece(array, first) for array, first in zip(found, placed.edges, strict=False)]

    def unpack(self) -> None:
        """Copy the results of the packed arrays back."""
        if self._packed is not None:
            for part, array in self._parts(self._packed):
                array[:] = part

    def _parts(self, packed: NDArray[Any]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        arrays = [self._arrays[i] for i in self._layout.packed]
        edges = np.cumsum([0, *(array.size for array in arrays)])
        return [(packed[a:b], array) for (a, b), array in zip(pairwise(edges), arrays, strict=True)]
