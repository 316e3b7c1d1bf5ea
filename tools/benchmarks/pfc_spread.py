# SPDX-License-Identifier: Apache-2.0
"""How far the pauses of one frozen receiver spread: in BCube no farther than its switch, in a Fat-Tree everywhere.

Every server sends RoCE-marked frames that obey PFC as its synchronization would: in BCube to its neighbours
on every level (HiPS), in a Fat-Tree to every other server (mesh). Then one port of one server stops taking.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from hipsnet.node.derive import facing
from hipsnet.stack.switch import counters
from hipsnet.stack.switch.counters import SwitchCounters
from hipsnet.topology import Fabric, Topology
from hipsnet.topology.fabric import Port, Server, Switch
from orchestrator.lab import soft_switch
from orchestrator.pfc import traffic
from orchestrator.pfc.traffic import Flow
from tools.benchmarks import pause_picture
from tools.benchmarks.lossless_lab import lossless_lab

app = typer.Typer()
FABRICS = {
    "BCube(3,2), HiPS": "{kind: bcube, n: 3, levels: 2}",
    "Fat-Tree, mesh": "{kind: fattree, servers: 9, nics: 1}",
}
SETTLE_S = 1.5
PAUSED = 0.05
"""A cable paused for at least this share of time counts as stopped; healthy networks have short pauses, too."""


@dataclass(frozen=True)
class Spread:
    """The effect of one frozen port on a fabric. Shares of time are by cable (fabric.links' order), frozen and not.

    `others_before` and `others_after` are the bit/s that reached all other ports of servers.
    """

    fabric: str
    frozen: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    switches: int
    switches_reached: tuple[str, ...]
    server_ports: int
    server_ports_stopped: int
    others_before: float
    others_after: float
    lost: int

    @property
    def left(self) -> float:
        """The remaining share of the other ports' goodput."""
        return self.others_after / self.others_before if self.others_before else 0.0


@app.command(name="pfc-spread")
def pfc_spread(
    rate: Annotated[str, typer.Option(help="Rate of every cable.")] = "100Mbit/s",
    seconds: Annotated[float, typer.Option(min=0.5, help="How long each state is watched.")] = 3.0,
    picture: Annotated[Path, typer.Option(help="Where to draw it: .svg or .png.")] = Path("pfc-spread.svg"),
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write results here; - for stdout.")
    ] = None,
) -> None:
    """Measure how far the pauses of a frozen receiver spread, and draw a picture."""
    found = []
    for number, (title, section) in enumerate(FABRICS.items()):
        with lossless_lab(section, rate, name=str(number)) as (topology, fabric, _):
            spread = measure(title, topology, fabric, seconds)
            found.append((topology, fabric, spread))
    pause_picture.draw(
        [
            (topology, fabric, spread.fabric, spread.after, spread.frozen)
            for topology, fabric, spread in found
        ],
        picture,
    )
    results = [spread for _, _, spread in found]
    if str(json_file) != "-":
        Console().print(table(results))
        Console().print(f"drawn: {picture}")
    if json_file is not None:
        text = (
            json.dumps({"benchmark": "pfc-spread", "results": [asdict(r) for r in results]}, indent=2) + "\n"
        )
        typer.echo(text, nl=False) if str(json_file) == "-" else json_file.write_text(text)


