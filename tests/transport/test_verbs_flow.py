# SPDX-License-Identifier: Apache-2.0
"""Credits and signals: whatever the interleaving, a receive is always posted and nothing is lost or stuck."""

from __future__ import annotations

import random
from collections import deque

import pytest

from hipsnet.transport.verbs.flow import (
    CREDIT,
    RECEIVES,
    SENDS,
    SIGNAL_EVERY,
    WINDOW,
    Incoming,
    Message,
    Outgoing,
    Posting,
    Write,
)


def write(immediate: int) -> Write:
    return Write(1, 0, 8, 1, 0, immediate)


class End:
    """One end of a connection as the transport drives it; the wire is a queue, the receives are counted."""

    def __init__(self) -> None:
        self.outgoing, self.incoming = Outgoing(), Incoming()
        self.wire: deque[tuple[Posting, int]] = deque()  # in flight from here: (piece, credit)
        self.landed: deque[tuple[Posting, int]] = deque()  # in a receive here, not polled yet
        self.signals: deque[int] = deque()  # signalled pieces that the peer's device has acknowledged
        self.got: list[Write | Message] = []
        self.sent: list[int] = []

    def start(self) -> None:
        if self.incoming.owes_credit() and CREDIT not in self.outgoing.waiting:
            self.outgoing.waiting.appendleft(CREDIT)
        for posting in self.outgoing.take():
            self.wire.append(
                (posting, self.incoming.take_credit() if isinstance(posting.work, Message) else -1)
            )

    def carry(self, peer: End) -> None:
        """One piece arrives at the peer's device: it needs a receive that is posted there."""
        piece = self.wire.popleft()
        assert len(peer.landed) < RECEIVES, "receiver not ready"
        peer.landed.append(piece)
        if piece[0].signalled:
            self.signals.append(piece[0].number)

    def look(self) -> None:
        """The program consumes one arrival and one acknowledgement."""
        if self.landed:
            posting, credit = self.landed.popleft()
            self.incoming.took(posting.work is not CREDIT)
            if credit >= 0:
                self.outgoing.grant(credit)
            if posting.work is not CREDIT:
                self.got.append(posting.work)
        if self.signals:
            self.sent += self.outgoing.finished(self.signals.popleft() + 1)
        self.start()


@pytest.mark.parametrize("seed", range(20))
def test_everything_arrives_in_order_and_a_receive_is_always_there(seed: int) -> None:
    chance = random.Random(seed)
    a, b = End(), End()
    # Some runs are one-way, some let one end sleep through most of the other's work.
    counts = chance.choice([(1000, 0), (700, 700), (900, 30)])
    lazy = chance.choice([1, 1, 40])
    posted: list[list[Write | Message]] = []
    for end, count in zip((a, b), counts, strict=True):
        work: list[Write | Message] = [
            write(i) if chance.random() < 0.7 else Message(1, b"%d" % i) for i in range(count)
        ]
        end.outgoing.waiting.extend(work)
        end.start()
        posted.append(work)
    for _ in range(200_000):
        end, peer = chance.choice([(a, b), (b, a)])
        if end.wire and chance.random() < 0.6:
            end.carry(peer)
        elif end is a or not chance.randrange(lazy):
            end.look()
        if a.outgoing.idle and b.outgoing.idle and not (a.landed or b.landed):
            break
    assert b.got == posted[0]
    assert a.got == posted[1]
    for end, work in zip((a, b), posted, strict=True):
        assert end.sent == [w.immediate for w in work if isinstance(w, Write)]


def test_a_peer_that_receives_nothing_stops_the_sender_at_the_window() -> None:
    outgoing = Outgoing()
    outgoing.waiting.extend(write(i) for i in range(3 * WINDOW))
    assert len(outgoing.take()) == WINDOW
    assert outgoing.take() == []
    outgoing.grant(5)
    assert [posting.number for posting in outgoing.take()] == list(range(WINDOW, WINDOW + 5))


def test_abandoned_writes_free_the_window_for_messages() -> None:
    outgoing = Outgoing()
    outgoing.waiting.extend([*(write(i) for i in range(WINDOW + 5)), Message(1, b"last words")])
    posted = outgoing.take()
    outgoing.abandon()
    outgoing.grant(1)
    assert [posting.work for posting in outgoing.take()] == [Message(1, b"last words")]
    assert list(outgoing.finished(WINDOW + 1)) == list(range(len(posted)))
    assert outgoing.idle


def test_the_send_queue_is_never_overfilled() -> None:
    outgoing = Outgoing()
    outgoing.grant(10 * SENDS)
    outgoing.waiting.extend(write(i) for i in range(3 * SENDS))
    assert len(outgoing.take()) == SENDS
    assert outgoing.take() == []
    assert list(outgoing.finished(7)) == list(range(7))
    assert len(outgoing.take()) == 7


def test_signals_are_few_and_the_last_piece_has_one() -> None:
    outgoing = Outgoing()
    outgoing.waiting.extend(write(i) for i in range(2 * SIGNAL_EVERY + 3))
    signalled = [posting.number for posting in outgoing.take() if posting.signalled]
    assert signalled == [SIGNAL_EVERY - 1, 2 * SIGNAL_EVERY - 1, 2 * SIGNAL_EVERY + 2]
    assert list(outgoing.finished(signalled[0] + 1)) == list(range(SIGNAL_EVERY))


def test_a_credit_needs_no_credit() -> None:
    outgoing = Outgoing()
    outgoing.waiting.extend(write(i) for i in range(WINDOW + 1))
    outgoing.take()
    outgoing.waiting.appendleft(CREDIT)
    assert [posting.work for posting in outgoing.take()] == [CREDIT]


def test_credit_is_owed_once_half_the_window_is_used() -> None:
    incoming = Incoming()
    for _ in range(WINDOW // 2 - 1):
        incoming.took(paid=True)
    incoming.took(paid=False)
    assert not incoming.owes_credit()
    incoming.took(paid=True)
    assert incoming.owes_credit()
    assert incoming.take_credit() == WINDOW // 2
    assert not incoming.owes_credit()
