"""Draining TCP sleeps until a socket that still has bytes to send can take them."""

from __future__ import annotations

import resource
import threading

import numpy as np

from hipsnet.transport.handshake import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.tcp import TcpTransport

PORT = 29481


def test_a_peer_that_hung_up_or_talks_does_not_keep_drain_awake() -> None:
    """Of three peers one has hung up, one has sent what nobody reads, and one takes nothing."""
    here = TcpTransport(Greeting(0, 4, "drain", "token"), PORT)
    others = [TcpTransport(Greeting(rank, 4, "drain", "token"), PORT) for rank in (1, 2, 3)]
    addresses = [f"127.83.0.{rank}" for rank in range(4)]
    threads = [
        threading.Thread(target=other.connect, args=([Peer(0, 0, addresses[rank], 0, addresses[0])], 20.0))
        for rank, other in enumerate(others, start=1)
    ]
    for thread in threads:
        thread.start()
    here.connect([Peer(rank, 0, addresses[0], 0, addresses[rank]) for rank in (1, 2, 3)], 20.0)
    for thread in threads:
        thread.join()
    here.post_message(0, b"nobody reads this, so closing resets the connection")
    here.poll(0)
    others[0].close()
    others[1].post_message(0, b"words")
    others[1].poll(0)
    much = here.register(np.zeros(64 << 20, np.uint8))
    here.post_write(2, much, 0, 64 << 20, 1, 0, 0)

    before = resource.getrusage(resource.RUSAGE_THREAD)
    here.drain(1.0)
    after = resource.getrusage(resource.RUSAGE_THREAD)
    assert after.ru_utime - before.ru_utime < 0.2
    for end in (here, *others[1:]):
        end.close()


def test_drain_hands_over_everything() -> None:
    near, far = (TcpTransport(Greeting(rank, 2, "drain", "token"), PORT + 1) for rank in (0, 1))
    a, b = "127.83.1.0", "127.83.1.1"
    thread = threading.Thread(target=far.connect, args=([Peer(0, 0, b, 0, a)], 20.0))
    thread.start()
    near.connect([Peer(1, 0, a, 0, b)], 20.0)
    thread.join()
    near.post_message(0, b"the last words")
    near.drain(5.0)
    near.close()
    found = [completion.payload for _ in range(3) for completion in far.poll(1.0)]
    assert found[0] == b"the last words"
    far.close()
