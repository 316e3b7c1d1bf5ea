# SPDX-License-Identifier: Apache-2.0
"""Run programs on the nodes of the lab, in their namespaces and with their environment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from hipsnet.errors import InputError
from hipsnet.node import namespace
from hipsnet.topology import Fabric, Switch, find_server
from orchestrator.lab import identity
from orchestrator.lab.namespaces import namespace_name, require

PORT = "p0"
"""The interface that other libraries use. Every server has it and reaches every other server through it."""

NETWORK = {
    "GLOO_SOCKET_IFNAME": PORT,
    "NCCL_SOCKET_IFNAME": PORT,
    "UCX_NET_DEVICES": PORT,
    "OMPI_MCA_btl_tcp_if_include": PORT,
    "OMPI_MCA_oob_tcp_if_include": PORT,
    "OMPI_MCA_plm_rsh_agent": f"{sys.executable} -P -m orchestrator.lab.remote_shell {{fabric}}",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # the servers share the processors of one machine
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""Variables for Gloo, NCCL, UCX and Open MPI on the servers of a lab; `{fabric}` is the fabric's name."""


def shell(fabric: Fabric, text: str) -> NoReturn:
    """Become an interactive shell ($SHELL, else /bin/sh) on a node; the prompt shows fabric and node.

    Without a terminal the shell reads its commands from standard input. Raises as `execute`.
    """
    program = os.environ.get("SHELL") or "/bin/sh"
    node = _node(fabric, text)
    prompt = f"[{fabric.name} {node}] "
    command = [program]
    if sys.stdin.isatty() and Path(program).name == "bash":
        command += ["--rcfile", str(Path(__file__).with_name("shell.bashrc")), "-i"]
    execute(fabric, node, command, {"HIPSNET_PROMPT": prompt, "PS1": f"{prompt}$ "})


def _node(fabric: Fabric, text: str) -> str:
    found = fabric.nodes.get(text)
    return found.name if isinstance(found, Switch) else find_server(fabric, text).name


def execute(
    fabric: Fabric, text: str, command: Sequence[str], variables: Mapping[str, str] | None = None
) -> NoReturn:
    """Become `command` on the server (`s01`, `01`) or switch called `text`; its exit code is ours.

    `variables` are added to the environment.

    Raises InputError for an unknown node or a command that does not exist, ProvisionError for a lab that is not
    provisioned.
    """
    if not command[0]:
        raise InputError("COMMAND: found '', which is no program")
    node = _node(fabric, text)
    require(fabric.name, [node])
    hosts = identity.hosts(fabric)
    enter(namespace_name(fabric.name, node), node, hosts)
    restore_signals()
    try:
        os.execvpe(
            command[0], list(command), environment(fabric.name, node, {**os.environ, **(variables or {})})
        )
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}; nothing was run on {node}") from None


def restore_signals() -> None:
    """Stop ignoring the signals that Python ignores: the program executed next would inherit that."""
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)


def enter(name: str, node: str, hosts: str) -> None:
    """Move the calling process, for good, into the namespace `name`, with the node's hostname and a hosts file.

    `hosts` is `identity.hosts(fabric)`. The process must have a single thread. Raises CapabilityError without
    root.
    """
    namespace.enter(name)
    identity.assume(node, hosts)


def environment(fabric: str, node: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program on a node: the caller's `environ`, completed.

    `python` and other programs are first looked for in the Python environment that this process runs in. What
    `environ` says about the network stays.
    """
    own = str(Path(sys.executable).parent)
    path = [own, *(part for part in environ.get("PATH", os.defpath).split(os.pathsep) if part != own)]
    network = {name: value.format(fabric=fabric) for name, value in NETWORK.items()}
    return {**network, **environ, "PATH": os.pathsep.join(path), "HOSTNAME": node}
