# SPDX-License-Identifier: Apache-2.0
"""The ethtool ioctl of a network device (SIOCETHTOOL, uapi/linux/ethtool.h), and the statistics behind it."""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from collections.abc import Iterator

_SIOCETHTOOL = 0x8946
_GET_DRIVER, _GET_STRINGS, _GET_STATS = 0x03, 0x1B, 0x1D
_STATISTICS = 1  # ETH_SS_STATS
_STRING_BYTES = 32
_DRIVER_BYTES = 196  # struct ethtool_drvinfo
_COUNT_AT = 180  # n_stats in struct ethtool_drvinfo
_REQUEST = struct.Struct("16sP16x")  # struct ifreq: the interface's name and ifr_data


def ethtool_ioctl(interface: str, request: bytes, control: socket.socket | None = None) -> bytes:
    """Send a command structure to the interface's driver and return the structure as the kernel left it.

    The interface is looked up in the namespace of `control`, any socket (None: a new one, of the calling thread's
    namespace). Raises OSError: EOPNOTSUPP if the driver lacks the command, ENODEV if there is no such interface.
    """
    if control is None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            return ethtool_ioctl(interface, request, own)
    data = array.array("B", request)
    address, _ = data.buffer_info()
    fcntl.ioctl(control, _SIOCETHTOOL, bytearray(_REQUEST.pack(interface.encode(), address)))
    return data.tobytes()


def ethtool_words(interface: str, command: int, *values: int) -> tuple[int, ...]:
    """The same for a command with a structure of 32-bit words; returns the words after the command."""
    shape = struct.Struct(f"={1 + len(values)}I")
    return shape.unpack(ethtool_ioctl(interface, shape.pack(command, *values)))[1:]


class Statistics:
    """The statistics of one interface, as `ethtool -S` shows them.

    `driver` and `names` are read once, the numbers by each `read`.
    """

    def __init__(self, control: socket.socket, interface: str) -> None:
        """Raises OSError if there is no such interface, or if its driver has no statistics."""
        self._control, self._interface = control, interface
        about = self._ask(struct.pack("=I", _GET_DRIVER).ljust(_DRIVER_BYTES, b"\0"))
        self.driver = about[4:36].split(b"\0")[0].decode()
        (self._count,) = struct.unpack_from("=I", about, _COUNT_AT)
        header = struct.pack("=III", _GET_STRINGS, _STATISTICS, self._count)
        self.names = tuple(_names(self._ask(header + bytes(self._count * _STRING_BYTES))[len(header) :]))

    def read(self) -> array.array[int]:
        """The numbers, in the order of the names. Raises OSError if the interface is gone."""
        header = struct.pack("=II", _GET_STATS, self._count)
        return array.array("Q", self._ask(header + bytes(8 * self._count))[len(header) :])

    def _ask(self, request: bytes) -> bytes:
        return ethtool_ioctl(self._interface, request, self._control)


def _names(strings: bytes) -> Iterator[str]:
    for at in range(0, len(strings), _STRING_BYTES):
        yield strings[at : at + _STRING_BYTES].split(b"\0")[0].decode(errors="replace")
