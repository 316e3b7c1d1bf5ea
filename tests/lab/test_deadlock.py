# SPDX-License-Identifier: Apache-2.0
"""A real deadlock: four servers in a ring pause one another until the watchdog breaks the cycle."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from hipsnet.node import namespace, pins
from hipsnet.stack.ports.loop import Stack, core
from hipsnet.stack.xsk.sockets import PortConfig
from hipsnet.topology import Fabric
from hipsnet.topology.fabric import Port, Server
from tests.kernel.frames import pfc
from tests.lab.rig import Lab, hipsnet
from tests.stack.passing import roce_frame, working

MakeLab = Callable[..., Lab]

PRIORITY = 3
RATE = 50_000_000
XOFF_S = 65535 * 512 / RATE
DETECT_MS = 5000
XOFF_CHUNKS, XON_CHUNKS = 20, 5
FRAMES = 60
RING = {"kind": "torus", "dims": [4]}


def onward(server: Server) -> Port:
    return next(port for port in server.ports if port.direction == 1)


def after(fabric: Fabric, server: Server) -> Server:
    return next(other for other in fabric.servers if other.name == fabric.peer(onward(server)).node)


def stack_of(lab: Lab, server: Server, watchdog: tuple[int, int, str]) -> AbstractContextManager[Stack]:
    """The endpoint of a server, polled continuously."""
    folder = pins.node_folder(lab.name, server.name)
    configs = [
        PortConfig(
            port.name, port.mac, 9000, folder, port.index, rate_bps=RATE, priority=PRIORITY,
            xoff_chunks=XOFF_CHUNKS, xon_chunks=XON_CHUNKS, watchdog=watchdog,
        )
        for port in server.ports
    ]  # fmt: skip
    return working(lab.namespace(server.name), configs)


@contextmanager
def sender(lab: Lab, port: Port) -> Iterator[socket.socket]:
    """Send on a port and bypass everything that honours a pause."""
    with (
        namespace.inside(lab.namespace(port.node)),
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made,
    ):
        made.bind((port.name, 0))
        yield made


def close_the_cycle(lab: Lab, fabric: Fabric) -> None:
    """Pause each server's onward port once, while each server sends through its neighbour to the next one."""
    ways = [onward(server) for server in fabric.servers]
    with ExitStack() as closing:
        back = [closing.enter_context(sender(lab, fabric.peer(port))) for port in ways]
        forth = [closing.enter_context(sender(lab, port)) for port in ways]
        for way in back:
            way.send(pfc(1 << PRIORITY))
        for server, port, way in zip(fabric.servers, ways, forth, strict=True):
            target = after(fabric, after(fabric, server))
            addresses = str(server.identity), str(target.identity)
            frame = roce_frame(addresses, (port.mac, fabric.peer(port).mac), bytes(1000))
            for _ in range(FRAMES):
                way.send(frame)


def deadlocks(lab: Lab) -> list[dict[str, object]]:
    done = hipsnet("pfc", "events", lab.file, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["deadlocks"]
    return found


def test_a_deadlock_that_sustains_itself_is_named_and_broken(make_lab: MakeLab) -> None:
    lab = make_lab(RING, link={"rate": "100Mbit/s"}, pfc={"priorities": [PRIORITY]})
    lab.provision()
    core()
    _, fabric = lab.load()
    ring = [fabric.servers[0]]
    while (following := after(fabric, ring[-1])) is not ring[0]:
        ring.append(following)
    with ExitStack() as closing:
        stacks = {
            server.name: closing.enter_context(stack_of(lab, server, (DETECT_MS, 300, "drop")))
            for server in fabric.servers
        }

        def total(counter: str) -> int:
            counts = [stacks[server.name].counters(port.index) for server in ring for port in server.ports]
            return sum(count[counter] for count in counts)

        assert deadlocks(lab) == []
        close_the_cycle(lab, fabric)
        time.sleep(2 * XOFF_S)  # from now on only the cycle itself sends pauses
        names = [f"{server.name}.{onward(server).name}" for server in ring]
        while not (found := deadlocks(lab)):  # a scheduling delay can interrupt the deadlock for an interval
            assert total("storms") == 0, "broken before it was seen"
        assert found == [{"priority": PRIORITY, "queues": names}]
        end = time.monotonic() + 30
        while total("storms") == 0 or deadlocks(lab):
            assert time.monotonic() < end, "it is not broken"
        # One restored port releases all.
        assert 0 < total("storm_dropped") <= 4 * FRAMES
        assert total("transit_dropped") == 0
