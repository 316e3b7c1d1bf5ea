# SPDX-License-Identifier: Apache-2.0
"""The wire over RDMA queue pairs: connected, registered and explained here; posted and polled in C."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Any, cast

from numpy.typing import NDArray

from hipsnet.engine.wire.verbs_library import library
from hipsnet.engine.wire.verbs_posting import Posting, callback, fastest
from hipsnet.errors import HipsnetError, TransportError
from hipsnet.stack.roce.core import Core
from hipsnet.transport.interface import Transport
from hipsnet.transport.verbs.devices import SYSFS, Endpoint, port_state, why_lost
from hipsnet.transport.verbs.layout import (
    HEADER_BYTES,
    RECEIVES,
    RING_BYTES,
    SENDS,
    SIGNAL_EVERY,
    SLOT_BYTES,
    WINDOW,
)
from hipsnet.transport.verbs.memory import Memory, Registration
from hipsnet.transport.verbs.status import explain
from hipsnet.transport.verbs.transport import VerbsTransport

MESSAGE_MAX = SLOT_BYTES - HEADER_BYTES


class VerbsWire:
    """A wire over the queue pairs of a connected transport, which it closes."""

    def __init__(self, transport: VerbsTransport, posting: Posting) -> None:
        self.library = library()
        self.message_max = MESSAGE_MAX
        self._transport = transport
        self._posting = posting
        self._owner = _Owner(self.library, transport)
        config, self._kept = _configuration(self.library, transport)
        ffi, lib = self.library
        self.handle = lib.verbs_wire_open(config, posting.struct, self._owner.struct)
        if self.handle == ffi.NULL:
            raise TransportError("no memory or descriptors are left for the connections")
        self.operations = lib.verbs_wire_operations()
        self._owner.handle = self.handle

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Register the arrays of a call; they stay registered while they live. Raises TransportError."""
        for array in arrays:
            self._owner.memory.keep(array)

    @property
    def calls(self) -> int:
        """Calls that posted, polled or armed so far."""
        return int(self.library.lib.verbs_wire_calls(self.handle))

    def close(self) -> None:
        lib = self.library.lib
        count = len(self._transport.connections)
        arrived = [int(lib.verbs_wire_arrived(self.handle, index)) for index in range(count)]
        # Queue pairs, memory, completion queue, channel, protection domain, device, in this order.
        self._transport.close_pairs(arrived)
        self._owner.memory.close()
        self._transport.close()
        lib.verbs_wire_close(self.handle)
        self._posting.close()


class _Owner:
    """What the wire asks of Python (struct verbs_owner): ends of connections, and registrations."""

    def __init__(self, core: Core, transport: VerbsTransport) -> None:
        self._core = core
        self._connections = transport.connections
        domains = [device.domain for device in transport.devices]
        self.memory = Memory(domains, self, core.lib.VERBS_REGIONS)
        self.handle: Any = core.ffi.NULL  # of the wire
        self.struct = core.ffi.new("struct verbs_owner *")
        self.struct.end, self.struct.pin, self.struct.unpin = self._callbacks = (
            callback(core, "void(void *, u32, u32, u64, u64, char *)", self._end),
            callback(core, "u32(void *, void *, u64)", self._pin, 0),
            callback(core, "void(void *, u32)", self._unpin),
        )

    def add(self, registration: Registration) -> None:
        ffi, lib = self._core
        empty = [0] * max(1, len(self._connections))
        local, remote = ([getattr(mr, name) for mr in registration.mrs] or empty for name in ("lkey", "rkey"))
        memory = ffi.cast("void *", registration.address)
        keys = (ffi.new("u32[]", words) for words in (local, remote))
        lib.verbs_wire_add_region(self.handle, registration.key, memory, registration.length, *keys)

    def remove(self, key: int, later: bool) -> bool:
        return bool(self._core.lib.verbs_wire_remove_region(self.handle, key, later))

    def _pin(self, _: Any, memory: Any, length: int) -> int:
        try:
            return self.memory.pin(int(self._core.ffi.cast("uintptr_t", memory)), length)
        except HipsnetError:
            return 0

    def _unpin(self, _: Any, key: int) -> None:
        self.memory.unpin(key)

    def _end(self, _: Any, index: int, reason: int, first: int, second: int, why: Any) -> None:
        """Close the queue pair, so that nothing can write into an array any more, and say why it ended."""
        ffi, lib = self._core
        connection = self._connections[index]
        connection.pair.close()
        words = self._reason(connection.endpoint, reason, first, second) or ffi.string(why).decode()
        raw = words.encode()[: lib.VERBS_WORDS - 1]
        ffi.memmove(why, raw + b"\0", len(raw) + 1)

    def _reason(self, endpoint: Endpoint, reason: int, first: int, second: int) -> str:
        lib = self._core.lib
        if reason == lib.VERBS_END_STATUS:
            state = port_state(endpoint)
            return why_lost(endpoint) or explain(first, second, str(endpoint), state)
        if reason == lib.VERBS_END_ENDPOINT:
            return why_lost(endpoint) or f"the GID of {endpoint} was gone for a moment"
        if reason == lib.VERBS_END_SILENT:
            return (
                f"no acknowledgement for {first / 1e9:.1f} s, longer than all retries take, and no error of the "
                f"device; {endpoint} is {port_state(endpoint)} here: check that its process lives, the "
                "cable, and `rdma link` at both ends"
            )
        if reason == lib.VERBS_END_POSTING:
            return f"nothing can be posted on {endpoint}: {os.strerror(first or errno.EIO)}"
        return ""


def _configuration(core: Core, transport: VerbsTransport) -> tuple[Any, list[Any]]:
    """`struct verbs_config`, and what must live as long."""
    ffi = core.ffi
    connections = ffi.new("struct verbs_connection_config[]", len(transport.connections) or 1)
    channels = ffi.new("int[]", [device.descriptor for device in transport.devices] or 1)
    kept: list[Any] = [connections, channels]
    for to, connection in zip(connections, transport.connections, strict=False):
        endpoint, pair = connection.endpoint, connection.pair
        file = SYSFS / endpoint.device / "ports" / str(endpoint.port) / "gids" / str(endpoint.gid_index)
        names = [ffi.new("char[]", text.encode()) for text in (str(file), endpoint.gid.exploded)]
        to.gid_file, to.gid = names
        kept += names
        to.device, to.queue_pair, to.socket = connection.device, pair.number, connection.socket.fileno()
        to.memory = ffi.cast("u8 *", pair.address)
        to.local_key, to.inline_bytes = pair.local_key, pair.inline_bytes
        to.landing_key, to.landing_address = pair.landing
    config = ffi.new("struct verbs_config *")
    config.devices, config.connections = len(transport.devices), len(transport.connections)
    config.channels, config.connection = channels, connections
    config.window, config.receives, config.sends, config.signal_every = WINDOW, RECEIVES, SENDS, SIGNAL_EVERY
    config.slot_bytes, config.ring_bytes = SLOT_BYTES, RING_BYTES
    config.silent_ns = int(transport.qp_attributes.longest_retry_s * 1e9)
    return config, kept


def open_wire(transport: Transport, message_max: int) -> VerbsWire:
    """Make a wire of the queue pairs of a connected VerbsTransport; its messages have MESSAGE_MAX bytes at most."""
    connected = cast(VerbsTransport, transport)
    try:
        return VerbsWire(connected, fastest(library(), connected))
    except BaseException:
        connected.close()
        raise
