# SPDX-License-Identifier: Apache-2.0
"""A queue pair for Python, and its completions."""

from __future__ import annotations

from typing import Any, NamedTuple

from hipsnet.errors import TransportError
from hipsnet.stack.roce.core import Core


class Done(NamedTuple):
    """A completion of the pair that was made with `tag`; `status` 0 is success."""

    id: int
    tag: int
    kind: int
    status: int
    bytes: int
    immediate: int
    has_immediate: bool


class Pair:
    """One queue pair. The caller keeps the memory that is sent from unchanged until the completion."""

    def __init__(self, made: Core, rc: Any) -> None:
        self._ffi, self._lib = made
        self._rc = rc
        self._message_bytes = 0
        self._received = self._ffi.NULL

    def post_receives(self, depth: int, message_bytes: int) -> None:
        """Post so many receives for messages of at most `message_bytes`."""
        self._message_bytes = message_bytes
        self._received = self._ffi.new("char[]", depth * message_bytes)
        for slot in range(depth):
            self.post_receive(slot)

    @property
    def handle(self) -> Any:
        """The `struct rc *`, for loops in C."""
        return self._rc

    @property
    def number(self) -> int:
        return int(self._lib.rc_qpn(self._rc))

    def connect(self, rate_bps: int, now_ns: int, **fields: Any) -> None:
        """Connect with these fields of `struct rc_config`; the others have the defaults for the port's rate."""
        config = self._ffi.new("struct rc_config *")
        self._lib.rc_defaults(config, rate_bps)
        for name, value in fields.items():
            setattr(config, name, value)
        if not self._lib.rc_connect(self._rc, config, now_ns):
            raise TransportError(f"a queue pair refuses a value of {fields}")

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
        """Post a slot again, after its message was read or a write with immediate has consumed it."""
        place = self._received + slot * self._message_bytes
        self._lib.rc_post_receive(self._rc, slot, place, self._message_bytes)

    def counters(self) -> dict[str, int]:
        """The counters of `struct rc_counters`."""
        return fields_of(self._ffi, self._lib.rc_counters(self._rc)[0])


def fields_of(ffi: Any, value: Any) -> dict[str, int]:
    """The numbers in a C structure, by name."""
    return {name: int(getattr(value, name)) for name, _ in ffi.typeof(value).fields}
