# SPDX-License-Identifier: Apache-2.0
"""Carry out a plan: namespaces, then cables, then every node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from hipsnet.errors import ProvisionError
from hipsnet.node import links, namespace
from hipsnet.node.applying import settle
from hipsnet.node.context import opened
from hipsnet.node.programs import ensure_programs
from hipsnet.topology import Fabric, Link, Topology
from orchestrator.lab import delay_line, soft_switch, state
from orchestrator.lab.locking import locked
from orchestrator.lab.namespaces import mark, namespace_name
from orchestrator.provision import cables
from orchestrator.provision.plan import Plan, make_plan
from orchestrator.provision.removal import remove_nodes

CARRIER_S = 3.0
Report = Callable[[str], None]


def provision(topology: Topology, fabric: Fabric, file: str, begin: Callable[[Plan], Report]) -> Plan:
    """Make the lab match the file, changing only what differs; returns the plan that was carried out.

    `begin` takes the plan and returns a function, which is called after each of the plan's `work` units with a
    description of it. `file` is stored in the record, so that `destroy` can find the fabric by it. Raises
    ConflictError before any change if something that is not hipsnet's is in the way, ProvisionError if the kernel
    refuses a step or another command holds the fabric.
    """
    with locked(fabric.name):
        pass  # report a fabric that cannot be locked before anything is compiled for it
    ensure_programs()
    with locked(fabric.name):
        plan = make_plan(topology, fabric)
        report = begin(plan)
        before = state.read(fabric.name)
        intent = set(before.nodes if before else ()) | set(plan.configs) | set(plan.remove_nodes)
        if not plan.is_empty or before is None:
            state.write(fabric.name, state.Record(file, tuple(sorted(intent))))
            carry_out(plan, report)
        done = state.Record(file, tuple(sorted(plan.configs)))
        if done != before:
            state.write(fabric.name, done)
    return plan


def carry_out(plan: Plan, report: Report) -> None:
    """Carry out the plan. Called with the fabric's lock held and the intent recorded."""
    name = plan.fabric.name
    if plan.delay_line:
        delay_line.stop(name)
    if plan.soft_switch:
        soft_switch.stop(name)
    _unplug(plan)
    remove_nodes(name, plan.remove_nodes)
    for node in plan.remove_nodes:
        report(f"{node} removed")
    for node in plan.add_nodes:
        namespace.create(namespace_name(name, node), mark(name, node))
        report(f"{node} made")
    _plug(plan, report)
    # Switches first: a veth enables redirection to its peer (GRO) when it comes up itself.
    switches = {switch.name for switch in plan.fabric.switches}
    for node in sorted(plan.changes, key=lambda node: node not in switches):
        with opened(node, namespace_name(name, node)) as context:
            settle(context, plan.configs[node], is_new=node in plan.add_nodes)
        report(f"{node} configured")
    soft_switch.serve(plan.topology, plan.fabric)
    delay_line.serve(plan.fabric)
    raised = {node for node, steps in plan.changes.items() if any(step.aspect == "state" for step in steps)}
    await_carriers(name, {node: [port.name for port in plan.fabric.nodes[node].ports] for node in raised})


def await_carriers(fabric: str, ports: Mapping[str, Iterable[str]]) -> None:
    """Wait until these ports, by node, have a carrier. Raises ProvisionError naming those without."""
    for node, names in ports.items():
        with opened(node, namespace_name(fabric, node)) as context:
            dark = links.without_carrier(context, names, CARRIER_S)
        if dark:
            raise ProvisionError(f"{node}: {', '.join(dark)} without carrier; is the other end down?")


def _unplug(plan: Plan) -> None:
    ends: dict[str, list[str]] = defaultdict(list)
    for node, link in plan.cables.remove:
        if node not in plan.remove_nodes:
            ends[node].append(link)
    for node, names in ends.items():
        with opened(node, namespace_name(plan.fabric.name, node)) as context:
            for name in names:
                cables.remove_end(context, name)


def _plug(plan: Plan, report: Report) -> None:
    """Make the cables, then name both ends."""
    fabric = plan.fabric.name
    by_node: dict[str, list[Link]] = defaultdict(list)
    ends: dict[str, list[tuple[str, Link]]] = defaultdict(list)
    for link in plan.cables.add:
        by_node[link.a.node].append(link)
        for port in (link.a, link.b):
            ends[port.node].append((port.name, link))
    for node, plugged in by_node.items():
        with opened(node, namespace_name(fabric, node)) as context:
            for link in cables.make(context, fabric, plugged, plan.topology.link.mtu):
                report(f"{link.name} plugged")
    for node, named in ends.items():
        with opened(node, namespace_name(fabric, node)) as context:
            cables.name_ends(context, fabric, named)
