# SPDX-License-Identifier: Apache-2.0
"""A connected transport becomes a wire, and an engine drives it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from hipsnet.engine.engine import Engine, Limits, State
from hipsnet.engine.wire.tcp import TcpWire
from hipsnet.engine.wire.wire import open_wire
from hipsnet.stack.roce.core import Core
from hipsnet.transport.interface import Peer
from tests.engine import world
from tests.engine.test_tcp import BOUND_S, LIMITS, connected, submit
from tests.engine.world import Call
from tests.transport.meeting import meeting


def test_the_sockets_of_a_tcp_transport_become_a_wire() -> None:
    with meeting([(0, 1)]) as ends:
        engines = [
            Engine(open_wire("tcp", end.transport, LIMITS.message_max), rank, 2, end.peers, LIMITS)
            for rank, end in enumerate(ends)
        ]
        work = [submit("torus(2)", rank, engine, Call(1000)) for rank, engine in enumerate(engines)]
        with ThreadPoolExecutor(2) as threads:
            waits = [
                threads.submit(engine.wait, one.call, BOUND_S)
                for engine, one in zip(engines, work, strict=True)
            ]
            assert [wait.result() for wait in waits] == [State.DONE] * 2
            list(threads.map(Engine.close, engines))
        assert all((one.array == Call(1000).result(2)).all() for one in work)


def test_slots_are_aligned_for_every_dtype(scripted: Core) -> None:
    """Also with a chunk or a limit of the wire that is no multiple of 8."""
    assert Limits.of_chunk(1, 1, 10_001).slot_bytes == 10_008
    near, far = connected()
    with far:
        wire = TcpWire([near.detach()], scripted.lib.MESSAGE_HEADER_MAX + 1001)
        engine = Engine(wire, 0, 2, [Peer(1, 0, "", 0, "")], LIMITS)
        assert engine._eager_bytes == 1000
        far.close()
        engine.close()
    for limits in (world.Limits(eager_bytes=12), world.Limits(slot_bytes=100)):
        with pytest.raises(AssertionError):  # the core is not created
            world.World(scripted, "torus(2)", limits=limits)
