# SPDX-License-Identifier: Apache-2.0
"""The privileged part of a job whose programs run as another user.

tcp: if the kernel does not permit the congestion control to users, another one is chosen. xdp: a process on each
server opens the AF_XDP sockets and hands them to the job's user, as `hipsnet endpoints` does. verbs:
`account.become` raises the limit of pinned memory.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import CapabilityError, HipsnetError, InputError
from hipsnet.node import namespace
from hipsnet.node.derive import server_config
from hipsnet.stack.ports.loop import core
from hipsnet.stack.xsk.handover import free, path_of, serve
from hipsnet.stack.xsk.sockets import PortConfig, pins_of
from hipsnet.topology import Fabric, Server, Topology
from orchestrator.jobs.guard import die_with_parent
from orchestrator.lab.account import Account
from orchestrator.lab.namespaces import namespace_name

_SYSCTLS = Path("/proc/sys/net/ipv4")
_MODE = 0o600
_START_S = 20.0


@dataclass(frozen=True)
class Endpoints:
    """The ports of one server, and the path of the socket at which the user `owner` receives them."""

    namespace: str
    path: Path
    ports: tuple[PortConfig, ...]
    owner: int


def permitted_congestion_control(asked: str, account: Account, is_given: bool) -> str:
    """The TCP congestion control for programs of a user: the one asked for, or the machine's default one.

    `is_given`: the caller chose it explicitly. Raises InputError if it is then not permitted to the user.
    """
    permitted = (_SYSCTLS / "tcp_allowed_congestion_control").read_text().split()
    if account.is_current or asked in permitted:
        return asked
    if is_given:
        raise InputError(
            f"--congestion: found {asked!r}, which the kernel does not permit to {account.name}; allowed: "
            f"{', '.join(permitted)} (root can add others to the sysctl net.ipv4.tcp_allowed_congestion_control)"
        )
    return (_SYSCTLS / "tcp_congestion_control").read_text().strip()


def endpoints(topology: Topology, fabric: Fabric, account: Account) -> tuple[Endpoints, ...]:
    """The endpoints that each server of a lab hands over to programs of `account`."""
    return tuple(
        Endpoints(
            namespace_name(fabric.name, server.name),
            path_of(fabric.name, server.name),
            ports_of(topology, fabric, server),
            account.uid,
        )
        for server in fabric.servers
    )


def ports_of(topology: Topology, fabric: Fabric, server: Server) -> tuple[PortConfig, ...]:
    """The ports of a server, as AF_XDP sockets are opened on them."""
    pins = pins_of(fabric.name, server.name)
    config = server_config(topology, fabric, server)
    return tuple(
        PortConfig(link.name, link.mac or "", link.mtu or 1500, pins, link.port or 0) for link in config.ports
    )


_LOAD = "import sys; from hipsnet.engine.wire.wire import library_of; library_of(sys.argv[1])"


def compile_as(account: Account, environ: Mapping[str, str], transport: str) -> None:
    """Compile the libraries of a job in that user's cache, unless the user can read root's cache.

    Raises CapabilityError with the reason if that fails.
    """
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, transport],
        env={**environ, **account.environment()},
        cwd="/",
        user=account.uid,
        group=account.gid,
        extra_groups=account.groups,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise CapabilityError(
            f"{account.name} cannot load the libraries of hipsnet: {reason[0]}; the user needs a home "
            "folder, or XDG_CACHE_HOME, to keep them in, and must be able to read the Python environment"
        )


def start(served: Sequence[Endpoints]) -> None:
    """Fork a process for each server and return when all listen. Only for a process with one thread: the guard.

    They end with SIGTERM, or with the process that forked them. Raises HipsnetError if one does not start, or if
    `hipsnet endpoints` serves one of the servers.
    """
    parent = os.getpid()
    for one in served:
        free(one.path)
        if os.fork() == 0:
            _serve(one, parent)
    deadline = time.monotonic() + _START_S
    for one in served:
        while not _listens(one.path):
            if time.monotonic() > deadline:
                raise HipsnetError(f"cannot hand sockets over to the programs: nothing listens at {one.path}")
            time.sleep(0.01)


def remove(served: Sequence[Endpoints]) -> None:
    """Remove the sockets' paths that a killed process has left."""
    for one in served:
        one.path.unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    """Whether `serve` is ready: it sets the mode last."""
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode) == _MODE
    return False


def _serve(one: Endpoints, parent: int) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        die_with_parent(parent)
        namespace.enter(one.namespace)
        serve(core(), one.path, one.ports, _MODE, one.owner)
    except SystemExit:
        code = 0
    except BaseException as error:
        print(f"hipsnet: {one.path}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
