# SPDX-License-Identifier: Apache-2.0
"""The aspects of a node, in the order to bring them up: how each is compared and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

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
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig


class Aspect(NamedTuple):
    """An aspect; `leans` if its objects depend on others, so that they have to be removed first."""

    name: str
    differences: Callable[[NodeConfig, Actual], Iterable[Change]]
    apply: Callable[[Context, Change], None]
    leans: bool = False


ASPECTS = (
    Aspect("link", links.differences, links.apply),
    Aspect("sysctl", sysctls.differences, sysctls.apply),  # a bridge's exist once the bridge does
    Aspect("offload", offloads.differences, offloads.apply),
    Aspect("nic", nic.differences, nic.apply),
    Aspect("program", datapath.differences, datapath.apply),
    Aspect("table", datapath.table_differences, datapath.fill),
    Aspect("loss", datapath.loss_differences, datapath.apply_loss),
    Aspect("delay", delay.differences, delay.apply),
    Aspect("rate", shaping.differences, shaping.apply),
    Aspect("address", addresses.differences, addresses.apply, leans=True),
    Aspect("state", links.activations, links.activate),  # after its program; routes need a link that is up
    Aspect("neighbour", neighbours.differences, neighbours.apply, leans=True),
    Aspect("route", routes.differences, routes.apply, leans=True),
    Aspect("policy", policy.differences, policy.apply, leans=True),
    Aspect("rdma", rdma.differences, rdma.apply),
    Aspect("nic", nic.rdma_differences, nic.apply),
)
APPLY = {aspect.name: aspect.apply for aspect in ASPECTS}
