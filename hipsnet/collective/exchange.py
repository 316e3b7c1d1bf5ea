"""How the members of one group exchange blocks: the building block of every algorithm.

A group has m members and, of one range of the vector, m blocks. `scatter` leaves member i with the sum of block i;
`gather` gives every member all the blocks. Each is a list of moves between positions in the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hipsnet.collective.schedule import COPY, REDUCE


class Move(NamedTuple):
    """In `round`, member `src` sends blocks [first, first + blocks) to member `dst`."""

    round: int
    src: int
    dst: int
    first: int
    blocks: int
    op: int


@dataclass(frozen=True)
class Exchange:
    """The two halves of an all-reduce inside a group."""

    scatter: tuple[Move, ...]
    gather: tuple[Move, ...]


def mesh(members: int) -> Exchange:
    """Everyone with everyone at once: 1 round each way, and m - 1 senders into each member."""
    pairs = [(i, j) for i in range(members) for j in range(members) if i != j]
    return Exchange(
        tuple(Move(0, i, j, j, 1, REDUCE) for i, j in pairs),
        tuple(Move(0, i, j, i, 1, COPY) for i, j in pairs),
    )


def ring(members: int, direction: int = 1) -> Exchange:
    """Around the ring in m - 1 rounds each way; `direction` -1 goes towards lower positions."""
    m, d = members, direction
    steps = [(t, i) for t in range(m - 1) for i in range(m)]
    return Exchange(
        tuple(Move(t, i, (i + d) % m, (i - d * (t + 1)) % m, 1, REDUCE) for t, i in steps),
        tuple(Move(t, i, (i + d) % m, (i - d * t) % m, 1, COPY) for t, i in steps),
    )


def server(members: int, at: int) -> Exchange:
    """Member `at` sums for all: 2 rounds each way, and (m - 1) whole ranges through its port."""
    others = [i for i in range(members) if i != at]
    return Exchange(
        (
            *(Move(0, i, at, 0, members, REDUCE) for i in others),
            *(Move(1, at, i, i, 1, COPY) for i in others),
        ),
        (
            *(Move(0, i, at, i, 1, COPY) for i in others),
            *(Move(1, at, i, 0, i, COPY) for i in others),
            *(Move(1, at, i, i + 1, members - i - 1, COPY) for i in others),
        ),
    )
