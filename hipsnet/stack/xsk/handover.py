# SPDX-License-Identifier: Apache-2.0
"""Handing a node's sockets to a worker that has no privilege: over a Unix socket, as descriptors.

The process that opens them is the node's own, and keeps them for as long as the worker stays connected: when
a worker ends, however it ends, its sockets are closed and the next one gets new ones.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
from collections.abc import Sequence
from pathlib import Path

from hipsnet.errors import HipsnetError, TransportError
from hipsnet.stack.roce.core import Core
from hipsnet.stack.xsk.sockets import PortConfig, Shape, Sockets, adopt_sockets, open_sockets

FOLDER = Path("/run/hipsnet-endpoints")
_REPLY_BYTES, _MOST_DESCRIPTORS = 4096, 66


def path_of(fabric: str, node: str) -> Path:
    """Where the process of a node listens."""
    return FOLDER / f"{fabric}.{node}"


def ask(core: Core, path: Path) -> Sockets | None:
    """The node's sockets, from the process that has opened them; None if there is no such process.

    Raises TransportError with what it said if it could not open them.
    """
    giver = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        giver.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError, PermissionError):
        giver.close()
        return None
    size = socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize)
    reply, ancillary, _, _ = giver.recvmsg(_REPLY_BYTES, size)
    descriptors = array.array("i")
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    told = json.loads(reply) if reply else {"error": f"{path} closed the connection"}
    if "error" in told:
        giver.close()
        raise TransportError(told["error"])
    return adopt_sockets(core, Shape(*told["shape"]), descriptors.tolist(), giver)


def serve(core: Core, path: Path, ports: Sequence[PortConfig], mode: int = 0o600) -> None:
    """Hand the ports' sockets to whoever may connect to `path` (by its `mode`), one worker at a time; for ever.

    To be called in the node's namespace, by root.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.fspath(path))
        try:
            path.chmod(mode)
            listener.listen()
            _attend(core, listener, ports)
        finally:
            path.unlink(missing_ok=True)


def _attend(core: Core, listener: socket.socket, ports: Sequence[PortConfig]) -> None:
    worker: socket.socket | None = None
    opened: Sockets | None = None
    try:
        while True:
            ready, _, _ = select.select([listener, *([worker] if worker else [])], [], [])
            # A worker says nothing: what is there to read is its end.
            if worker in ready and worker is not None:
                worker.close()
                worker = None
                if opened is not None:
                    opened.close()
                    opened = None
            elif listener in ready:
                caller, _ = listener.accept()
                if worker is None:
                    worker, opened = caller, _give(core, caller, ports)
                else:
                    _refuse(caller, "another worker has the sockets of this node; does another job run here?")
                    caller.close()
    finally:
        if worker is not None:
            worker.close()
        if opened is not None:
            opened.close()


def _give(core: Core, worker: socket.socket, ports: Sequence[PortConfig]) -> Sockets | None:
    try:
        opened = open_sockets(core, ports)
    except HipsnetError as error:
        _refuse(worker, str(error))
        return None
    descriptors = array.array("i", opened.descriptors)
    reply = json.dumps({"shape": opened.shape}).encode()
    worker.sendmsg([reply], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    return opened


def _refuse(worker: socket.socket, why: str) -> None:
    worker.send(json.dumps({"error": why}).encode()[:_REPLY_BYTES])
