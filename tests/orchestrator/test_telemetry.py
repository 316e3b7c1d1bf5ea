# SPDX-License-Identifier: Apache-2.0
"""From counters to rates, pauses and storms: pure functions, on numbers of every kind."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsnet.topology import Topology, build
from orchestrator.telemetry import fields, printing
from orchestrator.telemetry.cables import Peers, sum_up
from orchestrator.telemetry.events import changes_of_links, changes_of_storms, storms
from orchestrator.telemetry.fields import ALL, FIELDS, PRIORITY_SLOTS
from orchestrator.telemetry.monitor import Monitor
from orchestrator.telemetry.pauses import pauses, roots, stoppers_of
from orchestrator.telemetry.ports import WatchedPorts, watch_lab
from orchestrator.telemetry.rates import Rates, between, increase, possible
from orchestrator.telemetry.reading import Reading, empty
from orchestrator.telemetry.sample import priorities, sample

MOST = 10_000_000


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


@given(
    start=st.integers(0, 2**64 - 1),
    steps=st.lists(st.integers(0, MOST), max_size=30),
    bits=st.sampled_from([32, 64]),
)
def test_a_counter_that_wraps_around_loses_nothing(start: int, steps: list[int], bits: int) -> None:
    value, total = start % 2**bits, 0
    for step in steps:
        after = (value + step) % 2**bits
        total += int(increase(u64(value), u64(after), u64(MOST))[0])
        value = after
    assert total == sum(steps)


@given(before=st.integers(MOST + 1, 2**32 - 1 - MOST), after=st.integers(0, MOST))
def test_a_restarted_counter_counts_from_zero(before: int, after: int) -> None:
    assert int(increase(u64(before), u64(after), u64(MOST))[0]) == after


@given(before=st.integers(0, 2**64 - 1), after=st.integers(0, 2**64 - 1))
def test_nothing_grows_by_more_than_possible_but_forwards_or_from_zero(before: int, after: int) -> None:
    grown = int(increase(u64(before), u64(after), u64(MOST))[0])
    assert grown == after - before or grown == after or (after < before and grown <= MOST)


def ports_of(**fabric: object) -> WatchedPorts:
    topology = Topology.model_validate({"version": 1, "name": "demo", "fabric": fabric})
    return watch_lab(topology, build(topology))


@pytest.fixture
def bcube() -> WatchedPorts:
    return ports_of(kind="bcube", n=2, levels=2)


def reading(ports: WatchedPorts, time_s: float, **counts: dict[tuple[str, int], int]) -> Reading:
    """All ports up; `counts` by field, then by port's name and priority."""
    found = empty(time_s, len(ports))
    found.present[:] = found.up[:] = True
    for field, values in counts.items():
        for (name, priority), value in values.items():
            found.store(fields.INDEX[field], ports.numbers[name], priority, value)
    return found


def rates_of(ports: WatchedPorts, before: Reading, after: Reading) -> Rates:
    most = possible(after.time_s - before.time_s, [port.rate_bps for port in ports.ports])
    return between(before, after, most)


def test_rates_are_of_the_time_that_passed(bcube: WatchedPorts) -> None:
    before = reading(bcube, 10.0, rx_bytes={("s00.p0", ALL): 1000}, rx_pause_us={("s00.p0", 3): 0})
    after = reading(bcube, 12.0, rx_bytes={("s00.p0", ALL): 6000}, rx_pause_us={("s00.p0", 3): 500_000})
    found = sample(rates_of(bcube, before, after), bcube.numbers["s00.p0"], 3)
    assert found.rx_bps == 20_000 and found.port_wide == {"rx_bps"}
    assert found.rx_pause_share == 0.25
    assert found.tx_bps is None and found.drops_per_s is None


@given(
    before=st.integers(1, 10_000), after=st.integers(0, 10_000), rate=st.sampled_from([None, 10**8, 10**11])
)
def test_a_small_counter_that_falls_has_restarted(before: int, after: int, rate: int | None) -> None:
    """Even where a 32-bit counter of bytes could wrap within the second."""
    most = possible(1.0, [rate])[fields.RX_BYTES, 0, ALL]
    expected = after if after < before else after - before
    assert int(increase(u64(before), u64(after), most.reshape(1))[0]) == expected


def test_a_port_that_vanished_has_no_rate_and_one_that_restarted_begins_at_zero(bcube: WatchedPorts) -> None:
    there = {("s00.p0", ALL): 5}
    gone = reading(bcube, 1.0)
    gone.present[:] = False
    before, back = reading(bcube, 0.0, drops=there), reading(bcube, 2.0, drops=there)
    number = bcube.numbers["s00.p0"]
    for first, second in ((before, gone), (gone, back)):
        assert math.isnan(rates_of(bcube, first, second).amounts[fields.DROPS, number, ALL])
    back.epoch[number] = 1
    for first in (before, gone):
        assert rates_of(bcube, first, back).amounts[fields.DROPS, number, ALL] == 0
    others = np.delete(np.arange(len(bcube)), number)
    assert np.isnan(rates_of(bcube, before, back).amounts[:, others]).all()


