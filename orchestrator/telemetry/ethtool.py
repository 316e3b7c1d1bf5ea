# SPDX-License-Identifier: Apache-2.0
"""The statistics of a network card's driver, as `ethtool -S` shows them: names once, then numbers."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterator

_SIOCETHTOOL = 0x8946
_GET_DRIVER, _GET_STRINGS, _GET_STATS = 0x03, 0x1B, 0x1D  # linux/ethtool.h
_STATISTICS = 1  # ETH_SS_STATS
_STRING_BYTES = 32
_DRIVER_BYTES = 196  # struct ethtool_drvinfo
_COUNT_AT = 180  # n_stats in it
_INTERFACE = struct.Struct("=16sQ8x")


class Statistics:
    """The statistics of one interface; `driver` and `names` are read once, numbers by `read`."""

    def __init__(self, control: socket.socket, interface: str) -> None:
        """Raises OSError if there is no such interface, or its driver has no statistics."""
        self._control, self._interface = control, interface
        about = bytearray(struct.pack("=I", _GET_DRIVER).ljust(_DRIVER_BYTES, b"\0"))
        self._ask(about)
        self.driver = about[4:36].rstrip(b"\0").split(b"\0")[0].decode()
        (self._count,) = struct.unpack_from("=I", about, _COUNT_AT)
        strings = bytearray(struct.pack("=III", _GET_STRINGS, _STATISTICS, self._count))
        strings += bytes(self._count * _STRING_BYTES)
        self._ask(strings)
        self.names = tuple(_names(strings[12:]))

    def read(self) -> array.array[int]:
        """The numbers, in the order of the names. Raises OSError if the interface is gone."""
        room = bytearray(struct.pack("=II", _GET_STATS, self._count) + bytes(8 * self._count))
        self._ask(room)
        return array.array("Q", bytes(room[8:]))

    def _ask(self, room: bytearray) -> None:
        data = array.array("B", room)
        address, _ = data.buffer_info()
        fcntl.ioctl(self._control, _SIOCETHTOOL, _INTERFACE.pack(self._interface.encode(), address))
        room[:] = data.tobytes()


def _names(strings: bytearray) -> Iterator[str]:
    for at in range(0, len(strings), _STRING_BYTES):
        yield bytes(strings[at : at + _STRING_BYTES]).split(b"\0")[0].decode(errors="replace")
