# SPDX-License-Identifier: Apache-2.0
"""The moves of one member are those of all members from which the others' were removed."""

from __future__ import annotations

import pytest

from hipsnet.collective.exchange import Exchange, Moves, mesh, ring, server

EXCHANGES = (mesh(1), mesh(2), mesh(5), ring(2), ring(5), ring(5, -1), server(5), server(5, 3), server(1))


def rows(moves: Moves) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in vars(moves).values()), strict=True))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_one_members_moves(exchange: Exchange) -> None:
    for scatter, every in ((True, exchange.scatter), (False, exchange.gather)):
        parts = [exchange.sent_by(member, scatter=scatter) for member in range(exchange.members)]
        assert sorted(row for part in parts for row in rows(part)) == rows(every)
        for member, part in enumerate(parts):
            assert (part.src == member).all()
