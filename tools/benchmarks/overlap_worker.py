# SPDX-License-Identifier: Apache-2.0
"""One rank of `tools/bench overlap`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

import hipsnet

STEP = 20_000  # additions between two looks at the collective: about a millisecond


def main() -> None:
    """Arguments: size in bytes, rounds. Rank 0 prints its times as JSON."""
    size_bytes, rounds = map(int, sys.argv[1:])
    times: dict[str, list[float]] = {"idle_s": [], "computing_s": []}
    with hipsnet.init() as comm:
        vector = np.zeros(size_bytes // 4, np.float32)
        comm.all_reduce(vector)
        for _ in range(rounds):
            for kind, found in times.items():
                found.append(_time(comm, vector, comm.rank == 0 and kind == "computing_s"))
        if comm.rank == 0:
            print(json.dumps(times))


def _time(comm: Any, vector: np.ndarray, computes: bool) -> float:
    comm.barrier()
    begin = time.perf_counter()
    work = comm.all_reduce(vector, async_op=True)
    while computes and not work.is_completed():
        _compute()
    work.wait()
    return time.perf_counter() - begin


def _compute() -> int:
    total = 0
    for number in range(STEP):
        total += number
    return total


if __name__ == "__main__":
    main()
