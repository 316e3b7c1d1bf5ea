# SPDX-License-Identifier: Apache-2.0
"""Settings of cards against a real kernel: a device whose driver answers dcbnl and ethtool (dcbdummy)."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator

import pytest
from pyroute2.netlink import NLA_F_NESTED

from hipsnet.node import dcb, dcbnl, ethtool
from hipsnet.node.dcbnl import App
from tests.vm.inside import dcb_module
from tests.vm.inside.dcb_module import CARD, FEATURES, Card, run, shown

ETH_P_ALL = 3
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
ATTRIBUTE = struct.Struct("=HH")  # struct nlattr
DCBMSG_BYTES = 4


# As `dcb` is asked, and as we ask for the same: what comes before is there on the card.
REQUESTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "PFC and delay": (
        "pfc set dev card0 prio-pfc all:off 3:on 4:on delay 7",
        "pfc",
        {"pfc priorities": "3,4", "pfc delay": "7"},
    ),
    "no PFC": ("pfc set dev card0 prio-pfc all:off", "pfc", {"pfc priorities": "none"}),
    "ETS": (
        "ets set dev card0 tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:30 1:70 prio-tc all:0 3:1 6:2",
        "ets",
        {"ets classes": "0,0,0,1,0,0,2,0", "ets bandwidth": "30,70,0,0,0,0,0,0"},
    ),
    "rates": (  # dcb takes the kernel's kbit/s for bytes/s
        "maxrate set dev card0 tc-maxrate all:0 1:8gbit",
        "maxrate",
        {"maxrate kbit/s": "0,1000000000,0,0,0,0,0,0"},
    ),
    "DCBX": ("dcbx set dev card0 host ieee", "dcbx", {"dcbx": "host,ieee"}),
    "DSCP": ("app add dev card0 dscp-prio 26:3", "dscp", {"dscp 26": "3"}),
    "two DSCPs": ("app add dev card0 dscp-prio 26:3 48:6", "dscp", {"dscp 26": "3", "dscp 48": "6"}),
    "a DSCP less": ("app del dev card0 dscp-prio 10:1", "dscp", {"dscp 10": "none"}),
    "another priority": ("app replace dev card0 dscp-prio 10:4", "dscp", {"dscp 10": "4"}),
    "buffers": (
        "buffer set dev card0 prio-buffer all:0 3:1 buffer-size all:0 0:131072 1:65536",
        "buffer",
        {"buffer of": "0,0,0,1,0,0,0,0", "buffer sizes": "131072,65536,0,0,0,0,0,0"},
    ),
}


def without_padding(attributes: bytes) -> bytes:
    """Netlink attributes with zeros between them, where a program may leave what was in its memory."""
    found = b""
    while attributes:
        length, kind = ATTRIBUTE.unpack_from(attributes)
        value = attributes[ATTRIBUTE.size : length]
        if kind & NLA_F_NESTED:
            value = without_padding(value)
        found += attributes[: ATTRIBUTE.size] + value + bytes(-length % 4)
        attributes = attributes[length + -length % 4 :]
    return found


class Ear:
    """Hears the dcbnl requests that the kernel gets, from whomever, and its answers.

    It is a netlink monitor of the kernel's: a tracer makes a program wait at every call, longer than `dcb` bears.
    """

    def __init__(self) -> None:
        run("ip", "link", "add", "monitor", "type", "nlmon")
        run("ip", "link", "set", "monitor", "up")
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.bind(("monitor", ETH_P_ALL))
        self._socket.setblocking(False)

    def messages(self) -> list[bytes]:
        """Those since the last call, without their sequence numbers and senders' ports."""
        found: list[bytes] = []
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return found
            length, kind, _, _, _ = HEADER.unpack_from(data)
            if kind in (dcbnl.GETDCB, dcbnl.SETDCB):
                attributes = without_padding(data[HEADER.size + DCBMSG_BYTES : length])
                found.append(data[:8] + bytes(8) + data[HEADER.size :][:DCBMSG_BYTES] + attributes)

    def close(self) -> None:
        self._socket.close()
        run("ip", "link", "del", "monitor")


@pytest.fixture
def ear() -> Iterator[Ear]:
    found = Ear()
    yield found
    found.close()


