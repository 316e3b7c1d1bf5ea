# SPDX-License-Identifier: Apache-2.0
"""The difference between the desired and the actual state of a node, in the order to apply it."""

from __future__ import annotations

from hipsnet.errors import ConflictError
from hipsnet.node import datapath, nic, rdma
from hipsnet.node.actual import Actual
from hipsnet.node.aspects import ASPECTS
from hipsnet.node.change import Change
from hipsnet.node.desired import MAC_MARK, NodeConfig


def changes(desired: NodeConfig, actual: Actual) -> list[Change]:
    """The changes to apply, in order; empty if the node is as desired.

    A dependent object is removed before the object that it depends on (routes, then addresses) and added after it.
    """
    found = [(aspect, list(aspect.differences(desired, actual))) for aspect in ASPECTS]
    leaning = [steps for aspect, steps in reversed(found) if aspect.leans]
    removed = [step for steps in leaning for step in steps if step.action == "remove"]
    rest = [
        step for aspect, steps in found for step in steps if not (aspect.leans and step.action == "remove")
    ]
    return removed + rest


def refuse_conflicts(desired: NodeConfig, actual: Actual) -> None:
    """Raise ConflictError, naming it, for an object in the way that hipsnet did not create.

    Raises InputError for a card that lacks a required setting.
    """
    datapath.refuse_foreign(desired, actual)
    rdma.refuse_foreign(desired, actual)
    nic.refuse_lacking(desired, actual)
    for link in desired.links:
        now = actual.links.get(link.name)
        if link.kind == "cable" and now is not None and not now.mac.startswith(MAC_MARK):
            raise ConflictError(
                f"{desired.name}: hipsnet did not create the interface {link.name} ({now.kind or 'device'}, "
                f"{now.mac}) and has not changed it; rename or remove it"
            )
        if link.kind == "bridge" and now is not None and now.kind != "bridge":
            raise ConflictError(
                f"{desired.name}: {link.name} has to be a bridge, but is a {now.kind or 'device'}; rename or "
                "remove it"
            )
    for route in desired.routes:
        if route.prefix in actual.foreign_routes:
            raise ConflictError(
                f"{desired.name}: a route to {route.prefix} exists that hipsnet did not create and has not "
                "changed; remove it, or choose other base prefixes under `addresses`"
            )