def test_the_history_of_a_port_ends_where_its_counters_restart(bcube: WatchedPorts) -> None:
    number, other = bcube.numbers["s00.p0"], bcube.numbers["s01.p0"]
    readings = []
    for time_s, count, epoch in ((0, 0, 1), (1, 900, 1), (2, 1900, 1), (3, 7, 2), (4, 10, 2)):
        found = reading(bcube, time_s, rx_frames={("s00.p0", ALL): count, ("s01.p0", ALL): 100 * time_s})
        found.epoch[number] = epoch
        readings.append(found)
    monitor = Monitor(bcube, iter(readings).__next__)
    for _ in range(4):
        monitor.poll()
    past = monitor.past("rx_frames", number, ALL)
    assert past[~np.isnan(past)].tolist() == [0.0, 3.0]
    untouched = monitor.past("rx_frames", other, ALL)
    assert untouched[~np.isnan(untouched)].tolist() == [100.0] * 4


def test_what_one_end_received_the_other_has_sent(bcube: WatchedPorts) -> None:
    found = reading(
        bcube, 0.0, rx_pause_frames={("s00.p0", 3): 7, ("s00.p0", 5): 2}, tx_pause_us={("l0g0.p1", 3): 9}
    )
    Peers(bcube).read(found)
    sum_up(found)
    s00, s01, switch = (bcube.numbers[name] for name in ("s00.p0", "s01.p0", "l0g0.p0"))
    assert found.values[fields.TX_PAUSE_FRAMES, switch, 3] == 7
    assert found.values[fields.TX_PAUSE_FRAMES, switch, ALL] == 9
    assert found.values[fields.RX_PAUSE_US, s01, 3] == 9
    assert not found.known[fields.RX_PAUSE_US, s00].any()


def test_lines_are_lossless_priorities_paused_ones_and_whole_ports(bcube: WatchedPorts) -> None:
    found = reading(bcube, 0.0, rx_pause_frames={("s00.p0", 5): 1, ("s00.p0", 3): 0})
    rows = priorities(bcube, found).tolist()
    number = bcube.numbers["s00.p0"]
    assert [priority for port, priority in rows if port == number] == [5]
    assert all(priority == ALL for port, priority in rows if port != number)
    lossless = WatchedPorts(bcube.fabric, bcube.ports, (3,))
    assert len(priorities(lossless, found)) == len(bcube) + 1


def test_pauses_name_sender_receiver_and_root(bcube: WatchedPorts) -> None:
    """s01 stops l0g0, and so l0g0 stops s00; in another priority s11 stops l1g1."""
    known = {("l0g0.p1", 3): 0, ("s00.p0", 3): 0, ("l1g1.p1", 4): 0}
    before = reading(bcube, 0.0, rx_pause_frames=known)
    after = reading(bcube, 2.0, rx_pause_frames={("l0g0.p1", 3): 40, ("s00.p0", 3): 10, ("l1g1.p1", 4): 2})
    found = pauses(bcube, rates_of(bcube, before, after))
    stopped = [(pause.by, pause.of, pause.priority, pause.frames_per_s, pause.roots) for pause in found]
    assert stopped == [
        ("s01.p0", "l0g0.p1", 3, 20.0, ("s01",)),
        ("l0g0.p0", "s00.p0", 3, 5.0, ("s01",)),
        ("s11.p1", "l1g1.p1", 4, 1.0, ("s11",)),
    ]
    assert (found[1].culprit, found[1].victim, found[1].beginning) == ("l0g0", "s00", "s01")
    for name, waits in (("s01.p0", 10), ("s01.p1", 4000)):
        after.store(fields.BUFFER, bcube.numbers[name], 3, waits)
    found = pauses(bcube, rates_of(bcube, before, after))
    assert [pause.queues for pause in found] == [("s01.p1",), ("s01.p1",), ()]
    assert found[1].beginning == "s01.p1 queue"
    assert all(pause.roots for pause in found)


