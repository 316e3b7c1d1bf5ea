# SPDX-License-Identifier: Apache-2.0
"""The interface between an engine and the connections of a transport."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from hipsnet.engine.library import library
from hipsnet.stack.roce.core import Core


class Wire(Protocol):
    """The connections of a rank. An engine drives them through C and closes the wire."""

    @property
    def library(self) -> Core:
        """The library that contains both the engine and this wire."""

    @property
    def handle(self) -> Any:
        """The first argument of all operations: `void *`."""

    @property
    def operations(self) -> Any:
        """`const struct wire_operations *` (wire/wire.h)."""

    @property
    def message_max(self) -> int:
        """The size of the longest message with its header, in bytes."""

    def prepare(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Called before a call whose segments are written into arrays: register them, where that takes time.

        The caller keeps `arrays` alive until the call has ended. Raises TransportError.
        """

    def close(self) -> None:
        """Close the connections and free all memory."""


WIRES = {name: f"hipsnet.engine.wire.{name}" for name in ("tcp", "verbs", "xdp")}
"""The module of each transport's wire.

Its function `library` returns the library with the wire, and `open_wire` makes a wire of a connected transport.
"""


def library_of(name: str) -> Core:
    """The library of a transport's wire, compiled if necessary. Raises CapabilityError if that fails."""
    if name not in WIRES:
        return library()
    return cast(Callable[[], Core], import_module(WIRES[name]).library)()


def open_wire(name: str, transport: object, message_max: int) -> Wire:
    """Move the connections of a connected transport to a wire; the transport must not be used any more.

    `name` is the transport's name in the registry. The wire carries messages of up to `message_max` bytes, or of
    its own `message_max` if that is less. Raises TransportError if memory or descriptors are short.
    """
    make = cast(Callable[[object, int], Wire], import_module(WIRES[name]).open_wire)
    return make(transport, message_max)
