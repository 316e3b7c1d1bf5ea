"""Asking a NIC for data centre bridging, by the kernel's dcbnl messages."""

from __future__ import annotations

import errno
import os
import socket
import struct

# linux/rtnetlink.h and linux/dcbnl.h
_RTM_GETDCB = 78
_IEEE_GET = 21
_ATTR_IFNAME, _ATTR_IEEE, _IEEE_PFC = 1, 13, 2
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_TYPE_MASK = 0x3FFF
_HEADER = struct.Struct("=IHHII")
_DCBMSG = struct.Struct("=BBH")


def pfc_classes(ifname: str) -> int | None:
    """How many traffic classes of an interface here can be lossless (IEEE 802.1Qbb); None without DCB.

    Raises OSError if there is no such interface, or the kernel refuses for another reason than lack of DCB.
    """
    name = ifname.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(name), _ATTR_IFNAME) + name.ljust(-len(name) // 4 * -4, b"\0")
    body = _DCBMSG.pack(socket.AF_UNSPEC, _IEEE_GET, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.bind((0, 0))
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _RTM_GETDCB, _NLM_F_REQUEST, 1, 0) + body)
        return _parse(netlink.recv(1 << 16))


def _parse(message: bytes) -> int | None:
    """`pfc_cap` out of the answer to IEEE_GET."""
    length, kind, *_ = _HEADER.unpack_from(message)
    if kind == _NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", message, _HEADER.size)
        if -code in (errno.EOPNOTSUPP, errno.EINVAL):
            return None
        raise OSError(-code, os.strerror(-code))
    attributes = _attributes(message[_HEADER.size + _DCBMSG.size : length])
    pfc = _attributes(attributes.get(_ATTR_IEEE, b"")).get(_IEEE_PFC)
    return pfc[0] if pfc else None


def _attributes(data: bytes) -> dict[int, bytes]:
    """The netlink attributes that follow one another in `data`, by type."""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        if size < 4:
            break
        found[kind & _TYPE_MASK] = data[4:size]
        data = data[(size + 3) // 4 * 4 :]
    return found
