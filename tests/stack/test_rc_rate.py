# SPDX-License-Identifier: Apache-2.0
"""A queue pair keeps its rate and reduces it when switches signal congestion."""

from __future__ import annotations

import pytest

from hipsnet.stack.roce.core import Core
from tests.stack.link import Faults, Link, Side, connect
from tests.stack.test_rc import MIB, content, done

MS = 10**6
GBIT = 10**9


def rate_of(side: Side) -> int:
    """The rate that congestion control permits a side's pair, in bit/s."""
    if "rate_of" not in dir(side.lib):
        side.ffi.cdef("u64 rate_of(const struct rc *rc);")
    return int(side.lib.rate_of(side.pair))


@pytest.mark.parametrize("rate", [10**6, 10**8, 10**9, 40 * 10**9])
def test_the_rate_is_kept(core: Core, rate: int) -> None:
    """Over any time no more than the rate and a burst of 20 us allow; over all of it, no less."""
    a, b = connect(core, rate_bps=rate, window=4096, timeout_ns=10**12)
    memory = b.register(4 * MIB)
    size = min(4 * MIB, rate // 8 // 10)
    assert a.write(content(size), memory.address, memory.key)
    sent: list[tuple[int, int]] = []  # when, and the bits so far
    link = Link((a, b))
    link.lose = lambda to, frame: to == 1 and bool(sent.append((link.now, len(frame) * 8)))
    assert link.run(done(a, 1))
    total, budget = sum(bits for _, bits in sent), rate * 20e-6
    previous = sent[0][0]
    for when, bits in sent:  # a bucket of 20 us, which must never be overdrawn by more than a frame
        budget = min(budget + (when - previous) * rate / 1e9, rate * 20e-6) - bits
        previous = when
        assert budget > -1200 * 8
    assert (sent[-1][0] - sent[0][0]) * rate / 1e9 == pytest.approx(
        total, rel=0.01, abs=1200 * 8 + rate * 20e-6
    )
    assert memory.read(size) == content(size)


def test_a_slow_sender_is_not_mistaken_for_a_receiver_without_acks(core: Core) -> None:
    """Packets that follow each other at more than the time-out: each asks for its ACK."""
    a, b = connect(core, rate_bps=200_000, path_mtu=4096)  # 167 ms for a packet, 67 ms for the time-out
    memory = b.register(1 << 16)
    assert a.write(content(1 << 16), memory.address, memory.key)
    assert Link((a, b)).run(done(a, 1))
    assert memory.read(1 << 16) == content(1 << 16)
    assert (a.counters.timeouts, a.counters.repeated) == (0, 0)


def test_marks_slow_the_sender_down_and_silence_lets_it_recover(core: Core) -> None:
    rate = 10 * GBIT
    a, b = connect(core, rate_bps=rate, congestion_control=True, path_mtu=4096, window=1024)
    memory = b.register(4 * MIB)
    link = Link((a, b), Faults(mark=0.2))
    assert a.write(content(4 * MIB), memory.address, memory.key)
    assert link.run(done(a, 1))
    slow = rate_of(a)
    assert slow < rate / 5
    # The first CNP cuts by half: alpha is 1. There is none in the 50 us after another.
    assert 5 < b.counters.tx_cnps == a.counters.rx_cnps <= (link.now - 10**9) // 50_000 + 1
    assert b.counters.rx_congested > b.counters.tx_cnps
    link.faults = Faults()
    rates = [slow]
    for _ in range(20):
        link.now += 50 * MS
        assert a.write(content(64), memory.address, memory.key)
        assert link.run(lambda: core.lib.rc_unacknowledged(a.pair) == 0)
        rates.append(rate_of(a))
    assert rates == sorted(rates)
    assert rates[-1] == rate
    assert a.counters.repeated == 0
    assert memory.is_guarded()


def test_the_reduced_rate_is_kept(core: Core) -> None:
    a, b = connect(core, rate_bps=GBIT, congestion_control=True)
    memory = b.register(MIB)
    link = Link((a, b), Faults(mark=1.0))
    assert a.write(content(MIB), memory.address, memory.key)
    assert link.run(lambda: a.counters.rx_cnps == 8)
    begin, before = link.now, a.counters.tx_bytes
    assert rate_of(a) < GBIT / 10
    assert link.run(lambda: link.now - begin > 20 * MS)
    assert 0 < (a.counters.tx_bytes - before) * 8 * 1e9 / (link.now - begin) < GBIT / 50


def test_frames_are_marked_ecn_capable(core: Core) -> None:
    for control, ecn in ((False, 0), (True, 2)):
        a, b = connect(core, rate_bps=GBIT, congestion_control=control, dscp=26, cnp_dscp=48)
        b.receive(4)
        assert a.send(b"1234")
        assert a.transmit(1)[15] == 26 << 2 | ecn
        a.close()
        b.close()


def test_a_cnp_precedes_all_other_frames(core: Core) -> None:
    a, b = connect(core, rate_bps=GBIT, congestion_control=True)
    b.receive(4)
    assert a.send(b"1234")
    link = Link((a, b), Faults(mark=1.0))
    assert link.run(done(a, 1))
    _data, cnp, ack = link.frames
    assert (cnp[42], cnp[46] & 0x40, cnp[15], len(cnp)) == (0x81, 0x40, 48 << 2, 74)
    assert ack[42] == 0x11
