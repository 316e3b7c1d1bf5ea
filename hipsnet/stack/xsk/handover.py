# SPDX-License-Identifier: Apache-2.0
"""Handing a node's sockets to a worker that has no privilege: over a Unix socket, as descriptors.

The process that opens the sockets is the node's own. It keeps them for one worker at a time, until that worker
closes the connection or ends; the next worker gets new sockets.
"""

from __future__ import annotations

import array
import glob
import json
import os
import select
import signal
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hipsnet.errors import HipsnetError, TransportError
from hipsnet.stack.roce.core import Core
from hipsnet.stack.xsk.sockets import PortConfig, Shape, Sockets, adopt_sockets, open_sockets

FOLDER = Path("/run/hipsnet-endpoints")
ANSWER_S = 30.0
_REPLY_BYTES, _MOST_DESCRIPTORS = 4096, 66
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PID = struct.Struct("i")  # the first field of struct ucred
_ENDED = select.POLLHUP | select.POLLRDHUP | select.POLLERR


@dataclass
class _Lease:
    """A worker, and the sockets that it has."""

    worker: socket.socket
    sockets: Sockets

    def close(self) -> None:
        self.worker.close()
        self.sockets.close()


def path_of(fabric: str, node: str) -> Path:
    """Where the process of a node listens."""
    return FOLDER / f"{fabric}.{node}"


def remove_sockets(fabric: str) -> None:
    """Remove the sockets of a fabric's nodes that a killed process has left."""
    for path in FOLDER.glob(f"{glob.escape(fabric)}.*"):
        path.unlink(missing_ok=True)


def ask(core: Core, path: Path) -> Sockets | None:
    """The node's sockets, from the process that has opened them; None if no such process can be reached.

    Raises TransportError with that process's reason if it refuses, or if it does not answer.
    """
    giver = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        giver.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError, PermissionError):
        giver.close()
        return None
    try:
        reply, descriptors = _read_reply(giver)
    except OSError as error:
        giver.close()
        raise TransportError(
            f"{path}: no answer ({error}); is `hipsnet endpoints` of this node still alive?"
        ) from None
    answer = json.loads(reply) if reply else {"error": f"{path} closed the connection"}
    if "error" in answer:
        giver.close()
        raise TransportError(answer["error"])
    return adopt_sockets(core, Shape(*answer["shape"]), descriptors, giver)


def _read_reply(giver: socket.socket) -> tuple[bytes, list[int]]:
    giver.settimeout(ANSWER_S)
    descriptors = array.array("i")
    size = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
    reply, ancillary, _, _ = giver.recvmsg(_REPLY_BYTES, size)
    for _, _, data in ancillary:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return reply, descriptors.tolist()


def free(path: Path) -> None:
    """Remove the socket that a killed process has left at `path`.

    Raises HipsnetError naming the process if one still serves there: it would become unreachable.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(os.fspath(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        pid = _PID.unpack_from(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    raise HipsnetError(f"process {pid} already hands over the sockets of this server at {path}; end it first")


def serve(core: Core, path: Path, ports: Sequence[PortConfig], mode: int = 0o600, owner: int = -1) -> None:
    """Hand the ports' sockets to processes that may connect to `path`, one at a time, forever.

    `path` gets the user id `owner` (-1: this process's), and then `mode`, as soon as workers can connect. To be
    called in the node's namespace, by root. Raises HipsnetError if another process does so at `path`.
    """
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    free(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(os.fspath(path))
        try:
            listener.listen()
            os.chown(path, owner, -1)
            path.chmod(mode)
            with _signals_deferred() as signals:
                _attend(core, listener, ports, signals)
        finally:
            path.unlink(missing_ok=True)


def _attend(core: Core, listener: socket.socket, ports: Sequence[PortConfig], signals: socket.socket) -> None:
    """Serve callers until `signals` is readable."""
    lease: _Lease | None = None
    try:
        while signals.fileno() not in (events := _wait(listener, lease, signals)):
            if lease is not None and _has_ended(lease.worker, events.get(lease.worker.fileno(), 0)):
                lease.close()
                lease = None
            elif listener.fileno() in events:
                caller, _ = listener.accept()
                if lease is None:
                    lease = _give(core, caller, ports)
                else:
                    _refuse(caller, "another worker has the sockets of this node; does another job run here?")
    finally:
        if lease is not None:
            lease.close()


def _wait(listener: socket.socket, lease: _Lease | None, signals: socket.socket) -> dict[int, int]:
    """Sleep until something happens: poll()'s events by descriptor."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(signals, select.POLLIN)
    if lease is not None:
        poll.register(lease.worker, select.POLLIN | select.POLLRDHUP)
    return dict(poll.poll())


@contextmanager
def _signals_deferred() -> Iterator[socket.socket]:
    """A socket that is readable when SIGINT or SIGTERM has arrived; the signal is raised after the block.

    An exception out of a handler would leave sockets half opened or half closed. Blocking the signals in this
    thread would not help: handlers run here even if another thread, such as numpy's, receives the signal.
    """
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        handlers = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        signal.raise_signal(reader.recv(1)[0])


def _has_ended(worker: socket.socket, events: int) -> bool:
    """Whether the worker has closed its end. Whatever it says instead is read and ignored."""
    if events & _ENDED:
        return True
    if events:
        with suppress(OSError):
            worker.recv(_REPLY_BYTES, socket.MSG_DONTWAIT)
    return False


def _give(core: Core, worker: socket.socket, ports: Sequence[PortConfig]) -> _Lease | None:
    """Open the sockets for a worker; None if they cannot be opened, or the worker has hung up."""
    try:
        opened = open_sockets(core, ports)
    except HipsnetError as error:
        _refuse(worker, str(error))
        return None
    lease = _Lease(worker, opened)
    descriptors = array.array("i", opened.descriptors)
    reply = json.dumps({"shape": opened.shape}).encode()
    try:
        worker.sendmsg([reply], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    except OSError:
        lease.close()
        return None
    return lease


def _refuse(caller: socket.socket, why: str) -> None:
    with caller, suppress(OSError):
        caller.send(json.dumps({"error": why}).encode()[:_REPLY_BYTES])
