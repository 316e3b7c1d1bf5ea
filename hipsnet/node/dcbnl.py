# SPDX-License-Identifier: Apache-2.0
"""Data centre bridging through rtnetlink (include/uapi/linux/dcbnl.h), with the same messages as iproute2's `dcb`.

The structures and attributes of IEEE 802.1Qaz: PFC, ETS and the APP table. Some drivers also have maximum rates of
traffic classes, port buffers, the trusted selectors of the APP table (Linux 6.2) and the DCBX mode.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyroute2.netlink import NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST, nla, nlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.marshal import Marshal
from pyroute2.netlink.nlsocket import NetlinkSocket

_NETLINK_ROUTE = 0
GETDCB, SETDCB = 78, 79
IEEE_SET, IEEE_GET, SDCBX, IEEE_DEL = 20, 21, 23, 27
FLAGS = NLM_F_REQUEST | NLM_F_ACK
DSCP_SELECTOR, PCP_SELECTOR = 5, 255
STRICT, ETS = 0, 2
"""Transmission selection algorithms: `IEEE_8021QAZ_TSA_*`."""

_PFC = struct.Struct("=BBBxH2x8Q8Q")
_ETS = struct.Struct("=BBB" + "8s" * 7)
_BUFFER = struct.Struct("=8s8I I")
_MAX_RATES = struct.Struct("=8Q")
_APP = struct.Struct("=BBH")


@dataclass(frozen=True)
class Pfc:
    """`struct ieee_pfc`: `enabled` has a bit for each lossless priority."""

    classes: int
    enabled: int
    mac_bypass: int
    delay: int
    requests: tuple[int, ...] = (0,) * 8
    indications: tuple[int, ...] = (0,) * 8

    def pack(self) -> bytes:
        """As the kernel has it."""
        return _PFC.pack(
            self.classes, self.enabled, self.mac_bypass, self.delay, *self.requests, *self.indications
        )


@dataclass(frozen=True)
class Ets:
    """`struct ieee_ets`: bandwidth in percent and transmission selection by traffic class; class by priority."""

    willing: int
    classes: int
    cbs: int
    bandwidth: tuple[int, ...]
    receive_bandwidth: tuple[int, ...]
    served: tuple[int, ...]
    class_of: tuple[int, ...]
    recommended: tuple[tuple[int, ...], ...]

    def pack(self) -> bytes:
        """As the kernel has it."""
        rows = (self.bandwidth, self.receive_bandwidth, self.served, self.class_of, *self.recommended)
        return _ETS.pack(self.willing, self.classes, self.cbs, *map(bytes, rows))


@dataclass(frozen=True)
class Buffer:
    """`struct dcbnl_buffer`: buffer by priority, and the buffers' sizes in bytes."""

    buffer_of: tuple[int, ...]
    sizes: tuple[int, ...]
    total: int

    def pack(self) -> bytes:
        """As the kernel has it."""
        return _BUFFER.pack(bytes(self.buffer_of), *self.sizes, self.total)


@dataclass(frozen=True)
class MaxRates:
    """`struct ieee_maxrate`: kbit/s of each traffic class; 0 is unlimited."""

    kbit_s: tuple[int, ...]

    def pack(self) -> bytes:
        """As the kernel has it."""
        return _MAX_RATES.pack(*self.kbit_s)


@dataclass(frozen=True)
class App:
    """`struct dcb_app`: an entry of the APP table; with `DSCP_SELECTOR`, `protocol` is a DSCP."""

    selector: int
    priority: int
    protocol: int

    def pack(self) -> bytes:
        """As the kernel has it."""
        return _APP.pack(self.selector, self.priority, self.protocol)


@dataclass(frozen=True)
class Answer:
    """The DCB state of a driver; None for a part that it does not have."""

    pfc: Pfc | None
    ets: Ets | None
    buffer: Buffer | None
    apps: tuple[App, ...]
    max_rates: MaxRates | None = None
    trusted: tuple[int, ...] | None = None
    dcbx: int | None = None


class _Apps(nla):  # type: ignore[misc]
    prefix = "IEEE_"
    nla_flags = NLA_F_NESTED
    nla_map = ((1, "IEEE_APP", "cdata"),)


class _Trusted(nla):  # type: ignore[misc]
    prefix = "DCB_"
    nla_flags = NLA_F_NESTED
    nla_map = ((1, "DCB_IEEE_SELECTOR", "uint8"), (2, "DCB_OWN_SELECTOR", "uint8"))


class _Ieee(nla):  # type: ignore[misc]
    prefix = "IEEE_"
    nla_flags = NLA_F_NESTED
    nla_map = (
        (1, "IEEE_ETS", "cdata"),
        (2, "IEEE_PFC", "cdata"),
        (3, "IEEE_APP_TABLE", "apps"),
        (7, "IEEE_MAXRATE", "cdata"),
        (10, "IEEE_BUFFER", "cdata"),
        (11, "IEEE_TRUSTED", "trusted"),
    )
    apps = _Apps
    trusted = _Trusted


class Message(nlmsg):  # type: ignore[misc]
    """`struct dcbmsg` and its attributes."""

    prefix = "DCB_ATTR_"
    fields = (("family", "B"), ("cmd", "B"), ("pad", "H"))
    nla_map = (
        (1, "DCB_ATTR_IFNAME", "asciiz"),
        (13, "DCB_ATTR_IEEE", "ieee"),
        (14, "DCB_ATTR_DCBX", "uint8"),
    )
    ieee = _Ieee


