"""The stack of a process for Python: its ports, regions and pairs, and one call that does all the work."""

from __future__ import annotations

import errno
import os
import secrets
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import kernel
from hipsnet.errors import CapabilityError, TransportError
from hipsnet.stack.core import Core, load

SOURCES = ("xsk.c", "xsk_open.c", "xsk_memory.c", "stack.c", "stack_port.c")
HEADERS = ("xsk.h", "stack.h")
LIBRARIES = ("xdp", "bpf")

RECEIVE_CHUNKS = 2048
SEND_FRAMES = 512
PAIRS, REGIONS = 1024, 4096
_COMPLETIONS = 256
_COMPLETION = struct.Struct("<QIIIII?3x")
_FRAME_MARGIN = 18  # an Ethernet header and one VLAN tag


class Kind(IntEnum):
    """What a completion tells: enum rc_kind."""

    SENT = 0
    RECEIVED = 1
    WRITTEN = 2


class Done(NamedTuple):
    """A completion of the pair that was made with `tag`; `status` 0 is success, else see `status_text`."""

    id: int
    tag: int
    kind: int
    status: int
    bytes: int
    immediate: int
    has_immediate: bool


STATUSES = (
    "done",
    "given up after an earlier error",
    "it does not answer (retries exceeded)",
    "it has posted no receive (RNR retries exceeded)",
    "it refuses the write: no such region, or beyond its end",
    "it cannot take the request",
    "it cannot go on, for a reason of its own",
    "its message is longer than the receive posted for it",
)
"""What enum rc_status means, said of the peer."""


@dataclass(frozen=True)
class PortConfig:
    """A port to open: `key` is its place in the XSKMAP pinned at `endpoints`, frames have at most `mtu` + 18 bytes.

    Above `xoff_chunks` chunks of 4096 bytes that wait to be received, the other end of the cable is told to
    stop `priority`, until no more than `xon_chunks` are left; 0 is never.
    """

    ifname: str
    mac: str
    mtu: int
    endpoints: Path
    key: int
    rate_bps: int = 0
    burst_ns: int = 1_000_000
    priority: int = 3
    xoff_chunks: int = 0
    xon_chunks: int = 0
    queue: int = 0


def endpoints_map(fabric: str, node: str) -> Path:
    """Where the XSKMAP of a node's program is pinned."""
    return kernel.PINS / fabric / node / "endpoints"


@cache
def core() -> Core:
    """The library, compiled if need be. Raises CapabilityError if it cannot be."""
    return load(kernel.cache_folder(), "stack", SOURCES, HEADERS, LIBRARIES)


