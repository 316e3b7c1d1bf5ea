# SPDX-License-Identifier: Apache-2.0
"""Print a schedule: the transfers of one server by stage, the load of every port, and the lower bound."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from hipsnet.collective import choice, limits
from hipsnet.collective.check import check
from hipsnet.collective.collectives import Collective
from hipsnet.collective.endpoints import receiver_ports
from hipsnet.collective.loads import Report
from hipsnet.collective.models import ITEM_BYTES
from hipsnet.collective.schedule import OPERATIONS, Schedule, involving
from hipsnet.topology import Fabric, Server, find_server
from hipsnet.units import approximate_size, given, parse_size
from orchestrator import topology_file
from orchestrator.jobs.measurement import count


@dataclass(frozen=True)
class View:
    """A checked schedule on its fabric, with the element's type and the ports' rate (None: unlimited)."""

    fabric: Fabric
    schedule: Schedule
    report: Report
    dtype: str
    item_bytes: int
    rate_bps: int | None

    @property
    def size_bytes(self) -> int:
        """Bytes of the longest array of a rank."""
        return self.schedule.count * self.item_bytes // self.collective.total(1, self.schedule.world_size)

    @property
    def collective(self) -> Collective:
        return self.schedule.collective

    @property
    def bound_bytes(self) -> float:
        """The least number of bytes that the busiest port carries."""
        return float(limits.bound(self.fabric, self.collective.name) * self.size_bytes)

    @property
    def limit_s(self) -> float | None:
        """The physical limit in seconds; None where the rate is unlimited."""
        return limits.limit_s(self.fabric, self.rate_bps, self.size_bytes, self.collective.name)


@dataclass(frozen=True)
class _Arrow:
    """One transfer with its ends by name; `level` is the sender's level or dimension, or its NIC's number."""

    stage: int
    round: int
    thread: int
    source: str
    source_port: str
    target: str
    target_port: str
    level: int
    op: str
    offset: int
    length: int


def show(
    file: Path,
    engine: Mapping[str, Any],
    collective: Collective,
    size: str,
    dtype: str,
    server: str | None,
    json_output: bool,
) -> str:
    """Build, check and describe the schedule that the options of `hipsnet schedule` select.

    `engine` holds the settings that were given, by field of `Settings`. Raises InputError.
    """
    topology, fabric = topology_file.load(file)
    options = dict(engine)
    elements = 1 if collective.name == "barrier" else count(given("--size", size, parse_size), dtype)
    total = collective.total(elements, len(fabric.servers))
    algorithm = choice.chooser(topology, fabric, **options).choose(total * ITEM_BYTES[dtype], collective)
    schedule = algorithm.build(fabric, total, collective)
    view = View(fabric, schedule, check(schedule, fabric), dtype, ITEM_BYTES[dtype], topology.link.rate_bps)
    chosen = None if server is None else find_server(fabric, server)
    if json_output:
        return json.dumps(as_json(view, chosen), indent=2)
    return as_text(view, chosen or fabric.servers[0])


def as_text(view: View, server: Server) -> str:
    """Return the stages of one server, then the summary, as lines."""
    schedule = view.schedule
    lines = [
        f"{_name(view.schedule)} on {view.fabric.name}, {view.fabric.shape.title}: "
        f"{schedule.world_size} servers, {_plural(schedule.threads, 'thread')}, "
        f"{view.size_bytes // view.item_bytes} x {view.dtype} ({approximate_size(view.size_bytes)})",
        f"server <{server.name.removeprefix('s')}> is rank {server.rank}",
    ]
    stages = int(schedule.transfers["stage"][-1]) + 1 if len(schedule.transfers) else 0
    for stage, group in groupby(_arrows(view, server), key=lambda arrow: arrow.stage):
        arrows = list(group)
        lines += [
            "",
            f"stage {stage + 1} of {stages}: {'forward' if arrows[0].op == 'copy' else 'aggregate'}",
        ]
        lines += _stage_lines(view, server, arrows)
    return "\n".join([*lines, "", *_summary(view, server)])


def as_json(view: View, server: Server | None) -> dict[str, Any]:
    """Return the schedule as plain data; with `server` only its transfers. Sizes are bytes, ranges elements."""
    schedule, report, item = view.schedule, view.report, view.item_bytes
    return {
        "fabric": {"name": view.fabric.name, "kind": view.fabric.kind, "dims": list(view.fabric.dims)},
        "collective": schedule.collective.name,
        "root": schedule.collective.root if schedule.collective.has_root else None,
        "algorithm": schedule.algorithm,
        "world_size": schedule.world_size,
        "threads": schedule.threads,
        "count": schedule.count,
        "dtype": view.dtype,
        "bytes": view.size_bytes,
        "steps": report.steps,
        "busiest_port_bytes": report.busiest * item,
        "bound_bytes": view.bound_bytes,
        "largest_transfer_bytes": report.largest * item,
        "limit_s": view.limit_s,
        "ports": [
            {
                "server": owner.name,
                "port": port.name,
                "sent_bytes": int(report.sent[owner.rank, port.index]) * item,
                "received_bytes": int(report.received[owner.rank, port.index]) * item,
            }
            for owner in view.fabric.servers
            for port in owner.ports
        ],
        "transfers": [_arrow_data(arrow, item) for arrow in _arrows(view, server)],
    }


def _arrows(view: View, server: Server | None) -> Iterator[_Arrow]:
    transfers, servers = view.schedule.transfers, view.fabric.servers
    mine = np.ones(len(transfers), np.bool_)
    if server is not None:
        mine = involving(transfers, server.rank)
    entries = receiver_ports(view.fabric, transfers)
    for transfer, entry in zip(transfers[mine], entries[mine], strict=True):
        source, target = servers[transfer["src"]], servers[transfer["dst"]]
        port = source.ports[transfer["level"]]
        yield _Arrow(
            stage=int(transfer["stage"]),
            round=int(transfer["round"]),
            thread=int(transfer["thread"]),
            source=source.name,
            source_port=port.name,
            target=target.name,
            target_port=target.ports[entry].name,
            level=view.fabric.shape.port_number(port),
            op=OPERATIONS[transfer["op"]],
            offset=int(transfer["offset"]),
            length=int(transfer["length"]),
        )


def _arrow_data(arrow: _Arrow, item_bytes: int) -> dict[str, Any]:
    return vars(arrow) | {"bytes": arrow.length * item_bytes}


def _stage_lines(view: View, server: Server, arrows: list[_Arrow]) -> Iterator[str]:
    """The transfers by thread and round; those that the server sends precede those that it receives."""
    arrows.sort(key=lambda arrow: (arrow.thread, arrow.round, arrow.target == server.name))
    several_rounds = len({arrow.round for arrow in arrows}) > 1
    noun = view.fabric.shape.port_noun
    for thread, group in groupby(arrows, key=lambda arrow: arrow.thread):
        found = list(group)
        levels = sorted({arrow.level for arrow in found})
        yield f"  thread {thread}, {noun} {', '.join(map(str, levels))}"
        for arrow in found:
            when = f"round {arrow.round + 1}  " if several_rounds else ""
            yield f"    {when}{_ends(arrow, server)}  {_range(view, arrow)}"


def _ends(arrow: _Arrow, server: Server) -> str:
    source, target = f"{arrow.source}.{arrow.source_port}", f"{arrow.target}.{arrow.target_port}"
    if arrow.source == server.name:
        return f"{arrow.source_port} -> {target}"
    return f"{arrow.target_port} <- {source}"


def _range(view: View, arrow: _Arrow) -> str:
    width = len(str(view.schedule.count))
    start, stop = (f"{place:>{width}}" for place in (arrow.offset, arrow.offset + arrow.length))
    return f"{arrow.op:<6}  [{start}, {stop})  {approximate_size(arrow.length * view.item_bytes)}"


def _summary(view: View, server: Server) -> Iterator[str]:
    report, item = view.report, view.item_bytes
    for port in server.ports:
        sent, received = (
            int(load[server.rank, port.index]) * item for load in (report.sent, report.received)
        )
        yield f"{server.name}.{port.name} sends {approximate_size(sent)}, receives {approximate_size(received)}"
    bound = view.bound_bytes
    ratio = (
        f", {report.busiest * item / bound:.3f} x the bound of {approximate_size(round(bound))}"
        if bound
        else ""
    )
    yield f"all servers: the busiest port carries {approximate_size(report.busiest * item)}{ratio}"
    yield f"{_plural(report.steps, 'step')}, the longest transfer is {approximate_size(report.largest * item)}"
    if view.limit_s is not None:
        yield f"physical limit: {view.limit_s:.4g} s"


def _name(schedule: Schedule) -> str:
    collective = schedule.collective
    if collective.name == "all_reduce":
        return schedule.algorithm
    root = f" at rank {collective.root}" if collective.has_root else ""
    return f"{collective.name}{root} by {schedule.algorithm}"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
