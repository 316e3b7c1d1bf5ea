# SPDX-License-Identifier: Apache-2.0
"""The wire over TCP sockets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

from numpy.typing import NDArray

from hipsnet.engine.library import library
from hipsnet.errors import TransportError
from hipsnet.transport.interface import Transport
from hipsnet.transport.tcp.transport import TcpTransport


class TcpWire:
    """A wire over connected sockets, one for each peer. The wire owns the sockets and closes them."""

    def __init__(self, descriptors: Sequence[int], message_max: int) -> None:
        self.library = library()
        self.message_max = message_max
        ffi, lib = self.library
        self.handle = lib.tcp_wire_open(
            ffi.new("int[]", list(descriptors) or 1), len(descriptors), message_max
        )
        if self.handle == ffi.NULL:
            for descriptor in descriptors:
                os.close(descriptor)
            raise TransportError("no memory or descriptors are left for the connections")
        self.operations = lib.tcp_wire_operations()

    @property
    def system_calls(self) -> int:
        return int(self.library.lib.tcp_wire_calls(self.handle))

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Any memory can be sent."""

    def close(self) -> None:
        self.library.lib.tcp_wire_close(self.handle)


def open_wire(transport: Transport, message_max: int) -> TcpWire:
    """Make a wire of the sockets of a connected TcpTransport."""
    return TcpWire(cast(TcpTransport, transport).detach(), message_max)