class Stack:
    """Ports, regions and pairs of one process, owned by one thread."""

    def __init__(self) -> None:
        self._core = core()
        ffi, lib = self._core
        self._endpoint = lib.endpoint_create(PAIRS, REGIONS, secrets.randbits(64))
        self._stack = lib.stack_open(self._endpoint) if self._endpoint else ffi.NULL
        if not self._stack:
            raise TransportError("memory wanted for queue pairs and regions, none left")
        self._opened: list[tuple[Any, Any]] = []  # socket and memory of each port
        self._completions = ffi.new("struct stack_completion[]", _COMPLETIONS)
        self._bytes = ffi.buffer(self._completions)
        assert ffi.sizeof("struct stack_completion") == _COMPLETION.size

    def open_port(self, config: PortConfig) -> int:
        """A port's number. Raises CapabilityError or TransportError if it cannot be opened, saying why."""
        ffi, lib = self._core
        memory, xsk = ffi.new("struct xsk_memory **"), ffi.new("struct xsk **")
        frame_bytes = min(config.mtu + _FRAME_MARGIN, lib.RC_FRAME_MAX)
        _check(
            lib.xsk_memory_open(memory, RECEIVE_CHUNKS, SEND_FRAMES, frame_bytes), config, "get memory for"
        )
        error = lib.xsk_open(xsk, memory[0], config.ifname.encode(), config.queue, 0)
        if error:
            lib.xsk_memory_close(memory[0])
        _check(error, config, "open an AF_XDP socket on")
        self._opened.append((xsk[0], memory[0]))
        given = ffi.new("struct stack_port_config *")
        given.mac = bytes.fromhex(config.mac.replace(":", ""))
        for field in ("rate_bps", "burst_ns", "priority", "xoff_chunks", "xon_chunks"):
            setattr(given, field, getattr(config, field))
        number = int(lib.stack_add_port(self._stack, xsk[0], given, ffi.NULL))
        if number < 0:
            raise TransportError(f"{lib.STACK_MOST_PORTS} ports at the most can be opened")
        self._join(xsk[0], config)
        return number

    def register(self, memory: Any) -> int:
        """Let peers that know the key write into a writable buffer; offset 0 is its first byte."""
        ffi, lib = self._core
        buffer = ffi.from_buffer("char[]", memory)
        key = int(lib.endpoint_register(self._endpoint, buffer, len(buffer), 0))
        if not key:
            raise TransportError(f"{REGIONS} regions at the most can be registered")
        return key

    def pointer(self, memory: Any) -> Any:
        """The first byte of a buffer, for `Pair.post_write`; the buffer stays as long as this does."""
        return self._core.ffi.from_buffer("char[]", memory)

    def deregister(self, key: int) -> None:
        """Writes with this key are refused from now on."""
        self._core.lib.endpoint_deregister(self._endpoint, key)

    def pair(self, port: int, tag: int, priority: int, depth: int, message_bytes: int) -> Pair:
        """A new pair that sends by a port, with `depth` places for sends and as many receives posted."""
        lib = self._core.lib
        rc = lib.rc_create(self._endpoint, depth, depth)
        if not rc or not lib.stack_add_pair(self._stack, port, rc, tag, priority):
            raise TransportError(f"{PAIRS} connections at the most can be made")
        return Pair(self._core, rc, depth, message_bytes)

    def watch(self, descriptor: int) -> None:
        """End a wait also when this descriptor is readable."""
        self._core.lib.stack_watch(self._stack, descriptor)

    @property
    def is_watched_ready(self) -> bool:
        """Whether the watched descriptor was readable when `poll` last waited."""
        return bool(self._core.lib.stack_is_watched_ready(self._stack))

    def poll(self, timeout_s: float) -> Iterator[Done]:
        """Work until something is done, or the time is over. To be read to its end before the next call.

        Raises TransportError if a port is gone.
        """
        timeout_ns = max(0, int(timeout_s * 1e9))
        count = self._core.lib.stack_poll(self._stack, timeout_ns, self._completions, _COMPLETIONS)
        if count < 0:
            raise TransportError(f"a port is gone: {os.strerror(-count)}")
        return map(Done._make, _COMPLETION.iter_unpack(self._bytes[: count * _COMPLETION.size]))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent or acknowledged."""
        return bool(self._core.lib.stack_is_idle(self._stack))

    def counters(self, port: int) -> dict[str, int]:
        """What a port has done, with its socket's statistics, and the endpoint's drops."""
        ffi, lib = self._core
        statistics = ffi.new("struct xsk_statistics *")
        lib.xsk_statistics(self._opened[port][0], statistics)
        found = _fields(ffi, lib.stack_port_counters(self._stack, port)[0])
        return found | {f"socket_{name}": value for name, value in _fields(ffi, statistics[0]).items()}

    def pauses(self, port: int) -> list[list[int]]:
        """Six counters (pfc.h: PFC_COUNTERS) for each of eight priorities of a port."""
        words = self._core.lib.stack_pauses(self._stack, port)
        return [[words[6 * priority + counter] for counter in range(6)] for priority in range(8)]

    def freeze(self, port: int, is_frozen: bool = True) -> None:
        """Let what comes in by a port lie, for experiments: its buffer fills, and it pauses the other end."""
        self._core.lib.stack_freeze(self._stack, port, is_frozen)

    def close(self) -> None:
        """Close the ports, the pairs and the regions. Again is nothing."""
        lib = self._core.lib
        lib.stack_close(self._stack)
        lib.endpoint_destroy(self._endpoint)
        for xsk, memory in self._opened:
            lib.xsk_close(xsk)
            lib.xsk_memory_close(memory)
        self._opened.clear()
        self._stack = self._endpoint = self._core.ffi.NULL

    def _join(self, xsk: Any, config: PortConfig) -> None:
        """Put the socket into the map that the port's program hands RoCE to."""
        lib = self._core.lib
        map_fd = lib.xsk_open_map(os.fsencode(config.endpoints))
        _check(min(map_fd, 0), config, f"open {config.endpoints} for")
        try:
            _check(lib.xsk_join(xsk, map_fd, config.key), config, f"enter {config.endpoints} for")
        finally:
            os.close(map_fd)


