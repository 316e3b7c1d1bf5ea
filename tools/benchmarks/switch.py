# SPDX-License-Identifier: Apache-2.0
"""Performance of a soft switch: frames per second on one core, an incast with and without PFC, HiPS over six."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hipsnet.errors import ProvisionError
from hipsnet.stack.switch import counters
from hipsnet.topology import Fabric, Topology
from hipsnet.units import parse_rate
from orchestrator.lab import soft_switch
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from tools.benchmarks.lossless_lab import lossless_lab

app = typer.Typer()
SIZES = (64, 1078, 4170, 9014)
INCAST_BYTES = 4170
WANTED_GOODPUT, WANTED_TIME = 0.95, 1.10
HIPS_SIZE = "16MiB"


@dataclass(frozen=True)
class Capacity:
    """One frame size through one switch: frames per second, and the switch's share of a core."""

    bytes: int
    pps: float
    core: float
    lost: float

    @property
    def core_pps(self) -> float:
        """Frames per second of CPU time."""
        return self.pps / self.core if self.core else 0.0


@dataclass(frozen=True)
class Incast:
    """Eight to one: goodput over the bottleneck's rate, frames lost, and pauses received by senders."""

    pfc: bool
    seconds: float
    goodput: float
    lossless_lost: int
    lossy_lost: int
    least_pauses: int
    paused: float


@dataclass(frozen=True)
class Job:
    """HiPS over six lossless switches: the median time over the physical limit."""

    rate: str
    transport: str
    time_s: float
    over_limit: float
    lost: int


@app.command()
def switch(
    seconds: Annotated[float, typer.Option(min=0.5, help="Length of each measurement of capacity.")] = 3.0,
    incast_seconds: Annotated[float, typer.Option(min=0.5, help="Length of each incast.")] = 30.0,
    rates: Annotated[
        str, typer.Option(help="Port rates for HiPS, divided by commas.")
    ] = "100Mbit/s,200Mbit/s",
    transport: Annotated[str, typer.Option(help="What carries HiPS.")] = "xdp",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write results here; - for stdout.")
    ] = None,
) -> None:
    """Capacity of the soft switch, an incast of eight to one, and HiPS with every stage lossless."""
    console = Console(stderr=str(json_file) == "-")
    capacities = list(measure_capacity(seconds))
    console.print(_capacity_table(capacities))
    incasts = [measure_incast(pfc, incast_seconds) for pfc in (True, False)]
    console.print(_incast_table(incasts))
    jobs = [measure_job(rate, transport) for rate in rates.split(",") if rate]
    console.print(_job_table(jobs))
    if json_file is not None:
        found: dict[str, Any] = {"benchmark": "switch"}
        for name, rows in (("capacity", capacities), ("incast", incasts), ("hips", jobs)):
            found[name] = [asdict(row) for row in rows]
        text = json.dumps(found, indent=2) + "\n"
        typer.echo(text, nl=False) if str(json_file) == "-" else json_file.write_text(text)


def measure_capacity(seconds: float) -> Iterator[Capacity]:
    """From one port to the other of a two-port switch without a rate limit; the switch has its own core."""
    with lossless_lab("{kind: bcube, n: 2, levels: 1}", "unlimited", pfc="") as (topology, fabric, _):
        (process,) = soft_switch.running(fabric.name)
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process.pid, cores[:1])
        os.sched_setaffinity(0, cores[1:] or cores)  # inherited by processes started from here
        try:
            for size in SIZES:
                yield _capacity(topology, fabric, process.pid, size, seconds)
        finally:
            os.sched_setaffinity(0, cores)


def _capacity(topology: Topology, fabric: Fabric, pid: int, size: int, seconds: float) -> Capacity:
    flow = Flow(fabric.servers[0].ports[0], fabric.servers[1].ports[0], size)
    process = traffic.start(topology, fabric, [flow], seconds + 1.0)
    time.sleep(0.5)
    first, used, begun = _sent(topology, fabric), _cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    last, more, took = _sent(topology, fabric), _cpu_s(pid), time.monotonic() - begun
    (found,) = traffic.finish(process, [flow]).flows
    lost = found.lost / found.sent if found.sent else 0.0
    return Capacity(size, (last - first) / took, (more - used) / took, lost)


