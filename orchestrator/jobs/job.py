# SPDX-License-Identifier: Apache-2.0
"""A job: one program on every server of a provisioned lab, and the environment of each."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hipsnet import failures
from hipsnet.errors import InputError
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs import registry
from orchestrator.jobs.guard import Program
from orchestrator.lab import execution, identity, namespaces
from orchestrator.lab.account import Account


def settings(path: Path, fabric: Fabric, **given: object) -> Settings:
    """The settings of rank 0 of a job, with a new token.

    `given` fields that are None keep their default. Raises InputError where a value is not allowed.
    """
    chosen = {field: value for field, value in given.items() if value is not None}
    return Settings(
        rank=0,
        world_size=len(fabric.servers),
        topology=str(path.resolve()),
        token=secrets.token_hex(16),
        **chosen,  # type: ignore[arg-type]
    )


def programs(
    topology: Topology,
    fabric: Fabric,
    common: Settings,
    command: Sequence[str],
    account: Account | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Program, ...]:
    """One program for every server, in order of rank, each in its server's namespace.

    They run as the user `account`, or as the user of this process.
    Raises InputError if there is no such command or the servers are real hosts, ProvisionError if the lab is
    not provisioned.
    """
    if topology.nodes != "lab":
        raise InputError(
            f"fabric {fabric.name}: `hipsnet run` starts programs in a lab, but the file names real hosts under "
            "`nodes`; start the program on each host yourself with RANK, WORLD_SIZE and HIPSNET_TOPOLOGY set"
        )
    names = [server.name for server in fabric.servers]
    environments = [
        environment(fabric, replace(common, rank=server.rank), environ)
        | (account.environment() if account else {})
        for server in fabric.servers
    ]
    if shutil.which(command[0], path=environments[0]["PATH"]) is None:
        raise InputError(f"{command[0]}: no such program on PATH that can be run; check its path")
    namespaces.require(fabric.name, names, common.topology)
    hosts = identity.hosts(fabric)
    return tuple(
        Program(
            name, namespaces.namespace_name(fabric.name, name), tuple(command), environment, hosts, account
        )
        for name, environment in zip(names, environments, strict=True)
    )


def inbox_path(fabric: Fabric) -> Path:
    """The path of the socket at which this process receives the failure reports of its job."""
    return registry.folder(fabric.name) / f"{os.getpid()}.failures"


def environment(fabric: Fabric, own: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of one server's program: the caller's, the network's, the job's place and the settings.

    The variables of the place are those of torchrun for one process on each node. As with torchrun,
    OMP_NUM_THREADS is 1 unless the caller has set it, because the servers share a machine.
    """
    node = fabric.servers[own.rank].name
    address, port = str(fabric.servers[0].identity), str(own.port + 1)
    return {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",  # output is a pipe that is read line by line
        **execution.environment(fabric.name, node, environ),
        **own.to_environment(),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(own.rank),
        "GROUP_WORLD_SIZE": str(own.world_size),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        # The arguments of torchrun, should the program be torchrun.
        "PET_NNODES": str(own.world_size),
        "PET_NODE_RANK": str(own.rank),
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": port,
        failures.VARIABLE: str(inbox_path(fabric)),
    }
