# SPDX-License-Identifier: Apache-2.0
"""One rank of a measuring job: runs the measurement of its argument and reports times as JSON lines on stdout."""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import hipsnet
from hipsnet import failures
from hipsnet.collective.collectives import Collective
from hipsnet.errors import HipsnetError
from orchestrator.jobs import pattern
from orchestrator.jobs.exercise import SAME_EVERYWHERE, Exercise
from orchestrator.jobs.measurement import Case, Measurement

Report = Callable[..., None]
_REPORT_EVERY_S = 0.25  # showing progress takes time of the processors that are measured


def main(arguments: list[str]) -> int:
    """Run the measurement that the only argument describes; returns the exit code."""
    report = _reporting()
    measurement = Measurement.from_text(arguments[0])
    try:
        before = _peak_bytes()
        with hipsnet.init() as communicator:
            for index, case in enumerate(measurement.cases):
                try:
                    _measure(communicator, measurement, index, case, before, report)
                except MemoryError as error:
                    raise HipsnetError(f"out of memory: {error}; give a smaller --size") from error
    except HipsnetError as error:
        if not failures.report(error):
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _measure(
    communicator: Any, measurement: Measurement, index: int, case: Case, before: int, report: Report
) -> None:
    """Time one case.

    Every iteration starts from the same numbers and a barrier; the time of a rank includes its waiting.
    `before`: the memory of the process before it had a communicator.
    """
    dtype = _dtype(measurement.dtype)
    collective = Collective(measurement.collective, measurement.root)
    exercises = [Exercise(communicator, collective, count, dtype) for count in case.counts]
    times, digests = [], []
    reported = processor_s = 0.0
    gc.disable()
    for iteration in range(-measurement.warmup, measurement.iterations):
        for exercise in exercises:
            exercise.fill()
        communicator.barrier()
        begin, used = time.perf_counter(), time.process_time()
        works = [exercise.run(async_op=True) for exercise in exercises[:-1]]
        exercises[-1].run(async_op=False)
        for work in works:
            work.wait()
        elapsed = time.perf_counter() - begin
        if iteration >= 0:
            times.append(elapsed)
            processor_s += time.process_time() - used
        if measurement.check:
            digests.append(_digest([exercise.result for exercise in exercises]))
        if communicator.rank == 0 and begin - reported > _REPORT_EVERY_S:
            report(case=index, done=iteration + measurement.warmup + 1)
            reported = begin
    gc.enable()
    wrong = None
    if measurement.check:
        wrong = sum(exercise.wrong() for exercise in exercises)
        if collective.name not in SAME_EVERYWHERE:  # compared with this rank's first iteration only
            digests = [digest ^ digests[0] for digest in digests]
    memory = max(0, _peak_bytes() - before - sum(exercise.nbytes for exercise in exercises))
    cpu_s = processor_s / measurement.iterations
    report(case=index, times_s=times, digests=digests, wrong=wrong, cpu_s=cpu_s, memory_bytes=memory)


def _peak_bytes() -> int:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _digest(vectors: list[pattern.Vector]) -> int:
    """A checksum of all bits."""
    digest = 0
    for vector in vectors:
        digest = zlib.crc32(vector.view(np.uint8).data, digest)
    return digest


def _dtype(name: Any) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes  # takes a tenth of a second; only this type needs it

        name = ml_dtypes.bfloat16
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def _reporting() -> Report:
    """Reserve stdout for JSON lines; other output goes to stderr."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def report(**fields: object) -> None:
        channel.write(json.dumps(fields) + "\n")

    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