@pytest.mark.parametrize("what", REQUESTS)
def test_messages_are_those_of_dcb(make_card: Card, ear: Ear, what: str) -> None:
    command, group, values = REQUESTS[what]

    def prepare() -> None:
        card = make_card(FEATURES)
        run("ethtool", "-A", card, "rx", "off", "tx", "off")
        run("dcb", "app", "add", "dev", card, "dscp-prio", "10:1")
        ear.messages()

    prepare()
    dcb_module.dcb(command)
    theirs = ear.messages()
    condition = shown("app"), shown("pfc"), shown("ets"), shown("buffer")
    prepare()
    dcb.write(CARD, group, values)
    ours = ear.messages()
    assert (shown("app"), shown("pfc"), shown("ets"), shown("buffer")) == condition
    setting, asking = (
        [[message for message in sent if message[4] == kind] for sent in (theirs, ours)]
        for kind in (dcbnl.SETDCB, dcbnl.GETDCB)
    )
    assert setting[0] == setting[1]
    assert setting[0]
    assert asking[0][:1] in ([], asking[1][:1])  # some have to ask first what there is


def test_what_is_written_is_what_dcb_shows_and_what_is_read(card: str) -> None:
    ethtool.write(card, "pause", {"pause": "off"})
    for _, group, values in REQUESTS.values():
        dcb.write(card, group, values)
        there = dcb.read(card, group)
        assert {name: there[name] for name in values} == values
    assert shown("app")["dscp_prio"] == [[10, 4], [26, 3], [48, 6]]
    assert shown("ets")["tc_bw"] == [30, 70, 0, 0, 0, 0, 0, 0]
    assert shown("ets")["prio_tc"] == [0, 0, 0, 1, 0, 0, 2, 0]
    assert shown("buffer")["buffer_size"] == [131072, 65536, 0, 0, 0, 0, 0, 0]
    assert shown("dcbx") == {"host": True, "ieee": True}
    assert dcb.read(card, "trust") == {}  # Linux 6.2 has it
    answer = dcbnl.read(card)
    assert answer is not None and answer.pfc is not None
    assert answer.pfc.requests == tuple(range(10, 18))
    assert answer.pfc.indications == tuple(range(20, 28))
    assert dcb.pfc_classes(card) == 8


def test_what_the_driver_refuses_is_an_error_with_its_number(card: str) -> None:
    with pytest.raises(OSError, match="Invalid argument"):  # pause is on
        dcb.write(card, "pfc", {"pfc priorities": "3"})
    with pytest.raises(OSError, match="Invalid argument"):
        dcb.write(card, "buffer", {"buffer sizes": "1,2,3,4,5,6,7,999999999"})
    with pytest.raises(OSError, match="Invalid argument"):
        dcb.write(card, "dcbx", {"dcbx": "static"})
    with pytest.raises(OSError, match="No such file"):
        dcbnl.send(dcbnl.app_request(card, [App(5, 3, 11)], add=False))


def test_ethtools_settings_are_what_ethtool_shows(card: str) -> None:
    assert ethtool.read(card, "pause") == {"pause": "rx,tx"}
    for group, values in (
        ("pause", {"pause": "rx"}),
        ("ring", {"ring rx": "512", "ring tx": "4096"}),
        ("ring", {"ring rx": "256"}),
        ("channels", {"channels": "2"}),
        ("coalesce", {"coalesce rx": "3", "coalesce adaptive": "off"}),
    ):
        ethtool.write(card, group, values)
        there = ethtool.read(card, group)
        assert {name: there[name] for name in values} == values
    assert re.search(r"RX:\s+on\s+TX:\s+off", run("ethtool", "-a", card))
    assert re.search(r"Current.*RX:\s+256.*TX:\s+4096", run("ethtool", "-g", card), re.DOTALL)
    assert re.search(r"Current.*Combined:\s+2", run("ethtool", "-l", card), re.DOTALL)
    assert re.search(r"Adaptive RX: off.*rx-usecs:\s+3.*tx-usecs:\s+8", run("ethtool", "-c", card), re.DOTALL)
    with pytest.raises(OSError, match="Invalid argument"):
        ethtool.write(card, "ring", {"ring rx": "100000"})