class Pair:
    """One queue pair: memory that is sent from is the caller's to keep until the completion."""

    def __init__(self, made: Core, rc: Any, depth: int, message_bytes: int) -> None:
        self._ffi, self._lib = made
        self._rc = rc
        self._message_bytes = message_bytes
        self._received = self._ffi.new("char[]", depth * message_bytes)
        for slot in range(depth):
            self.post_receive(slot)

    @property
    def number(self) -> int:
        return int(self._lib.rc_qpn(self._rc))

    @property
    def is_connected(self) -> bool:
        return bool(self._lib.rc_state(self._rc) == self._lib.RC_CONNECTED)

    def connect(self, rate_bps: int, now_ns: int, **fields: Any) -> None:
        """Connect, with what `struct rc_config` wants to know beside the defaults for a port's rate."""
        config = self._ffi.new("struct rc_config *")
        self._lib.rc_defaults(config, rate_bps)
        for name, value in fields.items():
            setattr(config, name, value)
        if not self._lib.rc_connect(self._rc, config, now_ns):
            raise TransportError(f"a queue pair does not take {fields}")

    def post_write(
        self, number: int, address: Any, length: int, remote_offset: int, key: int, immediate: int
    ) -> bool:
        """Write with immediate from `address`; False while the queue is full."""
        return bool(
            self._lib.rc_post_write_immediate(
                self._rc, number, address, length, remote_offset, key, immediate
            )
        )

    def post_send(self, number: int, payload: Any, length: int) -> bool:
        """Send a message; False while the queue is full."""
        return bool(self._lib.rc_post_send(self._rc, number, payload, length))

    def post_receive(self, slot: int) -> None:
        """Give a slot back, after its message was read or a write with immediate has used it up."""
        place = self._received + slot * self._message_bytes
        self._lib.rc_post_receive(self._rc, slot, place, self._message_bytes)

    def received(self, slot: int, length: int) -> bytes:
        """The message in a slot."""
        return bytes(self._ffi.buffer(self._received + slot * self._message_bytes, length))

    def abort(self) -> None:
        """Give up all that is posted."""
        self._lib.rc_abort(self._rc)

    def counters(self) -> dict[str, int]:
        """What the pair has sent, received, repeated and refused."""
        return _fields(self._ffi, self._lib.rc_counters(self._rc)[0])


def _fields(ffi: Any, value: Any) -> dict[str, int]:
    return {name: int(getattr(value, name)) for name, _ in ffi.typeof(value).fields}


def _check(error: int, config: PortConfig, wish: str) -> None:
    if error == 0:
        return
    code = -error
    if code in (errno.EPERM, errno.EACCES):
        raise CapabilityError(
            f"cannot {wish} {config.ifname}: CAP_NET_RAW and CAP_BPF wanted, not found; run as root"
        )
    hint = {
        errno.EBUSY: "another socket has this queue; does another job run here?",
        errno.ENOENT: "is the fabric provisioned by this version? run `hipsnet provision`",
        errno.EINVAL: "AF_XDP with frames in several buffers wanted: Linux 6.6",
    }.get(code, "")
    raise TransportError(f"cannot {wish} {config.ifname}: {os.strerror(code)}{'; ' if hint else ''}{hint}")
