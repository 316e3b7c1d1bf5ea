# SPDX-License-Identifier: Apache-2.0
"""One rank of the baseline: PyTorch's all-reduce with its Gloo backend."""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    """Time the cases in the argument, [bytes, iterations, warm-up]; rank 0 prints JSON.

    Timed as by our own worker: every iteration starts from a barrier, the slowest rank's time counts.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for size, iterations, warmup in json.loads(sys.argv[1]):
        times = torch.tensor(_times(size, iterations, warmup), dtype=torch.float64)
        dist.all_reduce(times, dist.ReduceOp.MAX)
        if dist.get_rank() == 0:
            print(json.dumps({"bytes": size, "times_s": times.tolist()}))
    dist.barrier()
    dist.destroy_process_group()


def _times(size: int, iterations: int, warmup: int) -> list[float]:
    vector = torch.empty(size // 4, dtype=torch.float32)
    times = []
    for iteration in range(-warmup, iterations):
        vector.fill_(1)
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(vector)
        elapsed = time.perf_counter() - begin
        assert vector[0] == vector[-1] == dist.get_world_size()
        if iteration >= 0:
            times.append(elapsed)
    return times


if __name__ == "__main__":
    main()
