# SPDX-License-Identifier: Apache-2.0
"""dcbnl messages against those that `dcb` of iproute2 sends to the kernel, byte for byte: 6.1.0, apptrust 6.2.0.

Captured on a device whose driver reports `CARD`. `tests/vm/inside/test_dcb.py` runs `dcb` itself.
"""

from __future__ import annotations

import errno
import os
import struct
import subprocess
from collections.abc import Iterator

import pytest

from hipsnet.node import dcb, dcbnl, namespace
from hipsnet.node.dcbnl import Answer, App, Buffer, Ets, MaxRates, Pfc

NONE = (0,) * 8
CARD = Answer(
    pfc=Pfc(8, 0, 0, 0, tuple(range(10, 18)), tuple(range(20, 28))),
    ets=Ets(0, 8, 0, NONE, NONE, NONE, NONE, (NONE,) * 3),
    buffer=Buffer(NONE, (262144, *NONE[1:]), 262144),
    apps=(App(5, 1, 10),),
    max_rates=MaxRates(NONE),
    trusted=(255, 5),
    dcbx=10,
)
COUNTS = "".join(struct.pack("=Q", count).hex() for count in (*range(10, 18), *range(20, 28)))
IFNAME = "0a000100636172643000" + "0000"  # DCB_ATTR_IFNAME "card0"
SET, DEL, SET_DCBX = "00140000" + IFNAME, "001b0000" + IFNAME, "00170000" + IFNAME

# `dcb` and its arguments: the group and values that ask for the same, and what it sends after length and type.
CAPTURED: dict[str, tuple[str, dict[str, str], list[str]]] = {
    "pfc set dev card0 prio-pfc all:off 3:on 4:on delay 7": (
        "pfc",
        {"pfc priorities": "3,4", "pfc delay": "7"},
        [SET + "90000d80" + "8c000200" + "0818000007000000" + COUNTS],
    ),
    "pfc set dev card0 prio-pfc all:off": (
        "pfc",
        {"pfc priorities": "none"},
        [SET + "90000d80" + "8c000200" + "0800000000000000" + COUNTS],
    ),
    "ets set dev card0 tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:30 1:70 prio-tc all:0 3:1 6:2": (
        "ets",
        {"ets classes": "0,0,0,1,0,0,2,0", "ets bandwidth": "30,70,0,0,0,0,0,0"},
        [
            SET + "44000d80" + "3f000100" + "000800" + "1e46000000000000" + "0000000000000000"
            "0202000000000000" + "0000000100000200" + "00" * 24 + "00"
        ],
    ),
    "app add dev card0 dscp-prio 26:3": (
        "dscp",
        {"dscp 26": "3"},
        [SET + "10000d80" + "0c000380" + "0800010005031a00"],
    ),
    "app add dev card0 dscp-prio 26:3 48:6": (
        "dscp",
        {"dscp 26": "3", "dscp 48": "6"},
        [SET + "18000d80" + "14000380" + "0800010005031a00" + "0800010005063000"],
    ),
    "app del dev card0 dscp-prio 10:1": (
        "dscp",
        {"dscp 10": "none"},
        [DEL + "10000d80" + "0c000380" + "0800010005010a00"],
    ),
    "app replace dev card0 dscp-prio 10:4": (
        "dscp",
        {"dscp 10": "4"},
        [
            SET + "10000d80" + "0c000380" + "0800010005040a00",
            DEL + "10000d80" + "0c000380" + "0800010005010a00",
        ],
    ),
    "maxrate set dev card0 tc-maxrate all:0 1:8gbit": (  # dcb takes the kernel's kbit/s for bytes/s
        "maxrate",
        {"maxrate kbit/s": "0,1000000000,0,0,0,0,0,0"},
        [SET + "48000d80" + "44000700" + "00" * 8 + "00ca9a3b00000000" + "00" * 48],
    ),
    "apptrust set dev card0 order dscp": (
        "trust",
        {"trust order": "dscp"},
        [SET + "10000d80" + "0c000b80" + "0500010005000000"],
    ),
    "apptrust set dev card0 order dscp pcp": (
        "trust",
        {"trust order": "dscp,pcp"},
        [SET + "18000d80" + "14000b80" + "0500010005000000" + "05000200ff000000"],
    ),
    "dcbx set dev card0 host ieee": ("dcbx", {"dcbx": "host,ieee"}, [SET_DCBX + "05000e0009000000"]),
    "buffer set dev card0 prio-buffer all:0 3:1 buffer-size all:0 0:131072 1:65536": (
        "buffer",
        {"buffer of": "0,0,0,1,0,0,0,0", "buffer sizes": "131072,65536,0,0,0,0,0,0"},
        [
            SET + "34000d80" + "30000a00" + "0000000100000000" + "00000200" + "00000100" + "00000000" * 6
            + "00000400"
        ],
    ),
}  # fmt: skip


