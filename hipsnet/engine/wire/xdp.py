# SPDX-License-Identifier: Apache-2.0
"""The wire over AF_XDP: queue pairs of hipsnet's own stack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

import kernel
from hipsnet.engine.library import load
from hipsnet.errors import TransportError
from hipsnet.stack.building import FOLDER as STACK
from hipsnet.stack.ports import loop
from hipsnet.stack.roce import core
from hipsnet.stack.roce.core import Core
from hipsnet.transport.xdp.parameters import RECEIVES
from hipsnet.transport.xdp.transport import Detached, XdpTransport

HERE = Path(__file__).parent
SOURCES = (
    *(STACK / source for source in (*core.SOURCES, *loop.SOURCES)),
    HERE / "xdp.c",
    HERE / "xdp_connection.c",
)
HEADERS = (HERE / "xdp.h",)
LIBRARIES = loop.LIBRARIES

EAGER_BYTES = 16 << 10
"""The longest segment that is sent as a message: receives of this size are posted for each neighbour."""


@cache
def library() -> Core:
    """The engine with this wire and the stack. Raises CapabilityError if it cannot be compiled."""
    loop.core()  # the transport needs it to connect
    return load(kernel.cache_folder(), "engine_xdp", SOURCES, HEADERS, LIBRARIES)


class XdpWire:
    """A wire over the pairs of a stack. It owns the stack and the sockets of the handshake, and closes them."""

    def __init__(self, detached: Detached, message_max: int) -> None:
        self.library = library()
        self._detached = detached
        ffi, lib = self.library
        assert RECEIVES == lib.XDP_WIRE_DEPTH
        self.message_max = min(message_max, EAGER_BYTES + lib.MESSAGE_HEADER_MAX)
        pairs = [ffi.cast("struct rc *", pair.handle) for pair in detached.pairs]
        sockets = [sock.fileno() for sock in detached.sockets]
        self.handle = lib.xdp_wire_open(
            ffi.cast("struct stack *", detached.stack.handle),
            ffi.new("struct rc *[]", pairs or 1),
            ffi.new("int[]", sockets or 1),
            len(pairs),
            self.message_max,
        )
        if self.handle == ffi.NULL:
            self._close_detached()
            raise TransportError("no memory or descriptors are left for the connections")
        self.operations = lib.xdp_wire_operations()

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Any memory can be sent."""

    def close(self) -> None:
        self.library.lib.xdp_wire_close(self.handle)
        self._close_detached()

    def _close_detached(self) -> None:
        self._detached.stack.close()
        for sock in self._detached.sockets:
            sock.close()


def open_wire(transport: object, message_max: int) -> XdpWire:
    """Make a wire of the pairs of a connected XdpTransport."""
    return XdpWire(cast(XdpTransport, transport).detach(), message_max)
