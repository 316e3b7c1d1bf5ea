# SPDX-License-Identifier: Apache-2.0
"""Trying thresholds on a provisioned fabric: an incast and synchronizations with each setting in turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from hipsnet.engine.wire.wire import library_of
from hipsnet.errors import HipsnetError, InputError, ProvisionError
from hipsnet.node.derive import facing
from hipsnet.stack.switch import counters
from hipsnet.stack.switch.counters import SwitchCounters
from hipsnet.topology import Fabric, Switch, Topology
from hipsnet.topology.fabric import Port
from orchestrator import topology_file
from orchestrator.jobs import job, output
from orchestrator.jobs.benchmark import measure, workers
from orchestrator.jobs.launch import Stream, Write
from orchestrator.jobs.measurement import Case, Measurement, count
from orchestrator.jobs.results import Result
from orchestrator.lab import soft_switch
from orchestrator.lab.locking import locked
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from orchestrator.pfc.tuning import Setting, Trial
from orchestrator.telemetry import watching
from orchestrator.telemetry.job_pauses import PauseBook

_SETTLE_S = 0.25
"""Idle switches update their counters ten times a second."""
Report = Callable[[Trial], None]


@dataclass(frozen=True)
class Effort:
    """The length of an incast, and the size and number of synchronizations."""

    seconds: float
    size_bytes: int
    iterations: int


@dataclass(frozen=True)
class _Books:
    """The counters of all switches for the lossless priorities: frames lost and marked, and time paused."""

    lost: int
    marks: int
    pause_us: int


@dataclass
class _Listener:
    """Receives the output of a probe."""

    write: Write
    results: list[Result] = field(default_factory=list)

    def progress(self, case: int, iterations: int) -> None:
        """Ignore the output."""

    def result(self, result: Result) -> None:
        self.results.append(result)

    def message(self, program: int, stream: Stream, line: bytes) -> None:
        self.write(program, stream, line)


def require(topology: Topology, fabric: Fabric) -> None:
    """Raise InputError or ProvisionError unless soft switches with lossless priorities run."""
    if topology.nodes != "lab" or not soft_switch.is_wanted(topology, fabric):
        raise InputError(
            f"{fabric.name}: tuning needs a lab with lossless switches; set lab: {{switch: lossless}}"
        )
    if topology.pfc is None:
        raise InputError(
            f"{fabric.name}: pfc: the file has no such section; add one with the lossless priorities"
        )
    if not soft_switch.running(fabric.name):
        raise ProvisionError(f"{fabric.name}: the soft switch is not running; run `hipsnet provision` first")


def tried(file: Path, settings: Sequence[Setting], effort: Effort, report: Report) -> tuple[Trial, ...]:
    """Try all settings, of which the first is the file's own; afterwards only the counters of the fabric differ.

    Raises what `require` raises, TopologyError for a setting that the file's other keys do not allow.
    """
    topology, fabric = topology_file.load(file)
    require(topology, fabric)
    library_of("xdp")  # compiled once, here, and not by every worker
    document = yaml.safe_load(file.read_text())
    with TemporaryDirectory(prefix="hipsnet-tune-") as folder:
        files = list(_written(document, settings, Path(folder)))
        found = []
        try:
            for number, (setting, changed) in enumerate(zip(settings, files, strict=True)):
                found.append(_try(setting, changed, effort, number == 0))
                report(found[-1])
        finally:
            with locked(fabric.name):
                soft_switch.serve(topology, fabric)
    return tuple(found)


def _written(document: Any, settings: Sequence[Setting], folder: Path) -> Iterator[Path]:
    """A topology file for each setting; all are validated before anything changes."""
    for number, setting in enumerate(settings):
        path = folder / f"{number}.yaml"
        path.write_text(json.dumps(setting.applied(document)))  # YAML takes JSON
        topology_file.load(path)
        yield path


def _try(setting: Setting, file: Path, effort: Effort, is_present: bool) -> Trial:
    topology, fabric = topology_file.load(file)
    with locked(fabric.name):
        soft_switch.serve(topology, fabric)
    start = _books(topology, fabric)
    incast = traffic.run(topology, fabric, flows(fabric), effort.seconds)
    between = _books(topology, fabric)
    seconds = _probe(topology, fabric, file, effort)
    end = _books(topology, fabric)
    missing = sum(flow.lost for flow in incast.flows) - (between.lost - start.lost)  # not by a switch
    return Trial(
        setting=setting,
        is_present=is_present,
        goodput_bps=incast.goodput_bps,
        probe_s=seconds,
        lost=end.lost - start.lost + max(missing, 0),
        marks=end.marks - start.marks,
        incast_pause_s=(between.pause_us - start.pause_us) / 1e6,
        probe_pause_s=(end.pause_us - between.pause_us) / 1e6,
    )


def flows(fabric: Fabric) -> list[Flow]:
    """An incast to the first server: from all servers behind its bridge, or from all if its switch is a router."""
    target = fabric.servers[0].ports[0]
    sources: Sequence[Port] = facing(fabric, target)
    if any(isinstance(fabric.nodes[port.node], Switch) for port in sources):
        sources = [server.ports[0] for server in fabric.servers[1:]]
    return [Flow(source, target) for source in sources]


def _probe(topology: Topology, fabric: Fabric, file: Path, effort: Effort) -> float:
    """The median seconds of an all-reduce over RoCE: HiPS, or ring where HiPS is not defined."""
    algorithm = "hips" if fabric.shape.hips else "ring"
    settings = job.settings(file, fabric, transport="xdp", algorithm=algorithm)
    case = Case((count(effort.size_bytes, "float32"),))
    measurement = Measurement((case,), "float32", effort.iterations, 1, check=False)
    programs = workers(topology, fabric, settings, measurement)
    listener = _Listener(output.prefixed([program.server for program in programs]))
    with watching.watch(topology, fabric, None) as (ports, sources):
        book = PauseBook(ports, sources)
        outcome = measure(programs, measurement, lambda _: None, lambda _: algorithm, book.since, listener)
    if outcome.interrupt:
        raise KeyboardInterrupt
    if outcome.code or not listener.results:
        raise HipsnetError(f"{fabric.name}: the synchronization failed ({outcome.failure}); see above")
    return listener.results[0].median_s


def _books(topology: Topology, fabric: Fabric) -> _Books:
    time.sleep(_SETTLE_S)
    switches = counters.read(soft_switch.counters_path(fabric.name))
    assert topology.pfc
    lossless = list(topology.pfc.priorities)
    sums = [_sums(fabric, name, switch, lossless) for name, switch in switches.items()]
    return _Books(*(sum(column) for column in zip(*sums, strict=True)))


def _sums(fabric: Fabric, name: str, switch: SwitchCounters, lossless: list[int]) -> tuple[int, int, int]:
    """The counters of one switch; a pause between two switches is counted by its sender."""
    rows, pauses = switch.ports["priority"], switch.ports["pause"]
    lost = sum(np.sum(rows[drop][:, lossless]) for drop in rows.dtype.names or () if drop.startswith("drop_"))
    servers = {server.name for server in fabric.servers}
    edge = [port.index for port in fabric.nodes[name].ports if fabric.peer(port).node in servers]
    stopped = np.sum(pauses["tx_pause_us"][:, lossless]) + np.sum(pauses["rx_pause_us"][edge][:, lossless])
    marks = np.sum(rows["ecn_marks"][:, lossless])
    return int(lost + switch.ports["drop_receive"].sum()), int(marks), int(stopped)
