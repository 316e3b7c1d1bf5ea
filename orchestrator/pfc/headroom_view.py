# SPDX-License-Identifier: Apache-2.0
"""The headroom of a fabric's ports and their thresholds, as text and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from hipsnet.errors import InputError
from hipsnet.topology import Fabric, Server, Topology, headroom
from hipsnet.topology.headroom import Term, Thresholds
from hipsnet.topology.schema import Pfc
from hipsnet.units import format_rate, parse_size

_SHOWN = 4


@dataclass(frozen=True)
class Group:
    """Ports of one kind of node with the same parts of headroom."""

    kind: str
    ports: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def bytes(self) -> int:
        """The minimum headroom without packet loss."""
        return sum(term.bytes for term in self.terms)


def explained(topology: Topology, fabric: Fabric) -> tuple[Group, ...]:
    """The ports of servers, and those of switches. Raises InputError if the file has no lossless priorities."""
    pfc = _pfc(topology)
    found: dict[str, list[str]] = {}
    for node in fabric.nodes.values():
        kind = "server" if isinstance(node, Server) else "switch"
        found.setdefault(kind, []).extend(f"{node.name}.{port.name}" for port in node.ports)
    parts = headroom.terms(headroom.link_of(topology, pfc))
    return tuple(Group(kind, tuple(ports), parts) for kind, ports in found.items())


def as_json(topology: Topology, groups: tuple[Group, ...]) -> dict[str, Any]:
    """The groups and the thresholds as plain data; sizes in bytes."""
    pfc = _pfc(topology)
    link = headroom.link_of(topology, pfc)
    return {
        "fabric": topology.name,
        "rate_bps": topology.link.rate_bps,
        "reckoned_rate_bps": link.rate_bps,
        "mtu": link.mtu,
        "cable_m": link.cable_m,
        "groups": [
            {
                "kind": group.kind,
                "ports": list(group.ports),
                "terms": [asdict(term) for term in group.terms],
                "headroom_bytes": group.bytes,
            }
            for group in groups
        ],
        "thresholds": {str(p): asdict(_lossless(topology)) for p in pfc.priorities},
    }


def parts(topology: Topology, groups: tuple[Group, ...]) -> Iterator[RenderableType]:
    """A table for each group of ports, then the thresholds."""
    pfc = _pfc(topology)
    link = headroom.link_of(topology, pfc)
    rate = format_rate(link.rate_bps)
    reckoned = " (assumed for unlimited)" if topology.link.rate_bps is None else ""
    if len({group.terms for group in groups}) == 1:
        groups = (Group("", tuple(port for group in groups for port in group.ports), groups[0].terms),)
    for group in groups:
        yield f"{topology.name}: headroom of {_ports(group)} at {rate}{reckoned}"
        table = Table(show_footer=True)
        table.add_column("part", footer="headroom")
        table.add_column("what")
        table.add_column("bytes", justify="right", footer=str(group.bytes))
        for term in group.terms:
            table.add_row(term.name, term.text, str(term.bytes))
        yield table
    names = ", ".join(map(str, pfc.priorities))
    yield f"lossless: priorit{'y' if len(pfc.priorities) == 1 else 'ies'} {names}, each at every port"
    yield from _words(topology, pfc, _lossless(topology))


def _words(topology: Topology, pfc: Pfc, found: Thresholds) -> Iterator[str]:
    derived = {name: "" if getattr(pfc, name) else " (derived)" for name in ("headroom", "xoff", "xon")}
    yield f"  headroom  {found.headroom} B{derived['headroom']}"
    yield f"  reserved  {found.reserved} B"
    if found.xoff:
        yield f"  XOFF      {found.xoff} B"
        yield f"  XON       {found.xon} B{derived['xon']}"
    else:
        yield f"  XOFF      {found.alpha:g} x the free part of the shared buffer"
        yield f"  XON       {found.xon} B" if found.xon else f"  XON       {found.hysteresis} B below XOFF"
    if pfc.buffer:
        taken = len(pfc.priorities) * (found.headroom + found.xoff)
        yield f"  buffer    {parse_size(pfc.buffer)} B a port, {taken} B of it for headroom and XOFF"
    if topology.nodes == "lab" and topology.lab.switch == "lossless":
        yield f"  shared    {topology.lab.buffer_bytes} B in every switch, in addition to headroom and reserved"


def _ports(group: Group) -> str:
    shown = ", ".join(group.ports[:_SHOWN]) + (", ..." if len(group.ports) > _SHOWN else "")
    kind = f"{group.kind} " if group.kind else ""
    return f"{len(group.ports)} {kind}ports ({shown})"


def _lossless(topology: Topology) -> Thresholds:
    return next(found for found in headroom.thresholds(topology) if found.lossless)


def _pfc(topology: Topology) -> Pfc:
    if topology.pfc is None:
        raise InputError(
            "pfc: the file has no such section, so all traffic is lossy; add one with the lossless priorities"
        )
    return topology.pfc
