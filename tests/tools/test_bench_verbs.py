# SPDX-License-Identifier: Apache-2.0
"""`tools/bench verbs`: evaluation of its turns, and refused options; the turns themselves run in the machine."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from hipsnet.errors import TransportError
from tools.benchmarks.verbs import Sample, app, summarize
from tools.benchmarks.verbs_turns import BYTES, MOST, WRITES, first_possible, printed_rate, writes_of

PRINTED = """\
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      512              0.00               {average}   \t\t   0.000512
---------------------------------------------------------------------------------------
"""


def test_the_median_turn_counts() -> None:
    turns = [Sample("verbs", 64, rate, 1 / rate) for rate in (90.0, 95.0, 20.0)]
    turns += [Sample("ib_write_bw", 64, rate, 0.0) for rate in (100.0, 1.0, 900.0)]
    turns += [Sample("tcp", 64, 45.0, 1e-6), Sample("callbacks", 64, 30.0, 5e-6)]
    (result,) = summarize(turns)
    assert (result["verbs"], result["ib_write_bw"], result["tcp"]) == (90, 100, 45)
    assert result["of_ib_write_bw"] == pytest.approx(0.9)
    assert result["of_tcp"] == pytest.approx(2)
    assert result["verbs_cpu_us"] == pytest.approx(1e6 / 90)
    assert result["callbacks_cpu_us"] == pytest.approx(5)


def test_a_turn_is_long_enough_for_every_size() -> None:
    assert writes_of(1 << 26) == WRITES
    assert writes_of(65536) == BYTES // 65536
    assert writes_of(64) == MOST


def test_perftest_reports_its_average_in_mib_per_second() -> None:
    assert printed_rate(PRINTED.format(average="32.00"), 65536) == 32 << 20
    with pytest.raises(TransportError, match=r"(?s)printed no bandwidth for 4096 bytes; its output:.*#bytes"):
        printed_rate(PRINTED.format(average="32.00"), 4096)


def test_an_impossible_turn_of_perftest_is_repeated() -> None:
    """It wrote 32 MiB, and has lived for 2 s: less than 16 MiB/s cannot be."""
    turns = [(PRINTED.format(average=average), 2.0) for average in ("0.00", "15.90", "32.00", "40.00")]
    assert first_possible(iter(turns), 65536) == 32 << 20
    with pytest.raises(TransportError, match=r"(?s)0 bytes/s in 2\.0 s; .* in 2\.0 s; look at .*#iterations"):
        first_possible(turns[:2], 65536)


def test_refuses_sizes_that_cannot_be_sent() -> None:
    for sizes in ("", "0", "64,67108868", "big"):
        done = CliRunner().invoke(app, ["--sizes", sizes])
        assert done.exit_code != 0
        assert "allowed: 4 to 67108864" in str(done.exception)


def test_refuses_a_size_that_is_not_whole_elements() -> None:
    done = CliRunner().invoke(app, ["--sizes", "64,6"])
    assert "found 6; allowed: multiples of 4" in str(done.exception)
