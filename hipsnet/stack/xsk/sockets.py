# SPDX-License-Identifier: Apache-2.0
"""The AF_XDP sockets of a node's ports: opened with privilege, or adopted from a process that has it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import kernel
from hipsnet.errors import CapabilityError, TransportError
from hipsnet.stack.roce.core import Core

RECEIVE_CHUNKS = 2048
"""Per port, in its fill ring. As many again are shared by all ports: they hold frames in transit."""

SEND_FRAMES = 512
_FRAME_MARGIN = 18  # an Ethernet header and one VLAN tag


@dataclass(frozen=True)
class PortConfig:
    """A port to open: number `key` of the node whose maps are pinned in `pins`; frames of at most `mtu` + 18 bytes.

    When more than `xoff_chunks` chunks of 4096 bytes wait to be received, the port pauses `priority` at its peer
    until at most `xon_chunks` are left; 0: never. `watchdog` is (detect_ms, restore_ms, action) of the PFC
    watchdog over frames in transit.
    """

    ifname: str
    mac: str
    mtu: int
    pins: Path
    key: int
    rate_bps: int = 0
    burst_ns: int = 1_000_000
    priority: int = 3
    xoff_chunks: int = 0
    xon_chunks: int = 0
    watchdog: tuple[int, int, str] | None = None
    queue: int = 0


class Shape(NamedTuple):
    """The layout of the sockets' memory (struct xsk_geometry), and the number of ports in the node's maps."""

    receive_chunks: int
    send_frames: int
    frame_bytes: int
    keys: int


@dataclass
class Sockets:
    """The sockets by port, their memory, and a descriptor of the node's map of pauses."""

    core: Core
    shape: Shape
    memory: Any
    sockets: list[Any]
    pauses: int
    giver: socket.socket | None = None  # adopted sockets: the lease lasts as long as this is open

    @property
    def descriptors(self) -> list[int]:
        """The descriptors to hand over: the map of pauses, the memory, then the sockets."""
        lib = self.core.lib
        return [self.pauses, lib.xsk_memory_fd(self.memory), *map(lib.xsk_fd, self.sockets)]

    def close(self) -> None:
        """Close the sockets, then their memory."""
        lib = self.core.lib
        for xsk in self.sockets:
            lib.xsk_close(xsk)
        lib.xsk_memory_close(self.memory)
        os.close(self.pauses)
        if self.giver is not None:
            self.giver.close()


def pins_of(fabric: str, node: str) -> Path:
    """The folder in which the maps of a node's program are pinned."""
    return kernel.PINS / fabric / node


def open_sockets(core: Core, ports: Sequence[PortConfig]) -> Sockets:
    """Open a socket on each port, with one memory for all, and enter them into the map of the ports' program.

    Raises CapabilityError or TransportError with the reason if one cannot be opened; then none stays open.
    """
    ffi, lib = core
    first, memory = ports[0], ffi.new("struct xsk_memory **")
    frame_bytes = min(max(port.mtu for port in ports) + _FRAME_MARGIN, lib.RC_FRAME_MAX)
    keys = 1 + max(port.key for port in ports)
    shape = Shape(RECEIVE_CHUNKS * (len(ports) + 1), SEND_FRAMES * len(ports), frame_bytes, keys)
    pauses = _open_map(core, first, "pauses")
    error = lib.xsk_memory_open(memory, *shape[:3])
    opened = Sockets(core, shape, memory[0], [], pauses)
    try:
        _check(error, first, "get memory for")
        with _opened_map(core, first, "endpoints") as endpoints:
            for port in ports:
                xsk = ffi.new("struct xsk **")
                error = lib.xsk_open(xsk, memory[0], port.ifname.encode(), port.queue, 0)
                _check(error, port, "open an AF_XDP socket on")
                opened.sockets.append(xsk[0])
                _check(lib.xsk_join(xsk[0], endpoints, port.key), port, f"enter {port.pins}/endpoints for")
    except BaseException:
        opened.close()
        raise
    return opened


def adopt_sockets(core: Core, shape: Shape, descriptors: Sequence[int], giver: socket.socket) -> Sockets:
    """Adopt the sockets of another process by their descriptors, which are closed here."""
    ffi, lib = core
    pauses, memory_fd, *sockets = descriptors
    memory = ffi.new("struct xsk_memory **")
    error = lib.xsk_memory_adopt(memory, memory_fd, shape[:3])
    adopted = Sockets(core, shape, memory[0], [], pauses, giver)
    try:
        for fd in sockets if not error else ():
            xsk = ffi.new("struct xsk **")
            error = error or lib.xsk_adopt(xsk, memory[0], fd)
            if not error:
                adopted.sockets.append(xsk[0])
        if error:
            raise TransportError(f"cannot take over the node's sockets: {os.strerror(-error)}")
    except BaseException:
        adopted.close()
        raise
    finally:
        for fd in (memory_fd, *sockets):
            os.close(fd)
    return adopted


def _open_map(core: Core, port: PortConfig, name: str) -> int:
    fd = int(core.lib.xsk_open_map(os.fsencode(port.pins / name)))
    _check(min(fd, 0), port, f"open {port.pins / name} for")
    return fd


@contextmanager
def _opened_map(core: Core, port: PortConfig, name: str) -> Iterator[int]:
    """A map of the node, open within the block."""
    fd = _open_map(core, port, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _check(error: int, port: PortConfig, wish: str) -> None:
    if error == 0:
        return
    code = -error
    if code in (errno.EPERM, errno.EACCES):
        raise CapabilityError(
            f"cannot {wish} {port.ifname}: requires CAP_NET_RAW and CAP_BPF; run as root, or let "
            "root run `hipsnet endpoints` on this node"
        )
    hint = {
        errno.EBUSY: "another socket has this queue; does another job run here?",
        errno.ENOENT: "was the fabric provisioned by this version? run `hipsnet provision`",
        errno.EINVAL: "requires AF_XDP with multi-buffer frames: Linux 6.6 or newer",
    }.get(code, "")
    raise TransportError(f"cannot {wish} {port.ifname}: {os.strerror(code)}{'; ' if hint else ''}{hint}")