def test_a_cycle_of_pauses_has_no_root() -> None:
    ring = [("a", "b", 3), ("b", "c", 3), ("c", "a", 3), ("x", "a", 4)]
    assert all(roots(stoppers_of(ring), node, 3) == () for node in "abc")
    assert roots(stoppers_of([*ring, ("d", "a", 3)]), "c", 3) == ("d",)
    torus = ports_of(kind="torus", dims=(4,))
    ends = {(f"s{at}.p{way}", 3): 0 for at in range(4) for way in (0, 1)}
    stopped = {key: 5 if key[0].endswith("p0") else 0 for key in ends}
    found = pauses(
        torus,
        rates_of(
            torus, reading(torus, 0.0, rx_pause_frames=ends), reading(torus, 1.0, rx_pause_frames=stopped)
        ),
    )
    assert [pause.beginning for pause in found] == ["a circle"] * 4


def amounts(ports: WatchedPorts, **values: float) -> Rates:
    """Of one second; the values are those of port 0 in priority 3."""
    found = np.full((len(FIELDS), len(ports), PRIORITY_SLOTS), np.nan)
    for name, value in values.items():
        found[fields.INDEX[name], 0, 3] = value
    return Rates(1.0, found)


def test_a_storm_pauses_all_the_time_and_lets_no_frame_out(bcube: WatchedPorts) -> None:
    assert storms(amounts(bcube, rx_pause_us=995_000.0, tx_frames=0.0))[0, 3]
    assert storms(amounts(bcube, rx_pause_us=995_000.0))[0, 3]
    assert not storms(amounts(bcube, rx_pause_us=995_000.0, tx_frames=4.0)).any()
    assert not storms(amounts(bcube, rx_pause_us=900_000.0, tx_frames=0.0)).any()
    # where the time is not counted
    assert storms(amounts(bcube, rx_pause_frames=9.0, tx_frames=0.0, buffer_bytes=1.0))[0, 3]
    assert not storms(amounts(bcube, rx_pause_frames=9.0, tx_frames=0.0, buffer_bytes=0.0)).any()
    assert not storms(amounts(bcube, rx_pause_frames=0.0, tx_frames=0.0, buffer_bytes=1.0)).any()


def test_events_report_storms_and_links(bcube: WatchedPorts) -> None:
    calm = storms(amounts(bcube))
    wild = storms(amounts(bcube, rx_pause_us=1e6))
    first = bcube.ports[0]
    (begins,) = changes_of_storms(bcube, calm, wild)
    (ends,) = changes_of_storms(bcube, wild, calm)
    assert (begins.kind, begins.port, ends.kind) == ("storm", first.name, "storm over")
    assert first.peer_name in begins.detail
    before, after = reading(bcube, 0.0), reading(bcube, 1.0)
    after.up[0] = False
    after.present[1] = after.up[1] = False
    changes = [(event.kind, event.port) for event in changes_of_links(bcube, before, after)]
    assert changes == [("link down", first.name), ("vanished", bcube.ports[1].name)]
    restarted = reading(bcube, 1.0)
    restarted.epoch[2:5] = 1
    (reset,) = changes_of_links(bcube, before, restarted)
    assert (reset.kind, reset.port) == ("counters reset", bcube.ports[2].name)
    assert reset.detail == "and 2 more ports"
    changes = [(event.kind, event.port) for event in changes_of_links(bcube, after, before)]
    assert changes == [("link up", first.name), ("back", bcube.ports[1].name)]


def test_the_samples_of_a_port_contain_each_number_once(
    bcube: WatchedPorts, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pauses are counted in two priorities, bytes and losses for the whole port."""
    readings = [
        reading(
            bcube,
            time_s,
            rx_pause_frames={("s00.p0", 3): 2 * time_s, ("s00.p0", 5): time_s, ("s00.p0", ALL): 3 * time_s},
            rx_bytes={("s00.p0", ALL): 1000 * time_s},
            drops={("s00.p0", ALL): 4 * time_s},
        )
        for time_s in (0, 1)
    ]
    monitor = Monitor(bcube, iter(readings).__next__)
    snapshot = monitor.poll()
    printing.as_json(snapshot)
    found = [entry for entry in json.loads(capsys.readouterr().out)["samples"] if entry["port"] == "s00.p0"]
    assert [entry["priority"] for entry in found] == [3, 5, None]
    for rate, total, amount in (
        ("rx_pause_per_s", "rx_pause_frames", 3),
        ("rx_bps", "rx_bytes", 1000),
        ("drops_per_s", "drops", 4),
    ):
        assert sum(entry["total"].get(total, 0) for entry in found) == amount
        assert sum(entry[rate] or 0 for entry in found) == amount * (8 if rate == "rx_bps" else 1)
    printing.as_csv(snapshot)
    rows = [row for row in csv.DictReader(io.StringIO(capsys.readouterr().out)) if row["port"] == "s00.p0"]
    assert sum(int(row["rx_bytes_total"] or 0) for row in rows) == 1000
