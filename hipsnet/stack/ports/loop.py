# SPDX-License-Identifier: Apache-2.0
"""The stack of a process for Python: ports, regions, pairs, and `poll`, which runs the event loop."""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import kernel
from hipsnet.errors import CapabilityError, TransportError
from hipsnet.stack.roce.core import Core, load
from hipsnet.stack.roce.pair import Done, Pair, fields_of
from hipsnet.stack.xsk.handover import ask, path_of
from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS, PortConfig, Sockets, open_sockets

SOURCES = (
    "xsk/xsk.c",
    "xsk/open.c",
    "xsk/memory.c",
    "ports/stack.c",
    "ports/port.c",
    "ports/transit.c",
    "ports/storm.c",
    "cable/watchdog.c",
    "ports/wait.c",
)
HEADERS = ("xsk/xsk.h", "ports/stack.h")
LIBRARIES = ("xdp", "bpf")

PAIRS, REGIONS = 1024, 4096
_COMPLETIONS = 256
_COMPLETION = struct.Struct("<QIIIII?3x")


@cache
def core() -> Core:
    """The library, compiled if necessary. Raises CapabilityError if that fails."""
    return load(kernel.cache_folder(), "stack", SOURCES, HEADERS, LIBRARIES)


class Stack:
    """Ports, regions and pairs of one process, owned by one thread."""

    def __init__(self, library: Core | None = None) -> None:
        """`library`, if given, contains the stack and more; the default is `core()`."""
        self._core = library or core()
        ffi, lib = self._core
        self._endpoint = lib.endpoint_create(PAIRS, REGIONS, secrets.randbits(64))
        self._stack = lib.stack_open(self._endpoint) if self._endpoint else ffi.NULL
        if not self._stack:
            raise TransportError("cannot allocate memory for queue pairs and regions")
        self._pauses = ffi.NULL
        self._opened: Sockets | None = None
        self._completions = ffi.new("struct stack_completion[]", _COMPLETIONS)
        self._bytes = ffi.buffer(self._completions)
        assert ffi.sizeof("struct stack_completion") == _COMPLETION.size

    def open_ports(self, configs: Sequence[PortConfig]) -> None:
        """Open the ports of a node, once. They are numbered in this order and share one memory.

        Without privilege they are requested from the node's `hipsnet endpoints` process. Raises CapabilityError
        or TransportError with the reason if one cannot be opened.
        """
        lib = self._core.lib
        self._opened = opened = self._sockets_of(configs)
        self._pauses = lib.stack_map_pauses(opened.pauses, opened.shape.keys)
        if not self._pauses:
            raise TransportError(f"cannot map {configs[0].pins}/pauses; run `hipsnet provision` again")
        for config, xsk in zip(configs, opened.sockets, strict=True):
            self._add_port(config, xsk)

    def _sockets_of(self, configs: Sequence[PortConfig]) -> Sockets:
        try:
            return open_sockets(self._core, configs)
        except CapabilityError:
            pins = configs[0].pins
            given = ask(self._core, path_of(pins.parent.name, pins.name))
            if given is None:
                raise
            return given

    def _add_port(self, config: PortConfig, xsk: Any) -> None:
        ffi, lib = self._core
        lib.xsk_limit_fill(xsk, RECEIVE_CHUNKS)
        given = ffi.new("struct stack_port_config *")
        given.mac = bytes.fromhex(config.mac.replace(":", ""))
        for field in ("key", "rate_bps", "burst_ns", "priority", "xoff_chunks", "xon_chunks"):
            setattr(given, field, getattr(config, field))
        if config.watchdog:
            detect_ms, restore_ms, action = config.watchdog
            given.detect_ns, given.restore_ns = detect_ms * 1_000_000, restore_ms * 1_000_000
            given.storm_action = 1 + ("drop", "forward", "alert").index(action)
        pauses = lib.stack_pauses_of(self._pauses, config.key)
        if lib.stack_add_port(self._stack, xsk, given, pauses) < 0:
            raise TransportError(f"at most {lib.STACK_MOST_PORTS} ports can be opened")

    def register(self, memory: Any) -> int:
        """Let peers that know the returned key write into a writable buffer; offset 0 is its first byte."""
        ffi, lib = self._core
        buffer = ffi.from_buffer("char[]", memory)
        key = int(lib.endpoint_register(self._endpoint, buffer, len(buffer), 0))
        if not key:
            raise TransportError(f"at most {REGIONS} regions can be registered")
        return key

    def pointer(self, memory: Any) -> Any:
        """The address of a buffer, for `Pair.post_write`; keeps the buffer alive."""
        return self._core.ffi.from_buffer("char[]", memory)

    def pair(self, port: int, tag: int, priority: int, depth: int) -> Pair:
        """A new pair that sends through a port, with queues of `depth`; no receives are posted."""
        lib = self._core.lib
        rc = lib.rc_create(self._endpoint, depth, depth)
        if not rc or not lib.stack_add_pair(self._stack, port, rc, tag, priority):
            raise TransportError(f"at most {PAIRS} connections can be opened")
        return Pair(self._core, rc)

    @property
    def handle(self) -> Any:
        """The `struct stack *`, for loops in C."""
        return self._stack

    def poll(self, timeout_s: float) -> Iterator[Done]:
        """Run the event loop until there are completions, or the time is over.

        The iterator must be exhausted before the next call. Raises TransportError if a port is gone.
        """
        timeout_ns = max(0, int(timeout_s * 1e9))
        count = self._core.lib.stack_poll(self._stack, timeout_ns, self._completions, _COMPLETIONS)
        if count < 0:
            raise TransportError(f"a port is gone: {os.strerror(-count)}")
        return map(Done._make, _COMPLETION.iter_unpack(self._bytes[: count * _COMPLETION.size]))

    def counters(self, port: int) -> dict[str, int]:
        """The counters of a port (struct stack_port_counters), and its socket's statistics (`socket_*`)."""
        ffi, lib = self._core
        statistics = ffi.new("struct xsk_statistics *")
        assert self._opened is not None, "a port has been opened"
        lib.xsk_statistics(self._opened.sockets[port], statistics)
        found = fields_of(ffi, lib.stack_port_counters(self._stack, port)[0])
        return found | {f"socket_{name}": value for name, value in fields_of(ffi, statistics[0]).items()}

    def freeze(self, port: int, is_frozen: bool = True) -> None:
        """Leave received frames in a port's socket, for experiments: it fills, and the port pauses its peer."""
        self._core.lib.stack_freeze(self._stack, port, is_frozen)

    def close(self) -> None:
        """Close the ports, the pairs and the regions. Further calls do nothing."""
        lib = self._core.lib
        lib.stack_close(self._stack)
        lib.endpoint_destroy(self._endpoint)
        if self._opened is not None:
            lib.stack_unmap_pauses(self._pauses, self._opened.shape.keys)
            self._opened.close()
        self._opened = None
        self._stack = self._endpoint = self._pauses = self._core.ffi.NULL
