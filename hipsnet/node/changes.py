# SPDX-License-Identifier: Apache-2.0
"""The difference between desired and actual state of a node, in the order in which it has to be applied."""

from __future__ import annotations

from hipsnet.errors import ConflictError
from hipsnet.node import datapath, nic, rdma
from hipsnet.node.actual import Actual
from hipsnet.node.aspects import ASPECTS
from hipsnet.node.change import Change
from hipsnet.node.desired import MAC_MARK, NodeConfig


def changes(desired: NodeConfig, actual: Actual) -> list[Change]:
    """What has to be done, in order; empty if the node is as desired.

    What leans on something goes before it when removed (routes, then addresses) and after it when added.
    """
    found = [(aspect, list(aspect.differences(desired, actual))) for aspect in ASPECTS]
    leaning = [steps for aspect, steps in reversed(found) if aspect.leans]
    removed = [step for steps in leaning for step in steps if step.action == "remove"]
    rest = [
        step for aspect, steps in found for step in steps if not (aspect.leans and step.action == "remove")
    ]
    return removed + rest


def refuse_conflicts(desired: NodeConfig, actual: Actual) -> None:
    """Raise ConflictError if something that hipsnet did not make stands in the way, naming it.

    CapabilityError for a card that lacks what is required of it.
    """
    datapath.refuse_foreign(desired, actual)
    rdma.refuse_foreign(desired, actual)
    nic.refuse_lacking(desired, actual)
    for link in desired.links:
        now = actual.links.get(link.name)
        if link.kind == "cable" and now is not None and not now.mac.startswith(MAC_MARK):
            raise ConflictError(
                f"{desired.name}: the interface {link.name} ({now.kind or 'device'}, {now.mac}) was not made "
                "by hipsnet and was left alone; rename or remove it"
            )
        if link.kind == "bridge" and now is not None and now.kind != "bridge":
            raise ConflictError(
                f"{desired.name}: {link.name} wanted as a bridge, found as {now.kind or 'device'}; "
                "rename or remove it"
            )
    for route in desired.routes:
        if route.prefix in actual.foreign_routes:
            raise ConflictError(
                f"{desired.name}: a route to {route.prefix} is there that hipsnet did not make; it was left "
                "alone: remove it, or choose other base prefixes under `addresses`"
            )
