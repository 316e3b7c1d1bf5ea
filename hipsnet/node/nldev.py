# SPDX-License-Identifier: Apache-2.0
"""RDMA devices by the kernel's own messages (include/uapi/rdma/rdma_netlink.h): listing, adding, removing them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pyroute2.netlink import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, nlmsg
from pyroute2.netlink.marshal import Marshal
from pyroute2.netlink.nlsocket import NetlinkSocket

_NETLINK_RDMA = 20  # linux/netlink.h
_NLDEV = 5 << 10  # RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)
_GET, _NEWLINK, _DELLINK, _PORT_GET = _NLDEV + 1, _NLDEV + 3, _NLDEV + 4, _NLDEV + 5


class _Message(nlmsg):  # type: ignore[misc]
    prefix = "RDMA_NLDEV_ATTR_"
    fields = ()
    nla_map = (
        (1, "RDMA_NLDEV_ATTR_DEV_INDEX", "uint32"),
        (2, "RDMA_NLDEV_ATTR_DEV_NAME", "asciiz"),
        (3, "RDMA_NLDEV_ATTR_PORT_INDEX", "uint32"),
        (50, "RDMA_NLDEV_ATTR_NDEV_INDEX", "uint32"),
        (51, "RDMA_NLDEV_ATTR_NDEV_NAME", "asciiz"),
        (65, "RDMA_NLDEV_ATTR_LINK_TYPE", "asciiz"),
    )


class _Marshal(Marshal):  # type: ignore[misc]
    msg_map = dict.fromkeys((_GET, _NEWLINK, _DELLINK, _PORT_GET), _Message)


def devices() -> dict[str, int]:
    """The RDMA devices that this network namespace sees: index by name. None in a kernel without RDMA."""
    try:
        with _socket() as netlink:
            found = _ask(netlink, _GET, NLM_F_REQUEST | NLM_F_DUMP)
    except OSError as error:
        if error.errno == errno.EPROTONOSUPPORT:
            return {}
        raise
    return {message.get("DEV_NAME"): message.get("DEV_INDEX") for message in found}


def interface(index: int) -> str:
    """The network interface behind port 1 of a device; empty if it is in another network namespace."""
    with _socket() as netlink:
        (port,) = _ask(netlink, _PORT_GET, NLM_F_REQUEST, DEV_INDEX=index, PORT_INDEX=1)
    return port.get("NDEV_NAME") or ""


def add(name: str, kind: str, interface: str) -> None:
    """Add a device of a kind ("rxe") to a network interface. Raises NetlinkError, OSError without RDMA."""
    with _socket() as netlink:
        _ask(netlink, _NEWLINK, NLM_F_REQUEST | NLM_F_ACK, DEV_NAME=name, LINK_TYPE=kind, NDEV_NAME=interface)


def remove(name: str) -> None:
    """Remove a device. Raises OSError with ENODEV if there is none of that name."""
    index = devices().get(name)
    if index is None:
        raise OSError(errno.ENODEV, f"no RDMA device {name}")
    with _socket() as netlink:
        _ask(netlink, _DELLINK, NLM_F_REQUEST | NLM_F_ACK, DEV_INDEX=index)


@contextmanager
def _socket() -> Iterator[NetlinkSocket]:
    # A kernel without RDMA refuses the bare socket: much faster than a socket of pyroute2.
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_RDMA).close()
    with NetlinkSocket(_NETLINK_RDMA) as netlink:
        netlink.set_marshal(_Marshal())
        netlink.bind()
        yield netlink


def _ask(netlink: NetlinkSocket, command: int, flags: int, **attributes: object) -> tuple[nlmsg, ...]:
    message = _Message()
    message["attrs"] = [(f"{_Message.prefix}{key}", value) for key, value in attributes.items()]
    return tuple(netlink.nlm_request(message, msg_type=command, msg_flags=flags))
