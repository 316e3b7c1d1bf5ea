# SPDX-License-Identifier: Apache-2.0
"""A netlink socket with pyroute2's messages: each request is sent and answered at once.

The methods are the part of pyroute2's IPRoute that nodes need, with its arguments. IPRoute itself runs an event
loop and its filters for each of the thousands of requests of a provision, which takes five times as long.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.fibmsg import FR_ACT_TO_TBL, fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import IFF_UP, ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import plugins, tcmsg

# linux/netlink.h, linux/rtnetlink.h
_REQUEST, _ACK, _ECHO, _DUMP = 0x1, 0x4, 0x8, 0x300
_CREATE, _EXCLUSIVE, _REPLACE = 0x400, 0x200, 0x100
_ERROR, _DONE = 2, 3
_NEW, _DEL, _GET = 0, 1, 2
_LINK, _ADDR, _ROUTE, _NEIGH, _RULE, _QDISC, _CLASS = 16, 20, 24, 28, 32, 36, 40
_MESSAGES = {
    _LINK: ifinfmsg,
    _ADDR: ifaddrmsg,
    _ROUTE: rtmsg,
    _NEIGH: ndmsg,
    _RULE: fibmsg,
    _QDISC: tcmsg,
    _CLASS: tcmsg,
}
_VERBS = {
    "add": (_NEW, _CREATE | _EXCLUSIVE),
    "set": (_NEW, 0),
    "change": (_NEW, _REPLACE),
    "replace": (_NEW, _CREATE | _REPLACE),
    "del": (_DEL, 0),
}
_UNICAST = 1
# pyroute2 has no bfifo. Its attribute is that of pfifo (struct tc_fifo_qopt).
plugins.setdefault("bfifo", plugins["pfifo"])
_SMALL_TABLES, _LARGE_TABLE = 255, 252
_HEADER, _CODE = struct.Struct("=IHHII"), struct.Struct("=i")
_MOST_BYTES = 1 << 16


class Netlink:
    """An open socket of the namespace in which it was created. Raises NetlinkError for a refused request."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._number = 0

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def get_links(self, index: int = 0) -> list[Any]:
        """All interfaces, or the one of an index."""
        return self._ask(_LINK + _GET, _ACK if index else _DUMP, {"index": index})

    def get_link(self, ifname: str) -> Any | None:
        """The interface of that name, if there is one."""
        try:
            (found,) = self._ask(_LINK + _GET, _ACK, {}, {"ifname": ifname})
        except NetlinkError as error:
            if error.code == errno.ENODEV:
                return None
            raise
        return found

    def get_addr(self, family: int) -> list[Any]:
        """All addresses."""
        return self._ask(_ADDR + _GET, _DUMP, {"family": family})

    def get_neighbours(self, family: int) -> list[Any]:
        """All neighbours."""
        return self._ask(_NEIGH + _GET, _DUMP, {"family": family})

    def get_rules(self, family: int) -> list[Any]:
        """All rules."""
        return self._ask(_RULE + _GET, _DUMP, {"family": family})

    def get_routes(self, family: int, table: int) -> list[Any]:
        """The routes of a table."""
        found = self._ask(_ROUTE + _GET, _DUMP, {"family": family})
        return [message for message in found if get_attrs(message, "RTA_TABLE") == (table,)]

    def get_qdiscs(self, index: int) -> list[Any]:
        """The queueing disciplines of an interface."""
        found = self._ask(_QDISC + _GET, _DUMP, {"index": index})
        return [message for message in found if message["index"] == index]

    def get_leaf(self, index: int, parent: int) -> Any | None:
        """The queueing discipline of a class, if it has one of its own.

        The kernel sends the answer to a group, and to the caller only as an echo (net/sched/sch_api.c).
        """
        found = self._ask(_QDISC + _GET, _ACK | _ECHO, {"index": index, "parent": parent})
        return found[0] if found else None

    def get_classes(self, index: int) -> list[Any]:
        """The classes of an interface's queueing discipline."""
        return self._ask(_CLASS + _GET, _DUMP, {"index": index})

    def link(
        self,
        verb: str,
        *,
        index: int = 0,
        kind: str | None = None,
        peer: Mapping[str, object] | None = None,
        state: str | None = None,
        **attributes: Any,
    ) -> None:
        """Create an interface (a veth with its `peer`), change or delete one."""
        fields = {"index": index}
        if state is not None:
            fields |= {"flags": IFF_UP if state == "up" else 0, "change": IFF_UP}
        if kind is not None:
            data = [
                _attribute(ifinfmsg, key, attributes.pop(key)) for key in [*attributes] if key[:3] == "br_"
            ]
            if peer is not None:
                ends = [_attribute(ifinfmsg, key, value) for key, value in peer.items()]
                data.append(("VETH_INFO_PEER", {"attrs": ends}))
            about = [("IFLA_INFO_KIND", kind), *([("IFLA_INFO_DATA", {"attrs": data})] if data else [])]
            attributes["linkinfo"] = {"attrs": about}
        self._do(_LINK, verb, fields, attributes)

    def addr(self, verb: str, *, index: int, address: str, prefixlen: int, **attributes: Any) -> None:
        """Add or delete an IPv4 address."""
        fields = {"family": socket.AF_INET, "index": index, "prefixlen": prefixlen}
        self._do(_ADDR, verb, fields, {"local": address, "address": address, **attributes})

    def neigh(self, verb: str, *, ifindex: int, state: int = 0, flags: int = 0, **attributes: Any) -> None:
        """Add, replace or delete an IPv4 neighbour."""
        fields = {"family": socket.AF_INET, "ifindex": ifindex, "state": state, "flags": flags}
        self._do(_NEIGH, verb, fields, attributes)

    def route(
        self, verb: str, *, dst: IPv4Network, proto: int, table: int, scope: int = 0, **attributes: Any
    ) -> None:
        """Add, replace or delete an IPv4 route."""
        fields = {"dst_len": dst.prefixlen, "proto": proto, "scope": scope, "table": _short(table)}
        fields |= {"family": socket.AF_INET, "type": 0 if verb == "del" else _UNICAST}
        self._do(_ROUTE, verb, fields, {"dst": str(dst.network_address), "table": table, **attributes})

    def flush_routes(self, family: int, table: int) -> None:
        """Delete the routes of a table."""
        for message in self.get_routes(family, table):
            self._send(_ROUTE + _DEL, _ACK, message)

    def rule(self, verb: str, *, src: IPv4Network, table: int = 0, **attributes: Any) -> None:
        """Add or delete a rule for packets from an IPv4 address."""
        fields = {"family": socket.AF_INET, "src_len": src.prefixlen, "table": _short(table)}
        fields["action"] = FR_ACT_TO_TBL if table else 0
        self._do(_RULE, verb, fields, {"src": str(src.network_address), "table": table or None, **attributes})

    def tc(
        self,
        command: str,
        kind: str | None = None,
        index: int = 0,
        *,
        handle: int,
        parent: int = TC_H_ROOT,
        **options: Any,
    ) -> None:
        """Create, change or delete a queueing discipline, or (`add-class`, `change-class`) one of its classes."""
        verb, _, of_class = command.partition("-")
        fields = {"index": index, "handle": handle, "parent": parent}
        given = None
        if options:
            plugin = plugins[kind]
            given = (plugin.get_class_parameters if of_class else plugin.get_parameters)(options)
        self._do(_CLASS if of_class else _QDISC, verb, fields, {"kind": kind, "options": given})

    def _do(self, thing: int, verb: str, fields: Mapping[str, int], attributes: Mapping[str, Any]) -> None:
        what, flags = _VERBS[verb]
        self._ask(thing + what, _ACK | flags, fields, attributes)

    def _ask(
        self, kind: int, flags: int, fields: Mapping[str, int], attributes: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """Send a message with these fields and attributes (those that are not None); return the answers."""
        message = _MESSAGES[kind & ~3]()
        message.update(fields)
        given = (attributes or {}).items()
        message["attrs"] = [_attribute(message, key, value) for key, value in given if value is not None]
        return self._send(kind, flags, message)

    def _send(self, kind: int, flags: int, message: Any) -> list[Any]:
        self._number += 1
        message["header"] |= {"type": kind, "flags": _REQUEST | flags, "sequence_number": self._number}
        message.reset()
        message.encode()
        self._socket.send(message.data)
        return list(self._answers())

    def _answers(self) -> Iterator[Any]:
        """The kernel's answers to the last request."""
        while True:
            data = self._socket.recv(_MOST_BYTES)
            offset = 0
            while offset < len(data):
                length, kind, _, number, _ = _HEADER.unpack_from(data, offset)
                if number == self._number:  # skip answers to an interrupted request
                    if kind in (_ERROR, _DONE):
                        (code,) = _CODE.unpack_from(data, offset + _HEADER.size)
                        if code:
                            raise NetlinkError(-code)
                        return
                    message = _MESSAGES[kind & ~3](data, offset=offset)
                    message.decode()
                    yield message
                offset += (length + 3) & ~3


def get_attrs(message: Any, *names: str) -> tuple[Any, ...]:
    """The attributes of these names, None for a missing one. (`message.get` is slow for several names.)"""
    there = {slot.name: slot for slot in message["attrs"]}
    return tuple(there[name].value if name in there else None for name in names)


def _attribute(message: Any, key: str, value: object) -> tuple[str, object]:
    return message.name2nla(key), value


def _short(table: int) -> int:
    """The number of a table in one byte; larger ones are in an attribute."""
    return table if table <= _SMALL_TABLES else _LARGE_TABLE
