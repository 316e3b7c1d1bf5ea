# SPDX-License-Identifier: Apache-2.0
"""Two stacks at the ends of a cable, with one connection between them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.node import namespace
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.roce.pair import Done, Pair
from tools.benchmarks.two_nodes import End

PRIORITY, DSCP = 3, 26


@dataclass
class Side:
    """One end; `done` are the completions of its pair so far."""

    end: End
    stack: Stack
    pair: Pair
    memory: NDArray[np.uint8]
    key: int
    done: list[Done] = field(default_factory=list)

    def work(self, timeout_s: float = 0.001) -> None:
        for done in self.stack.poll(timeout_s):
            assert done.status == 0, done
            self.done.append(done)
            if done.kind:
                self.pair.post_receive(done.id)

    def write(self, other: Side, number: int) -> None:
        """The whole memory into the other's."""
        address = self.stack.pointer(self.memory)
        assert self.pair.post_write(number, address, self.memory.size, 0, other.key, number)


@contextmanager
def joined(
    ends: tuple[End, End], size: int, timeout_s: float = 5, **port: Any
) -> Iterator[tuple[Side, Side]]:
    """A packet is repeated after `timeout_s` without an answer; `port` are fields of PortConfig for both."""
    sides: list[Side] = []
    try:
        for end in ends:
            stack = Stack()
            with namespace.inside(end.namespace):
                stack.open_ports([end.port(priority=PRIORITY, **port)])
            memory = np.zeros(size, np.uint8)
            pair = stack.pair(0, 7, PRIORITY, 64)
            pair.post_receives(64, 256)
            sides.append(Side(end, stack, pair, memory, stack.register(memory)))
        _connect(sides[0], sides[1], timeout_s)
        _connect(sides[1], sides[0], timeout_s)
        yield sides[0], sides[1]
    finally:
        for side in sides:
            side.stack.close()


def _connect(near: Side, far: Side, timeout_s: float) -> None:
    near.pair.connect(
        0,
        time.monotonic_ns(),
        local_mac=bytes.fromhex(near.end.mac.replace(":", "")),
        peer_mac=bytes.fromhex(far.end.mac.replace(":", "")),
        local_ip=int(IPv4Address(near.end.address)),
        peer_ip=int(IPv4Address(far.end.address)),
        peer_qpn=far.pair.number,
        send_psn=100,
        receive_psn=100,
        source_port=50000,
        path_mtu=4096,
        dscp=DSCP,
        credits=True,
        window=256,
        timeout_ns=int(timeout_s * 1e9),
    )
