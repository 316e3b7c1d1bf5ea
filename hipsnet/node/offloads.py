"""Transmit checksum offload of a port, through the kernel's ethtool ioctl."""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
from collections.abc import Iterator

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig

_SIOCETHTOOL = 0x8946
_ETHTOOL_GTXCSUM, _ETHTOOL_STXCSUM = 0x16, 0x17


def tx_checksum(link: str) -> bool | None:
    """Whether the interface leaves checksums to its hardware; None where it cannot tell."""
    try:
        return bool(_ethtool(link, _ETHTOOL_GTXCSUM, 0))
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            return None
        raise


def set_tx_checksum(link: str, offloaded: bool) -> None:
    """Let the stack (False) or the hardware (True) finish the checksums of what is sent.

    On veth "hardware" means never, and XDP forwards the unfinished frame to a server that drops it.
    """
    _ethtool(link, _ETHTOOL_STXCSUM, int(offloaded))


def _ethtool(link: str, command: int, value: int) -> int:
    data = array.array("I", [command, value])
    address, _ = data.buffer_info()
    request = bytearray(struct.pack("16sP16x", link.encode(), address))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request)
    return data[1]


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Ports whose offload has to be switched; a card that cannot tell is left alone."""
    for link in desired.links:
        if link.tx_checksum is None:
            continue
        now = actual.links.get(link.name)
        if now is None:
            yield Change(
                desired.name, "offload", "add", link.name, "", _text(link.tx_checksum), link.tx_checksum
            )
        elif now.tx_checksum is not None and now.tx_checksum != link.tx_checksum:
            before, after = _text(now.tx_checksum), _text(link.tx_checksum)
            yield Change(desired.name, "offload", "change", link.name, before, after, link.tx_checksum)


def _text(offloaded: bool) -> str:
    return f"tx-checksum {'on' if offloaded else 'off'}"


def apply(context: Context, change: Change) -> None:
    """Switch one port's offload."""
    set_tx_checksum(change.subject, change.value)
