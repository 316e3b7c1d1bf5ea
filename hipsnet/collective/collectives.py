# SPDX-License-Identifier: Apache-2.0
"""The collectives: which rank contributes to which range at the start, and which rank holds its sum at the end.

Every collective works on one vector. Where a range has one contributor, its sum is a copy. In all_to_all the
vector is the concatenation of the inputs of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import InputError

EVERY = -1
"""In place of a rank: all ranks."""

Column = NDArray[np.int64]

_ENDS = {
    # name: (contributors, holders of the sums); "share": the rank to which the range belongs
    "all_reduce": ("every", "every"),
    "reduce_scatter": ("every", "share"),
    "all_gather": ("share", "every"),
    "broadcast": ("root", "every"),
    "reduce": ("every", "root"),
    "gather": ("share", "root"),
    "scatter": ("root", "share"),
    "all_to_all": ("sender", "receiver"),
    "barrier": ("every", "every"),
}
NAMES = tuple(_ENDS)
"""The names of all collectives. A barrier is an all_reduce of one element."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The ranges [edges[i], edges[i+1]) of a vector with their contributor and holder: a rank, or EVERY."""

    edges: Column
    contributor: Column
    holder: Column


@dataclass(frozen=True)
class Collective:
    """A collective by name, with the rank of its root and the elements of each rank's share.

    `counts`: one number for each rank; for all_to_all one for each pair of ranks, row by row: element
    [s * N + d] is what rank s sends to rank d. Empty: equal shares, as far as the length divides.
    Raises InputError for an unknown name, and for a root or counts that this collective does not have.
    """

    name: str = "all_reduce"
    root: int = 0
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in _ENDS:
            raise InputError(f"collective: found {self.name!r}; allowed: {', '.join(NAMES)}")
        if self.root and not self.has_root:
            raise InputError(f"root: {self.name} has no root; leave it out")
        if self.counts and not self.has_shares:
            raise InputError(f"counts: {self.name} has no shares; leave it out")
        if self.counts and min(self.counts) < 0:
            raise InputError(f"counts: found {min(self.counts)}; allowed: 0 or more elements")

    @property
    def has_root(self) -> bool:
        """Whether one rank gives or receives the whole vector."""
        return "root" in _ENDS[self.name]

    @property
    def has_shares(self) -> bool:
        """Whether ranges of the vector belong to single ranks, in rank order."""
        return not {"share", "sender"}.isdisjoint(_ENDS[self.name])

    @property
    def reduces(self) -> bool:
        """Whether elements have more than one contributor."""
        return _ENDS[self.name][0] == "every"

    def total(self, count: int, ranks: int) -> int:
        """Return the length of the schedule's vector if the longest array of a rank has `count` elements."""
        return count * ranks if self.name == "all_to_all" else count

    def shares(self, count: int, ranks: int) -> Column:
        """Return the edges of the shares of a vector of `count` elements: one range for each rank, in order.

        For all_to_all: one range for each pair of ranks. Raises InputError if the counts do not fit.
        """
        parts = ranks**2 if self.name == "all_to_all" else ranks
        if not self.counts:
            return np.arange(parts + 1, dtype=np.int64) * count // parts
        if len(self.counts) != parts or sum(self.counts) != count:
            raise InputError(
                f"counts: found {len(self.counts)} numbers with the sum {sum(self.counts)}; "
                f"allowed: {parts} numbers with the sum {count}"
            )
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])

    def terms(self, count: int, ranks: int) -> Terms:
        """Return what the collective requires of `ranks` ranks. Raises InputError for a root that is no rank."""
        if not 0 <= self.root < ranks:
            raise InputError(f"root: found {self.root}; allowed: 0 to {ranks - 1}")
        edges = self.shares(count, ranks) if self.has_shares else np.array([0, count], np.int64)
        ranges = np.arange(len(edges) - 1)
        rank = {
            "every": np.full_like(ranges, EVERY),
            "root": np.full_like(ranges, self.root),
            "share": ranges,
            "sender": ranges // ranks,
            "receiver": ranges % ranks,
        }
        contributor, holder = (rank[end] for end in _ENDS[self.name])
        return Terms(edges, contributor, holder)


ALL_REDUCE = Collective()
