"""The difference between desired and actual state of a node, in the order in which it has to be applied."""

from __future__ import annotations

from hipsnet.errors import ConflictError
from hipsnet.node import (
    addresses,
    datapath,
    delay,
    links,
    neighbours,
    nic,
    offloads,
    policy,
    rdma,
    routes,
    shaping,
    sysctls,
)
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.desired import MAC_MARK, NodeConfig


def changes(desired: NodeConfig, actual: Actual) -> list[Change]:
    """What has to be done, in order; empty if the node is as desired.

    What leans on something goes before it when removed (routes, then addresses) and after it when added; a
    link comes up when its program is attached, and carries routes only then.
    """
    moving = [
        *policy.differences(desired, actual),
        *neighbours.differences(desired, actual),
        *routes.differences(desired, actual),
        *addresses.differences(desired, actual),
    ]
    removed = [change for change in moving if change.action == "remove"]
    order = {"address": 0, "neighbour": 2, "route": 3, "policy": 4}
    placed = sorted((c for c in moving if c.action != "remove"), key=lambda change: order[change.aspect])
    of_links = [change for change in placed if change.aspect == "address"]
    by_links = [change for change in placed if change.aspect != "address"]
    return [
        *sysctls.differences(desired, actual),
        *removed,
        *links.differences(desired, actual),
        *offloads.differences(desired, actual),
        *nic.differences(desired, actual),
        *datapath.differences(desired, actual),
        *delay.differences(desired, actual),
        *shaping.differences(desired, actual),
        *of_links,
        *links.activations(desired, actual),
        *by_links,
        *rdma.differences(desired, actual),
        *nic.rdma_differences(desired, actual),
    ]


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
