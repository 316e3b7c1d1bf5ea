# SPDX-License-Identifier: Apache-2.0
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

from hipsnet.node import ethtool, roce
from orchestrator.provision import removal
from tests.lab import rig
from tests.lab.rig import Done
from tests.vm.inside.dcb_module import (
    APP,
    BUFFER,
    CARD,
    ETHTOOL,
    ETS,
    FEATURES,
    PARAMETERS,
    PFC,
    Card,
    dcb,
    run,
    shown,
)

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
LACKING_TRUST = (
    "card0: trust order dscp left out: its driver, or a kernel before 6.2, "
    "does not support setting the trust order"
)

Hipsnet = Callable[..., Done]


def times_set() -> int:
    """How often the driver was asked to set something."""
    return int(run("ethtool", "-S", CARD).split("times_set:")[1])


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
    """A card that was configured before."""
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


def drift(hipsnet: Hipsnet) -> list[str]:
    done = hipsnet("inspect", "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["nodes"][0]["drift"])


def is_tuned() -> bool:
    """Whether the card has the settings of the file, as other programs report them."""
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


def test_a_host_is_tuned_once_repaired_and_restored(used_card: str, hipsnet: Hipsnet) -> None:
    before, count = condition(), times_set()
    planned = hipsnet("provision", "--dry-run", "--json")
    assert changes(planned) == CHANGES
    assert json.loads(planned.stdout)["lacking"][0].startswith(LACKING_TRUST)
    assert "s0: nic card0 pfc: priorities none" in hipsnet("provision", "--dry-run").stdout
    assert (condition(), times_set()) == (before, count)

    assert changes(hipsnet("provision", "--json")) == CHANGES
    assert is_tuned()
    count = times_set()
    assert "nothing to change" in hipsnet("provision").stdout
    assert drift(hipsnet) == []
    assert times_set() == count

    dcb(f"pfc set dev {used_card} prio-pfc 4:off")
    dcb(f"app replace dev {used_card} dscp-prio 48:2")
    dcb(f"app add dev {used_card} dscp-prio 11:1")  # which the file does not speak of
    wrong = ["card0 pfc: priorities 3 -> priorities 3,4", "card0 dscp: 48 2 -> 48 6"]
    assert drift(hipsnet) == [f"nic {change}" for change in wrong]
    count = times_set()
    assert changes(hipsnet("provision", "--json")) == wrong
    assert times_set() == count + 3  # PFC; a DSCP added, and one removed
    dcb(f"app del dev {used_card} dscp-prio 11:1")
    assert is_tuned()

    # What the file asks for no more gets back already now.
    done = hipsnet("provision", text=TEXT + "pfc: {priorities: [3]}\n")
    assert done.returncode == 0, done.stderr
    assert shown("ets") == before["ets"]
    assert shown("pfc")["prio_pfc"] == [priority == 3 for priority in range(8)]

    assert hipsnet("destroy").returncode == 0
    assert condition() == before


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


def test_the_next_run_completes_a_killed_one(used_card: str, hipsnet: Hipsnet) -> None:
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


def test_destroy_undoes_a_killed_run(used_card: str, hipsnet: Hipsnet) -> None:
    before = condition()
    killed(hipsnet, "provision", 9)
    assert condition() != before
    assert hipsnet("destroy").returncode == 0
    assert condition() == before


def test_a_setting_that_a_card_lacks_is_reported_and_the_rest_is_applied(
    make_card: Card, hipsnet: Hipsnet
) -> None:
    make_card(APP | ETHTOOL)
    count = times_set()
    planned = hipsnet("provision", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    sentences = [
        "card0: pfc priorities 3,4, pfc delay 7 left out: its driver has no PFC (dcbnl ieee_getpfc)",
        "left out: its driver has no ETS (dcbnl ieee_getets)",
        "left out: its driver has no maximum rates for traffic classes (dcbnl ieee_getmaxrate)",
        "left out: its driver does not support setting port buffers (dcbnl getbuffer)",
        "card0: dcbx host,ieee left out: its driver does not let the host select the DCBX agent",
        LACKING_TRUST,
    ]
    assert [sentence for sentence in sentences if sentence not in planned.stdout] == []
    assert times_set() == count
    done = hipsnet("provision", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["lacking"]) == len(sentences) + 1  # RoCE: there is no RDMA device
    assert shown("app")["dscp_prio"] == [[26, 3], [48, 6]]
    assert ethtool.read(CARD, "pause") == {"pause": "off"}
    assert "nothing to change" in hipsnet("provision").stdout


@pytest.mark.parametrize(
    ("features", "section", "words"),
    [
        (APP | ETS | BUFFER | ETHTOOL, "pfc: {required: true}", "pfc priorities 3 left out"),
        (0, "pfc: {required: true}", "dscp 26 3 left out"),
        (0, "nic: {channels: 8, required: true}", "channels 8 left out"),
        (FEATURES, "nic: {trust: [dscp], required: true}", LACKING_TRUST),
        (FEATURES, "roce: {required: true}", "roce mode v2, roce tos 106 left out"),
        (
            FEATURES,
            "roce: {dcqcn: [{name: rp_ai_rate, value: 5}], required: true}",
            "dcqcn rp_ai_rate 5 left out",
        ),
    ],
)
def test_a_missing_required_setting_is_an_error_before_anything_changes(
    make_card: Card, hipsnet: Hipsnet, features: int, section: str, words: str
) -> None:
    make_card(features)
    count, before = times_set(), run("ip", "-d", "link", "show", CARD)
    for options in ((), ("--dry-run",)):
        done = hipsnet("provision", *options, text=f"{TEXT}{section}\n")
        assert done.returncode == 2
        assert words in done.stderr
        assert "required" in done.stderr
    assert (times_set(), run("ip", "-d", "link", "show", CARD)) == (count, before)


def test_pause_of_the_link_and_of_priorities_at_once_is_an_error(make_card: Card, hipsnet: Hipsnet) -> None:
    make_card(PFC | APP | ETHTOOL)
    count = times_set()
    done = hipsnet("provision", text=TEXT + "pfc: {}\nnic: {pause: 'on'}\n")
    assert done.returncode == 2
    assert "a port pauses the link or priorities, not both" in done.stderr
    assert times_set() == count


def test_rdma_cm_uses_the_settings_of_the_file_and_is_restored(card: str, hipsnet: Hipsnet) -> None:
    run("modprobe", "rdma_cm")
    config = Path("/sys/kernel/config")
    if not (config / "rdma_cm").is_dir():
        run("mount", "-t", "configfs", "none", config)
    run("ip", "link", "set", card, "up")
    run("rdma", "link", "add", "soft0", "type", "rxe", "netdev", card)
    try:
        assert roce.device(card) == "soft0"
        roce.write(card, "roce", {"roce tos": "32"})  # rxe knows no mode but v2
        assert roce.read(card, "roce") == {"roce mode": "v2", "roce tos": "32"}
        text = TEXT + "roce: {dscp: 34, required: true}\n"
        assert changes(hipsnet("provision", "--json", text=text)) == ["card0 roce: tos 32 -> tos 138"]
        folder = config / "rdma_cm/soft0"
        folder.mkdir()
        files = {path.name: path.read_text() for path in (folder / "ports/1").iterdir()}
        folder.rmdir()
        assert files == {"default_roce_mode": "RoCE v2\n", "default_roce_tos": "138\n"}
        assert "nothing to change" in hipsnet("provision", text=text).stdout
        roce.write(card, "roce", {"roce tos": "0"})
        assert json.loads(hipsnet("inspect", "--json", text=text).stdout)["nodes"][0]["drift"] == [
            "nic card0 roce: tos 0 -> tos 138"
        ]
        assert hipsnet("provision", text=text).returncode == 0
        assert hipsnet("destroy").returncode == 0
        assert roce.read(card, "roce") == {"roce mode": "v2", "roce tos": "32"}
    finally:
        run("rdma", "link", "del", "soft0")
