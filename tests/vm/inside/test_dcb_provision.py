"""`hipsnet provision`, `inspect` and `destroy` of a host whose card answers dcbnl and ethtool (dcbdummy)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hipsnet.node import ethtool
from orchestrator import removal
from tests.lab import rig
from tests.lab.rig import Done
from tests.vm.inside import dcb_module
from tests.vm.inside.dcb_module import (
    CARD,
    FEATURES,
    PARAMETERS,
    Card,
    dcb,
    run,
    shown,
)

dcb_module.prepare()

STALL_S = 60.0
TEXT = """\
version: 1
name: dcbvm
fabric: {kind: bcube, n: 2, levels: 1}
link: {rate: 100Gbit/s, mtu: 4200}
nodes: {s0: {ports: [{interface: card0}]}, s1: {ports: [{interface: card1, mac: "02:00:00:00:00:01"}]}}
"""
LOSSLESS = """\
pfc: {priorities: [3, 4], delay: 7}
nic:
  dcbx: host
  channels: 8
  rx_ring: 4096
  tx_ring: 2048
  adaptive: false
  rx_usecs: 3
  trust: [dscp]
  dscp: [{dscp: 48, priority: 6}]
  ets: {classes: [0, 0, 0, 1, 0, 0, 2, 0], bandwidth: [30, 70, 0, 0, 0, 0, 0, 0]}
  max_rates: [unlimited, 40Gbit/s, unlimited, unlimited, unlimited, unlimited, unlimited, unlimited]
  buffers:
    of: [0, 0, 0, 1, 1, 0, 0, 0]
    sizes: [64KiB, 192KiB, 0B, 0B, 0B, 0B, 0B, 0B]
"""
CHANGES = [
    "card0 pause: rx,tx -> off",
    "card0 channels: 4 -> 8",
    "card0 ring: rx 1024, tx 1024 -> rx 4096, tx 2048",
    "card0 coalesce: adaptive on, rx 8 -> adaptive off, rx 3",
    "card0 dcbx: firmware,ieee -> host,ieee",
    "card0 pfc: priorities none, delay 0 -> priorities 3,4, delay 7",
    "card0 ets: classes 0,0,0,0,0,0,0,0, bandwidth 16,12,12,12,12,12,12,12"
    " -> classes 0,0,0,1,0,0,2,0, bandwidth 30,70,0,0,0,0,0,0",
    "card0 maxrate: kbit/s 0,0,0,0,0,0,0,0 -> kbit/s 0,40000000,0,0,0,0,0,0",
    "card0 dscp: 48 none, 26 1+2 -> 48 6, 26 3",
    "card0 buffer: of 0,0,0,0,0,0,0,0, sizes 262144,0,0,0,0,0,0,0"
    " -> of 0,0,0,1,1,0,0,0, sizes 65536,196608,0,0,0,0,0,0",
]
Hipsnet = Callable[..., Done]


def condition() -> dict[str, Any]:
    """All settings of the card, in the words of other programs."""
    parts: dict[str, Any] = {part: shown(part) for part in ("pfc", "ets", "app", "buffer", "maxrate", "dcbx")}
    tools = {option: run("ethtool", option, CARD) for option in ("-a", "-g", "-l", "-c", "-k")}
    (link,) = json.loads(run("ip", "-j", "-d", "link", "show", CARD))
    return parts | tools | {key: link.get(key) for key in ("flags", "mtu", "ifalias", "xdp")}


@pytest.fixture
def hipsnet(tmp_path: Path) -> Iterator[Hipsnet]:
    """`hipsnet COMMAND` about this host's part of a file with the given text."""
    file = tmp_path / "topology.yaml"

    def call(command: str, *options: str, text: str = TEXT + LOSSLESS) -> Done:
        file.write_text(text)
        return rig.hipsnet(command, file, "--node", "s0", *options)

    yield call
    removal.destroy("dcbvm")


@pytest.fixture
def used_card(make_card: Card) -> str:
    """A card that somebody has set up already."""
    card = make_card(FEATURES)
    run("dcb", "app", "add", "dev", card, "dscp-prio", "26:1", "26:2", "10:5")
    dcb(f"ets set dev {card} tc-tsa all:ets tc-bw all:12 0:16")
    return card


def changes(done: Done) -> list[str]:
    """What a provision did to the card, or would do."""
    assert done.returncode == 0, done.stderr
    return [
        f"{change['subject']}: {change['before']} -> {change['after']}"
        for change in json.loads(done.stdout)["changes"]
        if change["aspect"] == "nic"
    ]


def is_tuned() -> bool:
    """Whether the card is as the file says, in the words of other programs."""
    assert shown("pfc")["prio_pfc"] == [priority in (3, 4) for priority in range(8)]
    assert shown("pfc")["delay"] == 7
    assert shown("app")["dscp_prio"] == [[10, 5], [26, 3], [48, 6]]
    assert shown("ets")["tc_bw"] == [30, 70, 0, 0, 0, 0, 0, 0]
    assert shown("ets")["tc_tsa"] == ["ets", "ets", *["strict"] * 6]
    assert shown("ets")["prio_tc"] == [0, 0, 0, 1, 0, 0, 2, 0]
    assert shown("buffer")["prio_buffer"] == [0, 0, 0, 1, 1, 0, 0, 0]
    assert shown("buffer")["buffer_size"][:2] == [65536, 196608]
    assert shown("maxrate")["tc_maxrate"][:2] == [0, 40_000_000]
    assert shown("dcbx") == {"host": True, "ieee": True}
    assert ethtool.read(CARD, "pause") == {"pause": "off"}
    return "Combined:\t8" in run("ethtool", "-l", CARD).replace("\t\t", "\t")


def killed(hipsnet: Hipsnet, command: str, setting: int) -> None:
    """Kill the command while the driver sees to its so-many-th setting."""
    (PARAMETERS / "stall").write_text(str(setting))
    process = os.fork()
    if process == 0:
        hipsnet(command)
        os._exit(0)
    deadline = time.monotonic() + STALL_S
    while (PARAMETERS / "stalled").read_text().strip() != "1" and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "it had come to an end before"


def test_what_a_killed_run_began_the_next_one_ends(used_card: str, hipsnet: Hipsnet) -> None:
    before = condition()
    killed(hipsnet, "provision", 7)
    assert condition() != before
    left = changes(hipsnet("provision", "--json"))
    assert left == CHANGES[-len(left) :]
    assert 0 < len(left) < len(CHANGES)
    assert is_tuned()
    killed(hipsnet, "destroy", 7)
    assert condition() != before
    assert hipsnet("destroy").returncode == 0
    assert condition() == before
