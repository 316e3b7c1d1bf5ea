# SPDX-License-Identifier: Apache-2.0
"""Nodes for the tests of the XDP programs: one that forwards, and one at the other end of its cables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hipsnet.node.attaching import attach_cable, attach_forwarding
from hipsnet.node.forwarding import fill_table
from hipsnet.node.priorities import set_priorities
from tests.kernel.rig import PRIORITIES, TABLE, Rig, node


@pytest.fixture(scope="module")
def router() -> Iterator[Rig]:
    """A server's node with TABLE and PRIORITIES filled in."""
    with node("router", attach_forwarding) as rig:
        fill_table(rig.fabric, rig.node, TABLE)
        set_priorities(rig.fabric, rig.node, PRIORITIES)
        yield rig


@pytest.fixture(scope="module")
def switch() -> Iterator[Rig]:
    """The other ends of three cables."""
    with node("switch", attach_cable) as rig:
        yield rig
