# SPDX-License-Identifier: Apache-2.0
"""One queue pair for Python, and what its completions tell."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from hipsnet.errors import TransportError
from hipsnet.stack.roce.core import Core


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
    "it answers, but one packet never arrives there (retries exceeded): "
    "is the MTU of a port or switch on the path smaller than at both ends?",
    "it has posted no receive (RNR retries exceeded)",
    "it refuses the write: no such region, or beyond its end",
    "it cannot take the request",
    "it cannot go on, for a reason of its own",
    "its message is longer than the receive posted for it",
)
"""What enum rc_status means, said of the peer."""


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
    def handle(self) -> Any:
        """The `struct rc *`, for loops in C."""
        return self._rc

    @property
    def number(self) -> int:
        return int(self._lib.rc_qpn(self._rc))

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
        return fields_of(self._ffi, self._lib.rc_counters(self._rc)[0])


def fields_of(ffi: Any, value: Any) -> dict[str, int]:
    """The numbers in a C structure, by name."""
    return {name: int(getattr(value, name)) for name, _ in ffi.typeof(value).fields}
