# SPDX-License-Identifier: Apache-2.0
"""The results of a measuring job, combined from the reports of its ranks, and as a JSON document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hipsnet.collective import limits
from hipsnet.collective.collectives import Collective
from hipsnet.collective.models import ITEM_BYTES
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs.measurement import Case, Measurement
from orchestrator.telemetry.job_pauses import JobPauses


@dataclass(frozen=True)
class Result:
    """The measurement of one case: `times_s` holds every iteration's time on its slowest rank.

    `wrong` counts elements with a wrong sum on all ranks, `same_bits` is true if all ranks had the same bits in all
    iterations; both are None without a check. `limit_s` is None where a port has no rate. `pauses` are those of all
    iterations, warm-up included; None where they were not read. `algorithm` names what ran (several with + for
    buckets of several sizes). `cpu_s` is the processor time of all ranks per
    iteration, `memory_bytes` the most memory that a rank has used so far beyond its arrays.
    """

    case: Case
    dtype: str
    world_size: int
    times_s: tuple[float, ...]
    limit_s: float | None
    wrong: int | None
    same_bits: bool | None
    cpu_s: float
    memory_bytes: int
    algorithm: str
    pauses: JobPauses | None = None
    collective: str = "all_reduce"

    @property
    def bytes(self) -> int:
        """Bytes that one rank synchronizes in an iteration."""
        return sum(self.case.counts) * ITEM_BYTES[self.dtype]

    @property
    def median_s(self) -> float:
        """The time of the median iteration in seconds."""
        return statistics.median(self.times_s)

    @property
    def algbw_GBps(self) -> float:
        """Bytes over time."""
        return self.bytes / self.median_s / 1e9

    @property
    def busbw_GBps(self) -> float:
        """The bytes that a rank must send at least, per time: nccl-tests' busbw, comparable between world sizes."""
        return self.algbw_GBps * limits.bus_factor(self.collective, self.world_size)

    @property
    def operation(self) -> str:
        """The reduction; none if data is only copied."""
        return "sum" if Collective(self.collective).reduces else "none"

    @property
    def correct(self) -> bool | None:
        """Whether the sums were right, and the same bits everywhere; None without a check."""
        return None if self.wrong is None else self.wrong == 0 and self.same_bits is True


def combine(
    measurement: Measurement,
    index: int,
    reports: Sequence[Mapping[str, Any]],
    limit_s: float | None,
    algorithm: str,
    pauses: JobPauses | None = None,
) -> Result:
    """Make one result of all ranks' reports about the case `index`."""
    digests = {digest for report in reports for digest in report["digests"]}
    return Result(
        case=measurement.cases[index],
        dtype=measurement.dtype,
        world_size=len(reports),
        times_s=tuple(map(max, zip(*(report["times_s"] for report in reports), strict=True))),
        limit_s=limit_s,
        wrong=sum(report["wrong"] for report in reports) if measurement.check else None,
        same_bits=len(digests) == 1 if measurement.check else None,
        cpu_s=sum(report["cpu_s"] for report in reports),
        memory_bytes=max(report["memory_bytes"] for report in reports),
        algorithm=algorithm,
        pauses=pauses,
        collective=measurement.collective,
    )


def document(
    topology: Topology,
    fabric: Fabric,
    settings: Settings,
    measurement: Measurement,
    results: Sequence[Result],
) -> dict[str, Any]:
    """The whole job for `--json`; `complete` is false where it ended before all sizes were measured."""
    return {
        "fabric": {
            "name": fabric.name,
            "kind": fabric.kind,
            "dims": list(fabric.dims),
            "servers": len(fabric.servers),
            "ports_per_server": len(fabric.servers[0].ports),
            "rate_bps": topology.link.rate_bps,
            "mtu": topology.link.mtu,
            "delay_us": topology.link.delay_us,
        },
        "collective": measurement.collective,
        "root": measurement.root if Collective(measurement.collective).has_root else None,
        "algorithm": settings.algorithm,
        "exchange": list(settings.exchange),
        "one_way": settings.one_way,
        "transport": settings.transport,
        "chunk_bytes": settings.chunk_bytes,
        "world_size": settings.world_size,
        "iterations": measurement.iterations,
        "warmup": measurement.warmup,
        "complete": len(results) == len(measurement.cases),
        "results": [_entry(result) for result in results],
    }


def _entry(result: Result) -> dict[str, Any]:
    item = ITEM_BYTES[result.dtype]
    times = sorted(result.times_s)
    return {
        "bytes": result.bytes,
        "count": sum(result.case.counts),
        "dtype": result.dtype,
        "op": result.operation,
        "model": result.case.model,
        "algorithm": result.algorithm,
        "buckets_bytes": [count * item for count in result.case.counts],
        "time_s": {
            "min": times[0],
            "median": result.median_s,
            "p99": times[-(-99 * len(times) // 100) - 1],  # nearest rank
            "max": times[-1],
        },
        "times_s": list(result.times_s),
        "algbw_GBps": result.algbw_GBps,
        "busbw_GBps": result.busbw_GBps,
        "cpu_s": result.cpu_s,
        "memory_bytes": result.memory_bytes,
        "limit_s": result.limit_s,
        "limit_ratio": result.median_s / result.limit_s if result.limit_s else None,
        "wrong": result.wrong,
        "correct": result.correct,
        "pauses": asdict(result.pauses) if result.pauses else None,
    }