def _sent(topology: Topology, fabric: Fabric) -> int:
    """Frames transmitted by the switch in RoCE's priority."""
    (found,) = counters.read(soft_switch.counters_path(fabric.name)).values()
    return int(found.ports["priority"]["tx_frames"][:, topology.roce.priority].sum())


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_incast(pfc: bool, seconds: float) -> Incast:
    """Eight servers send to a ninth at full rate."""
    section = "pfc: {priorities: [3]}" if pfc else ""
    with lossless_lab("{kind: bcube, n: 9, levels: 1}", "100Mbit/s", section) as (topology, fabric, _):
        first, *others = (server.ports[0] for server in fabric.servers)
        result = traffic.run(topology, fabric, [Flow(port, first, INCAST_BYTES) for port in others], seconds)
        (found,) = counters.read(soft_switch.counters_path(fabric.name)).values()
    priority, rate = topology.roce.priority, topology.link.rate_bps or 1
    seen = [result.of(port) for port in others]
    lost = sum(flow.lost for flow in result.flows)
    assert lost == sum(found.dropped.values()), "the switch and the receiver count the same losses"
    return Incast(
        pfc=pfc,
        seconds=seconds,
        goodput=result.goodput_bps / rate,
        lossless_lost=lost if pfc else 0,
        lossy_lost=0 if pfc else lost,
        least_pauses=min(port.pause_frames[priority] for port in seen),
        paused=sum(port.pause_us[priority] for port in seen) / len(seen) / seconds / 1e6,
    )


def measure_job(rate: str, transport: str) -> Job:
    """HiPS of 16 MiB on BCube(3,2), all 18 ports at one rate."""
    parse_rate(rate)
    with lossless_lab("{kind: bcube, n: 3, levels: 2}", rate) as (_, fabric, file):
        command = [
            sys.executable, "-c", "from orchestrator.cli import main; main()", "run", str(file),
            "--transport", transport, "--algorithm", "hips", "--sizes", HIPS_SIZE, "--iters", "5", "--json", "-",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ProvisionError(f"hipsnet run: {done.stderr.strip()}")
        (result,) = json.loads(done.stdout)["results"]
        found = counters.read(soft_switch.counters_path(fabric.name)).values()
        lost = sum(sum(switch.dropped.values()) for switch in found)
    median = sorted(result["times_s"])[len(result["times_s"]) // 2]
    return Job(rate, transport, median, median / result["limit_s"], lost)


def _capacity_table(rows: list[Capacity]) -> Table:
    view = _table("one soft switch on one core", "frame (B)", "Mpps", "Gbit/s", "core", "Mpps a core", "lost")
    for row in rows:
        gbps = row.pps * row.bytes * 8 / 1e9
        view.add_row(
            str(row.bytes), f"{row.pps / 1e6:.3f}", f"{gbps:.2f}", f"{row.core:.0%}",
            f"{row.core_pps / 1e6:.3f}", f"{row.lost:.1%}",
        )  # fmt: skip
    return view


def _incast_table(rows: list[Incast]) -> Table:
    view = _table(
        "8 to 1 at 100 Mbit/s",
        "PFC",
        "s",
        "goodput",
        "lost",
        "fewest pauses at a sender",
        "paused",
        "target met",
    )
    for row in rows:
        lost = row.lossless_lost + row.lossy_lost
        fine = (not lost and row.least_pauses and row.goodput >= WANTED_GOODPUT) if row.pfc else lost > 0
        view.add_row(
            "on" if row.pfc else "off", f"{row.seconds:g}", f"{row.goodput:.1%}", str(lost),
            str(row.least_pauses), f"{row.paused:.1%}", "yes" if fine else "no",
        )  # fmt: skip
    return view


def _job_table(rows: list[Job]) -> Table:
    title = f"HiPS, {HIPS_SIZE}, BCube(3,2), every stage lossless"
    view = _table(title, "rate", "transport", "time (ms)", "over the limit", f"<= {WANTED_TIME:g}", "lost")
    for row in rows:
        fine = "yes" if row.over_limit <= WANTED_TIME else "no"
        times = (f"{row.time_s * 1e3:.0f}", f"{row.over_limit:.3f}")
        view.add_row(row.rate, row.transport, *times, fine, str(row.lost))
    return view


def _table(title: str, *columns: str) -> Table:
    view = Table(title=title)
    for column in columns:
        view.add_column(column, justify="right")
    return view
