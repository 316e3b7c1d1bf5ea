# SPDX-License-Identifier: Apache-2.0
"""Running a command on a node of the lab."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from hipsnet.errors import InputError
from hipsnet.node import namespace
from hipsnet.topology import Fabric, Switch, find_server
from orchestrator.lab.namespaces import namespace_name, require


def execute(fabric: Fabric, text: str, command: Sequence[str]) -> NoReturn:
    """Become `command` on the server (`s01`, `01`) or switch called `text`; its exit code is ours.

    Raises InputError for an unknown node, a lab that is not provisioned, or a command that is not there.
    """
    found = fabric.nodes.get(text)
    if not command[0]:
        raise InputError("COMMAND: wanted a program to run, found ''")
    node = found.name if isinstance(found, Switch) else find_server(fabric, text).name
    require(fabric.name, [node])
    namespace.enter(namespace_name(fabric.name, node))
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}; nothing was run on {node}") from None