class _Done(nlmsg):  # type: ignore[misc]
    """The answer to a set request: one byte with the error."""

    prefix = "DCB_ATTR_"
    fields = Message.fields
    nla_map = (
        (1, "DCB_ATTR_IFNAME", "asciiz"),
        (13, "DCB_ATTR_IEEE", "uint8"),
        (14, "DCB_ATTR_DCBX", "uint8"),
    )


class _Marshal(Marshal):  # type: ignore[misc]
    msg_map: ClassVar[dict[int, type[nlmsg]]] = {GETDCB: Message, SETDCB: _Done}


def get_request(link: str) -> Message:
    """The request for the whole DCB state of a driver."""
    return _message(link, IEEE_GET)


def set_request(link: str, *parts: Pfc | Ets | Buffer | MaxRates) -> Message:
    """The request to set these parts, each as a whole."""
    names = {Pfc: "IEEE_PFC", Ets: "IEEE_ETS", Buffer: "IEEE_BUFFER", MaxRates: "IEEE_MAXRATE"}
    return _message(link, IEEE_SET, [(names[type(part)], part.pack()) for part in parts])


def app_request(link: str, apps: Iterable[App], add: bool) -> Message:
    """The request to add entries to the APP table, or to delete them."""
    table = {"attrs": [("IEEE_APP", app.pack()) for app in apps]}
    return _message(link, IEEE_SET if add else IEEE_DEL, [("IEEE_APP_TABLE", table)])


def trust_request(link: str, selectors: Iterable[int]) -> Message:
    """The request to trust these selectors of the APP table, in order of precedence."""
    names = dict.fromkeys(range(1, 6), "DCB_IEEE_SELECTOR")
    trusted = [(names.get(selector, "DCB_OWN_SELECTOR"), selector) for selector in selectors]
    return _message(link, IEEE_SET, [("IEEE_TRUSTED", {"attrs": trusted})])


def dcbx_request(link: str, flags: int) -> Message:
    """The request to set the DCBX mode (`DCB_CAP_DCBX_*`)."""
    message = _message(link, SDCBX)
    message["attrs"].append(("DCB_ATTR_DCBX", flags))
    return message


def read(link: str) -> Answer | None:
    """The DCB state of a link's driver; None if it has no DCB. Raises OSError if there is no such link."""
    with _socket() as netlink:
        try:
            (message,) = netlink.nlm_request(get_request(link), msg_type=GETDCB, msg_flags=FLAGS)
        except NetlinkError as error:
            if error.code in (errno.EOPNOTSUPP, errno.EINVAL):
                return None
            raise OSError(error.code, os.strerror(error.code)) from error
    return answer_of(message)


def send(request: Message) -> None:
    """Send a set request. Raises OSError with the driver's error."""
    with _socket() as netlink:
        try:
            (done,) = netlink.nlm_request(request, msg_type=SETDCB, msg_flags=FLAGS)
        except NetlinkError as error:
            raise OSError(error.code, os.strerror(error.code)) from error
    if code := done.get_attr("DCB_ATTR_IEEE"):
        # The kernel puts -errno into an unsigned byte.
        raise OSError(256 - code, os.strerror(256 - code))
    if done.get_attr("DCB_ATTR_DCBX"):  # no error's number: drivers answer 1
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def answer_of(message: nlmsg) -> Answer:
    """The structures in the answer to `get_request`."""
    ieee = message.get_attr("DCB_ATTR_IEEE")
    parts = dict(ieee["attrs"]) if ieee is not None else {}
    table = parts.get("IEEE_APP_TABLE")
    apps = [_app(data) for name, data in table["attrs"] if name == "IEEE_APP"] if table is not None else ()
    trusted = parts.get("IEEE_TRUSTED")
    return Answer(
        pfc=_pfc(parts["IEEE_PFC"]) if "IEEE_PFC" in parts else None,
        ets=_ets(parts["IEEE_ETS"]) if "IEEE_ETS" in parts else None,
        buffer=_buffer(parts["IEEE_BUFFER"]) if "IEEE_BUFFER" in parts else None,
        apps=tuple(apps),
        max_rates=MaxRates(_MAX_RATES.unpack_from(parts["IEEE_MAXRATE"]))
        if "IEEE_MAXRATE" in parts
        else None,
        trusted=None if trusted is None else tuple(selector for _, selector in trusted["attrs"]),
        dcbx=message.get_attr("DCB_ATTR_DCBX"),
    )


def _pfc(data: bytes) -> Pfc:
    classes, enabled, bypass, delay, *counts = _PFC.unpack_from(data)
    return Pfc(classes, enabled, bypass, delay, tuple(counts[:8]), tuple(counts[8:]))


def _ets(data: bytes) -> Ets:
    willing, classes, cbs, *rows = _ETS.unpack_from(data)
    bandwidth, receive, served, class_of, *recommended = (tuple(row) for row in rows)
    return Ets(willing, classes, cbs, bandwidth, receive, served, class_of, tuple(recommended))


def _buffer(data: bytes) -> Buffer:
    buffer_of, *sizes, total = _BUFFER.unpack_from(data)
    return Buffer(tuple(buffer_of), tuple(sizes), total)


def _app(data: bytes) -> App:
    selector, priority, protocol = _APP.unpack_from(data)
    return App(selector, priority, protocol)


def _message(link: str, command: int, parts: list[tuple[str, object]] | None = None) -> Message:
    message = Message()
    message["cmd"] = command
    message["attrs"] = [("DCB_ATTR_IFNAME", link)]
    if parts is not None:
        message["attrs"].append(("DCB_ATTR_IEEE", {"attrs": parts}))
    return message


@contextmanager
def _socket() -> Iterator[NetlinkSocket]:
    with NetlinkSocket(_NETLINK_ROUTE) as netlink:
        netlink.set_marshal(_Marshal())
        netlink.bind()
        yield netlink
