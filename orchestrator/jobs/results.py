# SPDX-License-Identifier: Apache-2.0
"""Results of a measuring job: out of what the ranks told, into a table's rows and a JSON document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hipsnet.collective.models import ITEM_BYTES
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs.measurement import Case, Measurement
from orchestrator.telemetry.job_pauses import JobPauses

HEADER = (
    f"# {'size(B)':>10} {'count':>11} {'type':>9} {'redop':>5} {'time(us)':>11} {'algbw(GB/s)':>11} "
    f"{'busbw(GB/s)':>11} {'#wrong':>7} {'limit(us)':>11} {'time/limit':>10} "
    f"{'pauses':>11} {'pause_us':>15} {'worst port':>10}"
)
"""The columns of nccl-tests, the physical limit, and the pauses of all servers, received/sent.

GB are 10^9 bytes; time is the median.
"""


@dataclass(frozen=True)
class Result:
    """One case, measured: `times_s` holds every iteration's time on its slowest rank.

    `wrong` counts elements with a wrong sum on all ranks, None if nobody looked; `same_bits` tells whether
    all ranks had the same bits in all iterations. `limit_s` is None where a port has no rate. `pauses` are
    those of all iterations, and of those to warm up; None if nobody looked.
    """

    case: Case
    dtype: str
    world_size: int
    times_s: tuple[float, ...]
    limit_s: float | None
    wrong: int | None
    same_bits: bool | None
    pauses: JobPauses | None = None

    @property
    def bytes(self) -> int:
        """Bytes that one rank synchronizes in an iteration."""
        return sum(self.case.counts) * ITEM_BYTES[self.dtype]

    @property
    def median_s(self) -> float:
        """The median iteration's seconds."""
        return statistics.median(self.times_s)

    @property
    def algbw_GBps(self) -> float:
        """Bytes over time."""
        return self.bytes / self.median_s / 1e9

    @property
    def busbw_GBps(self) -> float:
        """What a rank must at least send, over time: nccl-tests' figure that no rank count changes."""
        return self.algbw_GBps * 2 * (self.world_size - 1) / self.world_size

    @property
    def correct(self) -> bool | None:
        """Whether the sums were right, and the same bits everywhere; None if nobody looked."""
        return None if self.wrong is None else self.wrong == 0 and self.same_bits is True


def combine(
    measurement: Measurement,
    index: int,
    told: Sequence[Mapping[str, Any]],
    limit_s: float | None,
    pauses: JobPauses | None = None,
) -> Result:
    """Make one result of what all ranks told about the case `index`."""
    digests = {digest for report in told for digest in report["digests"]}
    return Result(
        case=measurement.cases[index],
        dtype=measurement.dtype,
        world_size=len(told),
        times_s=tuple(map(max, zip(*(report["times_s"] for report in told), strict=True))),
        limit_s=limit_s,
        wrong=sum(report["wrong"] for report in told) if measurement.check else None,
        same_bits=len(digests) == 1 if measurement.check else None,
        pauses=pauses,
    )


def title(topology: Topology, fabric: Fabric, settings: Settings, measurement: Measurement) -> str:
    """What the table is about, in one line."""
    ports = len(fabric.servers[0].ports)
    exchange = f" ({', '.join(settings.exchange)} inside the levels)" if settings.exchange else ""
    return (
        f"# {fabric.name}: {fabric.shape.title}, {len(fabric.servers)} servers with {ports} "
        f"port{'s' if ports > 1 else ''} at {topology.link.rate}; {settings.algorithm}{exchange} over "
        f"{settings.transport}; iterations: {measurement.iterations}, and {measurement.warmup} to warm up"
    )


def row(result: Result) -> str:
    """The result as a line under `HEADER`; behind it whose gradients they are."""
    case = result.case
    wrong = "N/A" if result.wrong is None else str(result.wrong)
    if result.same_bits is False:
        wrong += "!"
    limit = "-" if result.limit_s is None else f"{result.limit_s * 1e6:.1f}"
    ratio = "-" if not result.limit_s else f"{result.median_s / result.limit_s:.3f}"
    line = (
        f"  {result.bytes:>10} {sum(case.counts):>11} {result.dtype:>9} {'sum':>5} "
        f"{result.median_s * 1e6:>11.1f} {result.algbw_GBps:>11.4f} {result.busbw_GBps:>11.4f} "
        f"{wrong:>7} {limit:>11} {ratio:>10} {_pauses(result.pauses)}"
    )
    if case.model:
        line += f"  {case.model}, {len(case.counts)} bucket{'s' if len(case.counts) > 1 else ''}"
    return line


def _pauses(found: JobPauses | None) -> str:
    if found is None:
        return f"{'-':>11} {'-':>15} {'-':>10}"
    frames, time = (
        "/".join("-" if count is None else str(count) for count in pair)
        for pair in ((found.rx_frames, found.tx_frames), (found.rx_us, found.tx_us))
    )
    return f"{frames:>11} {time:>15} {found.worst or '-':>10}"


def document(
    topology: Topology,
    fabric: Fabric,
    settings: Settings,
    measurement: Measurement,
    results: Sequence[Result],
) -> dict[str, Any]:
    """The whole job for `--json`."""
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
        "algorithm": settings.algorithm,
        "exchange": list(settings.exchange),
        "one_way": settings.one_way,
        "transport": settings.transport,
        "chunk_bytes": settings.chunk_bytes,
        "world_size": settings.world_size,
        "iterations": measurement.iterations,
        "warmup": measurement.warmup,
        "results": [_entry(result) for result in results],
    }


def _entry(result: Result) -> dict[str, Any]:
    item = ITEM_BYTES[result.dtype]
    times = sorted(result.times_s)
    return {
        "bytes": result.bytes,
        "count": sum(result.case.counts),
        "dtype": result.dtype,
        "op": "sum",
        "model": result.case.model,
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
        "limit_s": result.limit_s,
        "limit_ratio": result.median_s / result.limit_s if result.limit_s else None,
        "wrong": result.wrong,
        "correct": result.correct,
        "pauses": asdict(result.pauses) if result.pauses else None,
    }