def measure(title: str, topology: Topology, fabric: Fabric, seconds: float) -> Spread:
    """Measure the healthy fabric, then the fabric with the first port of the middle server frozen."""
    frozen = fabric.servers[len(fabric.servers) // 2].ports[0]
    before, healthy, _ = _watch(topology, fabric, frozen, (), seconds)
    after, ill, lost = _watch(topology, fabric, frozen, (frozen,), seconds)
    # Ports paused by a port other than the frozen receiver, or that pause others themselves.
    reached = {
        port.node
        for link, share in zip(fabric.links, after, strict=True)
        for port in (link.a, link.b)
        if share > PAUSED and isinstance(fabric.nodes[port.node], Switch)
    }
    edges = [
        (link, share) for link, share in zip(fabric.links, after, strict=True) if _is_edge(fabric, link.a)
    ]
    return Spread(
        fabric=title,
        frozen=f"{frozen.node}.{frozen.name}",
        before=before,
        after=after,
        switches=len(fabric.switches),
        switches_reached=tuple(sorted(reached)),
        server_ports=len(edges),
        server_ports_stopped=sum(share > PAUSED for link, share in edges if link.a != frozen),
        others_before=healthy,
        others_after=ill,
        lost=lost,
    )


def flows(fabric: Fabric) -> list[Flow]:
    """The pairs of sender and receiver."""
    if fabric.shape.hips:
        ports = [port for server in fabric.servers for port in server.ports]
        return [Flow(port, other) for port in ports for other in facing(fabric, port)]
    pairs = [(a, b) for a in fabric.servers for b in fabric.servers if a is not b]
    return [Flow(a.ports[nic], b.ports[nic]) for a, b in pairs for nic in range(len(a.ports))]


def _watch(
    topology: Topology, fabric: Fabric, spared: Port, frozen: tuple[Port, ...], seconds: float
) -> tuple[tuple[float, ...], float, int]:
    """(share of the time that each cable was stopped, bit/s to all server ports but one, lossless frames lost)."""
    todo = flows(fabric)
    path, priority = soft_switch.counters_path(fabric.name), topology.roce.priority
    process = traffic.start(topology, fabric, todo, SETTLE_S + seconds + 0.5, frozen)
    time.sleep(SETTLE_S)
    first, begun = counters.read(path), time.monotonic()
    time.sleep(seconds)
    last, took = counters.read(path), time.monotonic() - begun
    traffic.finish(process, todo, frozen)
    shares = tuple(
        max(
            (_delta(first, last, port, "pause", way, priority) / took / 1e6)
            for port in (link.a, link.b)
            if isinstance(fabric.nodes[port.node], Switch)
            for way in ("tx_pause_us", "rx_pause_us")
        )
        for link in fabric.links
    )
    received = sum(
        _delta(first, last, fabric.peer(port), "priority", "tx_bytes", priority)
        for server in fabric.servers
        for port in server.ports
        if port != spared
    )
    lost = sum(_lossless_drops(found, priority) for found in last.values())
    lost -= sum(_lossless_drops(found, priority) for found in first.values())
    return shares, 8 * received / took, lost


def _delta(
    first: dict[str, SwitchCounters],
    last: dict[str, SwitchCounters],
    port: Port,
    part: str,
    name: str,
    priority: int,
) -> int:
    """The increase of one counter of a switch port."""
    values = [int(found[port.node].ports[part][name][port.index][priority]) for found in (first, last)]
    return values[1] - values[0]


def _lossless_drops(found: SwitchCounters, priority: int) -> int:
    rows = found.ports["priority"]
    names = [name for name in rows.dtype.names or () if name.startswith("drop_")]
    return int(sum(np.sum(rows[name][:, priority]) for name in names) + found.ports["drop_receive"].sum())


def _is_edge(fabric: Fabric, port: Port) -> bool:
    return isinstance(fabric.nodes[port.node], Server)


def table(results: list[Spread]) -> Table:
    """One row for each fabric."""
    view = Table(title="one frozen receiver: other ports stopped, and the goodput that remains")
    columns = (
        "fabric",
        "frozen",
        "switches reached",
        "server ports stopped",
        "others' goodput",
        "left",
        "lost",
    )
    for column in columns:
        view.add_column(column)
    for found in results:
        view.add_row(
            found.fabric,
            f"{_stopped(found.before)} -> {_stopped(found.after)} of {len(found.after)}",
            f"{len(found.switches_reached)} of {found.switches}",
            f"{found.server_ports_stopped} of {found.server_ports - 1}",
            f"{found.others_before / 1e6:.0f} -> {found.others_after / 1e6:.0f}",
            f"{found.left:.0%}",
            str(found.lost),
        )
    return view


def _stopped(shares: tuple[float, ...]) -> int:
    return sum(share > PAUSED for share in shares)
