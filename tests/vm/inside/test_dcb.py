"""Settings of cards against a real kernel: a device whose driver answers dcbnl and ethtool (dcbdummy)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hipsnet.node import dcb, dcbnl, ethtool
from hipsnet.node.dcbnl import App
from tests.vm.inside import dcb_module

dcb_module.prepare()

ALL = 31
Card = Callable[[int], str]


def run(*command: str | Path, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def shown(*what: str) -> Any:
    """What iproute2's dcb says of the card."""
    return json.loads(run("dcb", "-j", *what, "show", "dev", "card0"))


@pytest.fixture(scope="module")
def module() -> Iterator[None]:
    dcb_module.load()
    yield
    dcb_module.unload()


@pytest.fixture
def make_card(module: None) -> Iterator[Card]:
    """Make card0 with these features."""

    def make(features: int) -> str:
        Path("/sys/module/dcbdummy/parameters/features").write_text(str(features))
        run("ip", "link", "add", "name", "card0", "type", "dcbdummy")
        return "card0"

    yield make
    run("ip", "link", "del", "card0", check=False)


@pytest.fixture
def card(make_card: Card) -> str:
    return make_card(ALL)


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


def sent_by(command: str) -> list[bytes]:
    """The messages that a program sends, out of strace's dump of them."""
    done = subprocess.run(
        ["strace", "-e", "trace=sendto,sendmsg", "-e", "write=all", *command.split()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found: list[bytes] = []
    for line in done.stderr.splitlines():
        if line.startswith("send"):
            found.append(b"")
        elif row := re.match(r" \| [0-9a-f]{5}  ((?:[0-9a-f]{2} {1,2}){1,16})", line):
            found[-1] += bytes.fromhex(row[1])
    return found


def without_stamps(message: bytes) -> bytes:
    """A netlink message without its sequence number and its sender's port."""
    return message[:8] + bytes(8) + message[16:]


def encoded(message: dcbnl.Message, kind: int) -> bytes:
    message["header"]["type"], message["header"]["flags"] = kind, dcbnl.FLAGS
    message.encode()
    return without_stamps(bytes(message.data))


@pytest.mark.parametrize("what", [what for what in REQUESTS if what not in ("another priority", "buffers")])
def test_messages_are_those_of_dcb(card: str, what: str) -> None:
    command, group, values = REQUESTS[what]
    run("ethtool", "-A", card, "rx", "off", "tx", "off")
    run("dcb", "app", "add", "dev", card, "dscp-prio", "10:1")
    answer = dcbnl.read(card)
    assert answer is not None
    ours = [encoded(request, dcbnl.SETDCB) for request in dcb.requests(card, answer, group, values)]
    theirs = [without_stamps(message) for message in sent_by(f"dcb {command}")]
    setting = [message for message in theirs if message[4] == dcbnl.SETDCB]
    asking = [message for message in theirs if message[4] == dcbnl.GETDCB]
    assert setting == ours
    assert ours
    assert all(message == encoded(dcbnl.get_request(card), dcbnl.GETDCB) for message in asking)


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
