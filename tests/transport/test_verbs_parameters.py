# SPDX-License-Identifier: Apache-2.0
"""The parameters that queue pairs exchange: authenticated, checked, and refused with a reason."""

from __future__ import annotations

import socket
from dataclasses import replace
from ipaddress import IPv6Address
from time import monotonic

import pytest

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.qp_bootstrap import BYE, arrived_before, farewell, swap
from hipsnet.transport.verbs.devices import gid_of
from hipsnet.transport.verbs.layout import WINDOW
from hipsnet.transport.verbs.parameters import PARAMETERS_BYTES, Parameters
from hipsnet.transport.verbs.status import explain

PEER = Peer(3, 1, "10.0.0.1", 0, "10.0.0.2")
SEAL = Greeting(0, 4, "same", "token").seal
GOOD = Parameters(17, 0xABCDEF, gid_of("10.0.0.2"), 5, (77, 0x7F0000001000))


def test_parameters_come_back_as_they_were() -> None:
    raw = GOOD.pack(SEAL)
    assert len(raw) == PARAMETERS_BYTES
    assert Parameters.unpack(raw, SEAL, PEER) == GOOD


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (replace(GOOD, gid=gid_of("10.0.0.9")), "expected: the GID of 10.0.0.2 ::ffff:a00:2"),
        (replace(GOOD, gid=IPv6Address("fe80::1")), "sent fe80::1"),
        (replace(GOOD, window=WINDOW + 1), f"a window of {WINDOW}"),
        (replace(GOOD, message_limit=9), "sent 9; expected: messages of at most"),
        (replace(GOOD, mtu=6), "path MTU code 6"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(theirs: Parameters, words: str) -> None:
    with pytest.raises(TransportError) as caught:
        Parameters.unpack(theirs.pack(SEAL), SEAL, PEER)
    assert words in str(caught.value)
    assert "rank 3 (10.0.0.2) at level 1" in str(caught.value)


def test_parameters_of_a_stranger_are_refused() -> None:
    stranger = Greeting(0, 4, "same", "other").seal
    with pytest.raises(TransportError, match="wrong seal"):
        Parameters.unpack(GOOD.pack(stranger), SEAL, PEER)


def test_swap_names_the_peer_that_sends_nothing() -> None:
    here, there = socket.socketpair()
    with here, there, pytest.raises(TransportError, match=r"rank 3 .* did not set up its queue pair: timed"):
        swap([here], [PEER], [b"x"], 1, monotonic() + 0.05)
    here, there = socket.socketpair()
    there.close()
    with here, pytest.raises(TransportError, match=r"rank 3 .* did not set up its queue pair"):
        swap([here], [PEER], [b"x"], 1, monotonic() + 5)


def test_swap_reads_parameters_in_several_segments() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.send(b"ab")
        there.send(b"cdEXTRA")
        assert swap([here], [PEER], [b"wxyz"], 4, monotonic() + 5) == [b"abcd"]
        assert there.recv(10) == b"wxyz"
        assert here.recv(10) == b"EXTRA"


def test_farewells() -> None:
    assert arrived_before(farewell(77)) == 77
    assert arrived_before(b"") == 0
    assert arrived_before(BYE.pack(b"????", 77)) == 0


def test_every_status_is_explained_with_the_text_of_libibverbs() -> None:
    retries = explain(12, 0x81, "rxe0 port 1 (eth5)", "DOWN")
    assert retries.startswith("transport retry counter exceeded (verbs status 12, vendor error 0x81)")
    assert "rxe0 port 1 (eth5) is DOWN here" in retries
    assert "the cable" in retries
    assert "DOWN" not in explain(12, 0, "rxe0 port 1 (eth5)", "ACTIVE")
    assert "remote access error" in explain(10, 0, "p", "ACTIVE")
    assert "unknown status (verbs status 99)" in explain(99, 0, "p", "ACTIVE")
