# SPDX-License-Identifier: Apache-2.0
"""`hipsnet calibrate`: the section that it writes into the topology file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsnet.collective.cost import Constants, constants
from hipsnet.errors import InputError
from hipsnet.topology import parse
from orchestrator.jobs import running
from orchestrator.jobs.calibration import calibrate, with_section

FILE = "version: 1\nname: demo\nfabric: {kind: bcube, n: 3, levels: 2}  # small\n"
FOUND = Constants(1.5, 2.0, 0.0, 16.8)


@pytest.mark.parametrize(
    "before",
    [
        FILE,
        FILE.rstrip(),
        FILE + "cost: {call_us: 9.0, step_us: 9.0, message_us: 9.0, byte_ns: 9.0}\nnodes: lab\n",
        "version: 1\ncost:\n  call_us: 9.0\n  step_us: 9.0\n  # by hand\n  message_us: 9.0\n  byte_ns: 9.0\n"
        + FILE.partition("\n")[2],
    ],
)
def test_the_section_is_added_or_replaced_and_the_rest_stays(before: str) -> None:
    after = with_section(before, FOUND)
    assert constants(parse(after, "after")) == FOUND
    assert after.count("cost:") == 1 and "# small" in after
    assert ("nodes: lab" in before) == ("nodes: lab" in after)
    assert with_section(after, FOUND) == after


def test_a_fixed_algorithm_cannot_be_calibrated(tmp_path: Path) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(FILE)
    with pytest.raises(InputError, match="omit --algorithm"):
        calibrate(file, "1KiB", running.Options(), {"algorithm": "ring"})
    assert file.read_text() == FILE