def encoded(message: dcbnl.Message, kind: int) -> bytes:
    message["header"]["type"], message["header"]["flags"] = kind, dcbnl.FLAGS
    message.encode()
    return bytes(message.data)


def captured(kind: int, rest: str) -> bytes:
    """A message of `dcb`: NLM_F_REQUEST and NLM_F_ACK; sequence number and port are not compared."""
    body = bytes.fromhex(rest)
    return struct.pack("=IHHII", 16 + len(body), kind, 5, 0, 0) + body


@pytest.mark.parametrize("command", CAPTURED)
def test_messages_are_those_of_dcb(command: str) -> None:
    group, values, sent = CAPTURED[command]
    requests = dcb.requests("card0", CARD, group, values)
    assert [encoded(request, dcbnl.SETDCB) for request in requests] == [captured(79, text) for text in sent]


def test_the_request_is_that_of_dcb() -> None:
    assert encoded(dcbnl.get_request("card0"), dcbnl.GETDCB) == captured(78, "00150000" + IFNAME)


def test_a_reply_of_the_kernel_is_parsed() -> None:
    def attribute(kind: int, value: bytes) -> bytes:
        return (struct.pack("=HH", 4 + len(value), kind) + value).ljust((4 + len(value) + 3) // 4 * 4, b"\0")

    assert CARD.ets and CARD.pfc and CARD.buffer
    apps = attribute(3, b"".join(attribute(1, app.pack()) for app in CARD.apps))
    congestion_notification = attribute(8, bytes(8))  # not requested
    parts = attribute(1, CARD.ets.pack()) + congestion_notification + attribute(2, CARD.pfc.pack())
    parts += attribute(10, CARD.buffer.pack()) + apps + attribute(7, bytes(64))
    parts += attribute(11, attribute(2, b"\xff") + attribute(1, b"\5"))
    body = struct.pack("=BBH", 0, 21, 0) + attribute(1, b"card0\0") + attribute(13, parts)
    body += attribute(14, b"\x0a")
    message = dcbnl.Message(struct.pack("=IHHII", 16 + len(body), 78, 0, 1, 0) + body)
    message.decode()
    assert dcbnl.answer_of(message) == CARD

    body = struct.pack("=BBH", 0, 21, 0) + attribute(1, b"card0\0") + attribute(13, attribute(3, b""))
    message = dcbnl.Message(struct.pack("=IHHII", 16 + len(body), 78, 0, 1, 0) + body)
    message.decode()
    assert dcbnl.answer_of(message) == Answer(None, None, None, ())


@pytest.fixture
def veth() -> Iterator[str]:
    """A device without DCB in a new namespace; the thread is inside."""
    name = f"t{os.getpid():x}-dcbnl"
    namespace.create(name, "a test's")
    try:
        with namespace.inside(name):
            subprocess.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"], check=True)
            yield "v0"
    finally:
        namespace.delete(name)


def test_a_device_without_dcb_returns_nothing_and_refuses_settings(veth: str) -> None:
    assert dcbnl.read(veth) is None
    assert dcb.read(veth, "pfc") == {}
    with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
        dcbnl.send(dcbnl.app_request(veth, [App(5, 3, 26)], add=True))
    with pytest.raises(OSError, match=os.strerror(errno.ENODEV)):
        dcbnl.read("nosuch")
