# SPDX-License-Identifier: Apache-2.0
"""A job: one program on every server of a provisioned lab, and the environment each one finds."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hipsnet.errors import InputError, ProvisionError
from hipsnet.node import namespace
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator.jobs.guard import Program


def settings(path: Path, fabric: Fabric, **given: object) -> Settings:
    """The settings that rank 0 of a job gets, with a new secret.

    `given` fields that are None keep their default. Raises InputError where a value is not allowed.
    """
    wanted = {field: value for field, value in given.items() if value is not None}
    return Settings(
        rank=0,
        world_size=len(fabric.servers),
        topology=str(path.resolve()),
        token=secrets.token_hex(16),
        **wanted,  # type: ignore[arg-type]
    )


def programs(
    topology: Topology,
    fabric: Fabric,
    common: Settings,
    command: Sequence[str],
    environ: Mapping[str, str] = os.environ,
) -> tuple[Program, ...]:
    """One program for every server, in order of rank, each in its server's namespace.

    Raises InputError if there is no such command or the servers are real hosts, ProvisionError if the lab is
    not there.
    """
    if topology.nodes != "lab":
        raise InputError(
            f"fabric {fabric.name}: wanted servers in the lab, found real hosts under `nodes`; "
            "start the program on each host yourself with RANK, WORLD_SIZE and HIPSNET_TOPOLOGY set"
        )
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise InputError(f"{command[0]}: wanted a program that can be run, found none; check its path")
    found = set(namespace.names())
    missing = [server.name for server in fabric.servers if f"{fabric.name}-{server.name}" not in found]
    if missing:
        raise ProvisionError(
            f"fabric {fabric.name}: wanted {len(fabric.servers)} servers, {len(missing)} are not there "
            f"({', '.join(missing[:4])}{', ...' if len(missing) > 4 else ''}); "
            f"run `hipsnet provision {common.topology}`"
        )
    return tuple(
        Program(
            server=server.name,
            namespace=f"{fabric.name}-{server.name}",
            command=tuple(command),
            environment=environment(fabric, replace(common, rank=server.rank), environ),
        )
        for server in fabric.servers
    )


def environment(fabric: Fabric, own: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """What the program of one server finds: the caller's environment, the job's place, and the settings.

    The place is told as torchrun tells it, for one process on each node. As torchrun does where processes
    share a machine, OMP_NUM_THREADS is 1 unless the caller has set it.
    """
    return {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",  # output is a pipe, and a person is watching its other end
        **environ,
        **own.to_environment(),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(own.rank),
        "GROUP_WORLD_SIZE": str(own.world_size),
        "MASTER_ADDR": str(fabric.servers[0].identity),
        "MASTER_PORT": str(own.port + 1),
    }
