# SPDX-License-Identifier: Apache-2.0
"""The plan of a provision: every difference between the lab and its topology file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hipsnet.errors import ConflictError
from hipsnet.node import rdma
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.changes import changes, refuse_conflicts
from hipsnet.node.context import opened
from hipsnet.node.derive import node_config
from hipsnet.node.desired import NodeConfig
from hipsnet.node.observe import read_actual
from hipsnet.topology import Fabric, Topology
from orchestrator.lab import delay_line, soft_switch, state
from orchestrator.lab.namespaces import Place, namespace_name, places
from orchestrator.provision.cables import CablePlan, plan_cables


@dataclass(frozen=True)
class Plan:
    """The changes in the order of the fields; `configs` is the desired state of every node.

    `changes` are by node and include those of nodes that do not exist yet. `delay_line` is about the process that
    delays the fabric's cables, `soft_switch` about the one that runs its switches: they are stopped before
    everything else and started last. `record` is set if the record of an existing fabric was lost.
    """

    fabric: Fabric
    topology: Topology
    configs: Mapping[str, NodeConfig]
    remove_nodes: tuple[str, ...]
    add_nodes: tuple[str, ...]
    cables: CablePlan
    changes: Mapping[str, tuple[Change, ...]]
    delay_line: tuple[Change, ...] = ()
    soft_switch: tuple[Change, ...] = ()
    record: tuple[Change, ...] = ()

    def steps(self) -> Iterator[Change]:
        """Every change, namespaces and cables included."""
        for node in self.remove_nodes:
            yield Change(node, "namespace", "remove", namespace_name(self.fabric.name, node))
        for node, link in self.cables.remove:
            if node not in self.remove_nodes:
                yield Change(node, "cable", "remove", link)
        for node in self.add_nodes:
            yield Change(node, "namespace", "add", namespace_name(self.fabric.name, node))
        for cable in self.cables.add:
            yield Change(cable.a.node, "cable", "add", cable.name)
        for found in self.changes.values():
            yield from found
        yield from self.delay_line
        yield from self.soft_switch
        yield from self.record

    @property
    def is_empty(self) -> bool:
        """Whether the lab matches the file."""
        return next(self.steps(), None) is None

    @property
    def work(self) -> int:
        """The units of progress: nodes and cables."""
        return len(self.remove_nodes) + len(self.add_nodes) + len(self.cables.add) + len(self.changes)


@dataclass(frozen=True)
class Survey:
    """The parts of a fabric that exist: its places, and the actual state of the nodes made by hipsnet."""

    places: Mapping[str, Place]
    actual: Mapping[str, Actual]


def configurations(topology: Topology, fabric: Fabric) -> dict[str, NodeConfig]:
    """The desired state of every node of the lab. Raises CapabilityError for what this machine does not support."""
    configs = {node: node_config(topology, fabric, node) for node in fabric.nodes}
    if delay_line.is_wanted(configs):
        delay_line.program()
    if topology.roce.device == "rxe":
        rdma.require_rxe_in_namespaces()
    if soft_switch.is_wanted(topology, fabric):
        soft_switch.program()
    return configs


def survey(fabric: str, configs: Mapping[str, NodeConfig]) -> Survey:
    """Read the parts of a fabric that exist. Changes nothing."""
    found = places(fabric, configs)
    actual = {}
    for place in found.values():
        if place.standing == "ours":
            config = configs.get(place.node) or NodeConfig(fabric, place.node, ())
            with opened(place.node, namespace_name(fabric, place.node)) as context:
                actual[place.node] = read_actual(context, config)
    return Survey(found, actual)


def make_plan(topology: Topology, fabric: Fabric) -> Plan:
    """Compare the file with the kernel. Changes nothing.

    Raises ConflictError naming what is in the way and not hipsnet's, CapabilityError for what the machine does not
    support.
    """
    configs = configurations(topology, fabric)
    found = survey(fabric.name, configs)
    _refuse_foreign(fabric.name, found, configs)
    standing = {node: place.standing for node, place in found.places.items()}
    remove = tuple(node for node, how in standing.items() if how != "foreign" and node not in configs)
    add = tuple(node for node in configs if standing.get(node) != "ours")
    cables = plan_cables(fabric, found.actual)
    gone = set(cables.remove)
    differences = {}
    for node, config in configs.items():
        steps = changes(config, _without(found.actual.get(node, Actual()), node, gone))
        if steps:
            differences[node] = tuple(steps)
    moves = bool(remove or add or cables.remove or cables.add)
    line = delay_line.differences(fabric, configs, differences, moves)
    switch = soft_switch.differences(topology, fabric, differences, moves)
    record = lost_record(fabric.name, found)
    return Plan(fabric, topology, configs, remove, add, cables, differences, line, switch, record)


def lost_record(fabric: str, found: Survey) -> tuple[Change, ...]:
    """The missing record of a fabric that exists, as when its folder in /run/hipsnet was deleted."""
    if not found.actual or state.read(fabric) is not None:
        return ()
    return (Change(fabric, "record", "add", str(state.record_path(fabric))),)


def _without(actual: Actual, node: str, gone: set[tuple[str, str]]) -> Actual:
    """The state of a node once its wrong cables are removed, with everything that depends on them."""
    lost = {name for owner, name in gone if owner == node}
    if not lost:
        return actual
    return replace(
        actual,
        links={name: link for name, link in actual.links.items() if name not in lost},
        routes=frozenset(r for r in actual.routes if not lost & {link for link, _ in r.hops}),
        neighbours=frozenset(n for n in actual.neighbours if n.link not in lost),
        policies=frozenset(p for p in actual.policies if p.link not in lost),
        rxe={device: link for device, link in actual.rxe.items() if link not in lost},
    )


def _refuse_foreign(fabric: str, found: Survey, configs: Mapping[str, NodeConfig]) -> None:
    foreign = [node for node in configs if node in found.places and found.places[node].standing == "foreign"]
    if foreign:
        names = ", ".join(namespace_name(fabric, node) for node in foreign)
        raise ConflictError(
            f"not made by hipsnet, and left alone: namespace{'' if len(foreign) == 1 else 's'} {names}; "
            f"remove what is in the way (ip netns del ...), or give the fabric another name than {fabric!r}"
        )
    for node, config in configs.items():
        if node in found.actual:
            refuse_conflicts(config, found.actual[node])
