# SPDX-License-Identifier: Apache-2.0
"""The ranges of a thread's pieces in the vector."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Piece p is [start[p], stop[p]). `are_adjacent`: each piece begins where the one before ends."""

    start: Column
    stop: Column
    are_adjacent: bool

    def placed(self, transfers: NDArray[Any], first: Column, span: int) -> NDArray[Any]:
        """Set the ranges of transfers: transfer i has the pieces `first[i]` to `first[i]` + `span` - 1.

        Pieces that are not adjacent become a transfer each.
        """
        if self.are_adjacent or span == 1:
            last = first + span - 1
        else:
            transfers = np.repeat(transfers, span)
            first = last = (first[:, None] + np.arange(span)).ravel()
        transfers["offset"] = self.start[first]
        transfers["length"] = self.stop[last] - self.start[first]
        return transfers


def adjacent_pieces(start: int, stop: int, weights: Column) -> Pieces:
    """Cut [start, stop) into pieces of these relative sizes, which are 0 or 1, as far as the length divides."""
    total = np.concatenate([[0], np.cumsum(weights)])
    edges = start + (stop - start) * total // max(1, int(total[-1]))
    return Pieces(edges[:-1], edges[1:], are_adjacent=True)


def pieces_of_shares(edges: Column, owner: Column, portion: tuple[Fraction, Fraction]) -> Pieces:
    """Piece p is this portion of the share of rank `owner[p]`, which is [edges[rank], edges[rank + 1])."""
    length = np.diff(edges)
    start, stop = (edges[:-1] + length * part.numerator // part.denominator for part in portion)
    in_order = np.array_equal(owner, np.arange(len(owner)))
    return Pieces(start[owner], stop[owner], are_adjacent=in_order and portion[0] == 0 and portion[1] == 1)
