# SPDX-License-Identifier: Apache-2.0
"""Jobs over xdp: a lab of real cables, with each rank a process in the namespace of its node."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hipsnet.node import namespace
from tests.collective.arena import Body, Outcome, Rank
from tests.lab.rig import Lab


@contextmanager
def started(lab: Lab, body: Body, **settings: Any) -> Iterator[list[Rank]]:
    """Start `body` on every rank of a provisioned lab; ends ranks that are still running."""
    _, fabric = lab.load()
    given = {
        "topology": str(lab.file),
        "world_size": len(fabric.servers),
        "token": secrets.token_hex(8),
        "transport": "xdp",
        **settings,
    }
    ranks = []
    try:
        for rank, server in enumerate(fabric.servers):
            with namespace.inside(lab.namespace(server.name)):
                ranks.append(Rank(body, {"rank": rank, **given}))
        yield ranks
    finally:
        for each in ranks:
            each.end()


def run(lab: Lab, body: Body, bound_s: float = 60, **settings: Any) -> list[Outcome]:
    """Run `body` on every rank and return their outcomes by rank."""
    with started(lab, body, **settings) as ranks:
        return [rank.outcome(bound_s) for rank in ranks]
