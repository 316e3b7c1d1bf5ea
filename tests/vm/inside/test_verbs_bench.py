# SPDX-License-Identifier: Apache-2.0
"""The turns of `tools/bench verbs`: each way really moves its bytes over the cable."""

from __future__ import annotations

from pathlib import Path

from tools.benchmarks.rdma_pair import rdma_pair
from tools.benchmarks.verbs_turns import TURNS, writes_of

SIZE = 65536


def test_each_way_sends_its_bytes_over_the_cable() -> None:
    with rdma_pair() as (near, _):
        counter = Path(f"/sys/class/net/{near.netdev}/statistics/tx_bytes")
        for way, turn in TURNS.items():
            before = int(counter.read_text())
            rate, cpu_s = turn(SIZE)
            assert rate > 0, way
            assert (cpu_s > 0) == (way != "ib_write_bw"), way
            assert int(counter.read_text()) - before > writes_of(SIZE) * SIZE, way
    assert not Path(f"/sys/class/net/{near.netdev}").exists()
