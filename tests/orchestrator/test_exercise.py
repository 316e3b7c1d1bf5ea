# SPDX-License-Identifier: Apache-2.0
"""What `hipsnet run --collective` measures is checked: right results pass, and any wrong element is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsnet.collective.collectives import NAMES, Collective
from hipsnet.errors import InputError
from hipsnet.topology import build, parse
from orchestrator.jobs.exercise import Exercise
from orchestrator.jobs.pattern import PERIOD
from orchestrator.jobs.request import Request
from tests.collective.arena import arena

FABRIC = "{kind: bcube, n: 2, levels: 2}"
MEASURED = [name for name in NAMES if name != "barrier"]


def test_results_of_every_collective(tmp_path: Path) -> None:
    def body(comm: Any) -> list[str]:
        found = []
        for name in MEASURED:
            collective = Collective(name, 2 if Collective(name).has_root else 0)
            for count, dtype in ((4, np.float32), (4000, np.int64), (4 * (PERIOD // 2 + 5), np.float32)):
                exercise = Exercise(comm, collective, count, np.dtype(dtype))
                exercise.fill()
                exercise.run(async_op=False)
                right = exercise.wrong()
                has_result = name not in ("reduce", "gather") or comm.rank == 2
                if has_result:
                    exercise.result[len(exercise.result) // 2] += 1000
                if (right, exercise.wrong()) != (0, int(has_result)):
                    found.append(f"{name} of {count}: {right} and {exercise.wrong()} wrong")
        return found

    with arena(tmp_path, FABRIC) as place:
        for outcome in place.run(body):
            assert (outcome.error, outcome.value) == ("", [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collective": "all_scatter"}, "allowed: all_reduce"),
        ({"collective": "broadcast", "root": 4}, "root: found 4; allowed: 0 to 3"),
        ({"root": 1}, "all_reduce has no root"),
        ({"collective": "barrier"}, "a barrier has no size"),
        ({"collective": "reduce", "model": "vgg19"}, "leave out --collective"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    fabric = build(parse(f"version: 1\nname: demo\nfabric: {FABRIC}\n", "demo.yaml"))
    with pytest.raises(InputError, match=message):
        Request(**options).measurement(fabric)


def test_sizes_are_shared_equally() -> None:
    fabric = build(parse(f"version: 1\nname: demo\nfabric: {FABRIC}\n", "demo.yaml"))
    measured = Request(sizes="4B,22B", collective="all_gather").measurement(fabric)
    assert [case.counts for case in measured.cases] == [(4,), (4,)]
