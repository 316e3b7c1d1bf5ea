# SPDX-License-Identifier: Apache-2.0
"""A connected transport becomes a wire, and an engine drives it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hipsnet.engine.engine import Engine, State
from hipsnet.engine.wire.wire import open_wire
from tests.engine.test_tcp import BOUND_S, LIMITS, submit
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
