# SPDX-License-Identifier: Apache-2.0
"""Inspecting a fabric: every server, port, address, peer and state, and the differences from the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table

from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.change import Change
from hipsnet.node.changes import changes
from hipsnet.node.desired import LinkConfig, NodeConfig
from hipsnet.topology import Fabric, Server, Topology
from hipsnet.units import format_rate, format_time
from orchestrator.lab import delay_line, soft_switch
from orchestrator.provision import hosts
from orchestrator.provision.plan import Survey, configurations, lost_record, survey

PortState = Literal["up", "down", "no carrier", "missing"]


@dataclass(frozen=True)
class PortReport:
    """One port: its place in the file, and its state in the kernel. A `rate_bps` of None is unlimited."""

    node: str
    name: str
    level: int
    address: str
    mac: str
    peer: str
    state: PortState
    mtu: int | None
    rate_bps: int | None
    delay_us: int
    loss_ppm: int


@dataclass(frozen=True)
class NodeReport:
    """One node: "present", "missing", or "foreign" (something that is not hipsnet's has its name)."""

    name: str
    kind: Literal["server", "switch"]
    identity: str
    state: str
    ports: tuple[PortReport, ...]
    drift: tuple[Change, ...]


@dataclass(frozen=True)
class Report:
    """A whole fabric; `surplus` are nodes of hipsnet that the file does not have.

    `delay_line` are the differences of the process that delays its cables, `soft_switch` those of the process that
    runs its switches, `record` is a lost record.
    """

    fabric: Fabric
    nodes: tuple[NodeReport, ...]
    surplus: tuple[str, ...]
    delay_line: tuple[Change, ...] = ()
    soft_switch: tuple[Change, ...] = ()
    record: tuple[Change, ...] = ()

    @property
    def drift(self) -> int:
        """The number of differences between kernel and file."""
        absent = sum(node.state != "present" for node in self.nodes)
        drift = sum(len(node.drift) for node in self.nodes)
        return drift + absent + len(self.surplus) + len(self.of_fabric)

    @property
    def of_fabric(self) -> tuple[Change, ...]:
        """The differences that belong to no single node: processes and record."""
        return (*self.delay_line, *self.soft_switch, *self.record)


def inspect(topology: Topology, fabric: Fabric) -> Report:
    """Compare the lab with the file. Changes nothing."""
    configs = configurations(topology, fabric)
    found = survey(fabric.name, configs)
    nodes = tuple(_report(fabric, config, found) for config in configs.values())
    surplus = tuple(node for node in found.places if node not in configs)
    drift = {node.name: node.drift for node in nodes}
    line = delay_line.differences(fabric, configs, drift, moves=False)
    switch = soft_switch.differences(topology, fabric, drift, moves=False)
    return Report(fabric, nodes, surplus, line, switch, lost_record(fabric.name, found))


def inspect_host(topology: Topology, fabric: Fabric, node: str) -> Report:
    """Compare this machine with its part of the file. Changes nothing."""
    plan = hosts.plan_host(topology, fabric, node)
    report = report_node(fabric, plan.config, plan.actual, "present")
    return Report(fabric, (report,), (), record=hosts.lost_record(fabric.name, plan.config.name))


def _report(fabric: Fabric, config: NodeConfig, found: Survey) -> NodeReport:
    actual = found.actual.get(config.name)
    place = found.places.get(config.name)
    state = "present" if actual else "foreign" if place and place.standing == "foreign" else "missing"
    return report_node(fabric, config, actual, state)


def report_node(fabric: Fabric, config: NodeConfig, actual: Actual | None, state: str) -> NodeReport:
    """One node's report; `actual` is None if the node does not exist."""
    node = fabric.nodes[config.name]
    links: Mapping[str, ActualLink] = actual.links if actual else {}
    ports = tuple(_report_port(fabric, config.name, link, links.get(link.name)) for link in config.ports)
    return NodeReport(
        name=config.name,
        kind="server" if isinstance(node, Server) else "switch",
        identity=str(node.identity) if isinstance(node, Server) else "",
        state=state,
        ports=ports,
        drift=tuple(changes(config, actual)) if actual else (),
    )


def _report_port(fabric: Fabric, node: str, link: LinkConfig, now: ActualLink | None) -> PortReport:
    port = fabric.nodes[node].ports[link.port or 0]
    peer = fabric.peer(port)
    return PortReport(
        node=node,
        name=link.name,
        level=port.level,
        address=str(port.address or ""),
        mac=now.mac if now else port.mac,
        peer=f"{peer.node}.{peer.name}",
        state=_state(now),
        mtu=now.mtu if now else None,
        rate_bps=now.rate_bps if now else None,
        delay_us=now.delay_us if now else 0,
        loss_ppm=now.loss_ppm if now else 0,
    )


def _state(now: ActualLink | None) -> PortState:
    if now is None:
        return "missing"
    if not now.up:
        return "down"
    return "up" if now.carrier else "no carrier"


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "fabric": report.fabric.name,
        "kind": report.fabric.kind,
        "dims": list(report.fabric.dims),
        "drift": report.drift,
        "surplus": list(report.surplus),
        "delay_line": [str(change) for change in report.delay_line],
        "soft_switch": [str(change) for change in report.soft_switch],
        "record": [str(change) for change in report.record],
        "nodes": [_node_json(node) for node in report.nodes],
    }


def _node_json(node: NodeReport) -> dict[str, Any]:
    return {
        "name": node.name,
        "kind": node.kind,
        "identity": node.identity or None,
        "state": node.state,
        "ports": [_port_json(port) for port in node.ports],
        "drift": [str(change) for change in node.drift],
    }


def _port_json(port: PortReport) -> dict[str, Any]:
    return {
        "name": port.name,
        "level": port.level,
        "address": port.address or None,
        "mac": port.mac,
        "peer": port.peer,
        "state": port.state,
        "mtu": port.mtu,
        "rate_bps": port.rate_bps,
        "delay_us": port.delay_us,
        "loss_ppm": port.loss_ppm,
    }


def drift_lines(report: Report) -> Iterator[str]:
    """The differences between file and kernel as lines of text."""
    for node in report.nodes:
        if node.state != "present":
            yield f"drift: {node.name}: {node.state}"
        yield from (f"drift: {node.name}: {change}" for change in node.drift)
    yield from (f"drift: {change}" for change in report.of_fabric)
    for name in report.surplus:
        yield f"drift: {name}: exists, but is not in the file"
    yield (
        "kernel and file agree"
        if not report.drift
        else f"{report.drift} differences; `hipsnet provision` removes them"
    )


def table(report: Report) -> Table:
    """A row for every port of every node."""
    view = Table(title=f"{report.fabric.name}: {report.fabric.shape.title}", title_justify="left")
    for heading in ("node", "identity", "port", "address", "peer", "state", "rate", "delay", "MTU"):
        view.add_column(heading, no_wrap=True)
    for node in report.nodes:
        first = True
        for port in node.ports:
            name, identity = (node.name, node.identity) if first else ("", "")
            rate = format_rate(port.rate_bps) if port.state != "missing" else ""
            state = f"{port.state}, loses {port.loss_ppm / 1e4:g} %" if port.loss_ppm else port.state
            delay, mtu = format_time(port.delay_us) if port.delay_us else "", str(port.mtu or "")
            row = (name, identity, port.name, port.address, port.peer, state, rate, delay, mtu)
            view.add_row(*row, style=None if port.state == "up" and not port.loss_ppm else "red")
            first = False
    return view
