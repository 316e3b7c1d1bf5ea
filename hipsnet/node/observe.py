# SPDX-License-Identifier: Apache-2.0
"""Read one node's actual state."""

from __future__ import annotations

from dataclasses import replace

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
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig


def read_new(context: Context, desired: NodeConfig) -> Actual:
    """The state of an open node that was just created: its links, and nothing else."""
    features = {link.name: link.features for link in desired.links}
    found = links.read(context)
    return Actual(
        {
            name: replace(link, offloads=offloads.read(name, features.get(name, ())))
            for name, link in found.items()
        }
    )


def read_actual(context: Context, desired: NodeConfig) -> Actual:
    """The state of an open node; of settings and offloads only those that `desired` names."""
    found = links.read(context)
    ours, foreign = addresses.read(context)
    configs = {link.name: link for link in desired.links}
    # Only cables have injected faults; a host with cards need not have the program for them.
    has_cables = any(link.kind == "cable" for link in desired.ports)
    losses = dict(enumerate(datapath.losses(desired))) if has_cables else {}
    delays = dict(enumerate(delay.read(desired.fabric, desired.name))) if has_cables else {}
    complete = {}
    for name, link in found.items():
        more = shaping.read(context, link)
        if name in configs:
            more["offloads"] = offloads.read(name, configs[name].features)
            more["settings"] = nic.read(name, configs[name].settings)
            if (port := configs[name].port) is not None:
                more["loss_ppm"] = losses.get(port, 0)
                if port in delays:
                    more |= {"delay_us": delays[port].delay_us, "ring_bytes": delays[port].ring_bytes}
        complete[name] = replace(
            link,
            addresses=frozenset(ours.get(link.index, ())),
            foreign_addresses=frozenset(foreign.get(link.index, ())),
            **more,
        )
    our_routes, foreign_routes = routes.read(context)
    our_neighbours, resolved = neighbours.read(context)
    rxe, foreign_rxe = rdma.read(desired.fabric, desired.name)
    return Actual(
        links=complete,
        routes=our_routes,
        foreign_routes=foreign_routes,
        neighbours=our_neighbours,
        resolved=resolved,
        sysctls=sysctls.read(desired.sysctls),
        table=datapath.table(desired),
        policies=policy.read(context),
        program_differences=datapath.program_differences(desired),
        rxe=rxe,
        foreign_rxe=foreign_rxe,
    )
