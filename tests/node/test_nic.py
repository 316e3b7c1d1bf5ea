# SPDX-License-Identifier: Apache-2.0
"""Settings of cards as data: derived from a file, ordered for a change, and reported if missing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hipsnet.errors import InputError
from hipsnet.node import dcb, dcbnl, nic, nic_settings, roce
from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.dcbnl import Answer, App, Buffer, Ets, Pfc
from hipsnet.node.desired import LinkConfig, NodeConfig, Setting
from hipsnet.topology import parse

HEAD = "version: 1\nname: demo\nfabric: {kind: bcube, n: 2, levels: 1}\nlink: {rate: 100Gbit/s, mtu: 1500}\n"
HOSTS = "nodes: {s0: {ports: [{interface: a}]}, s1: {ports: [{interface: a}]}}\n"
ZEROS = (0,) * 8


def answer(**parts: object) -> Answer:
    return Answer(**({"pfc": None, "ets": None, "buffer": None, "apps": ()} | parts))  # type: ignore[arg-type]


def desired_settings(rest: str) -> dict[str, Setting]:
    return {found.name: found for found in nic_settings.settings(parse(HEAD + HOSTS + rest, "t.yaml"))}


def node(*settings: Setting, rxe: str | None = None) -> NodeConfig:
    return NodeConfig("demo", "s0", (LinkConfig("eth1", "card", 0, settings=settings, rxe=rxe),))


def there(**settings: str) -> Actual:
    pairs = tuple((name.replace("_", " "), value) for name, value in settings.items())
    return Actual(
        links={"eth1": ActualLink(1, "eth1", "02:00:00:00:00:01", 1500, True, True, settings=pairs)}
    )


def test_a_plain_file_asks_for_what_xdp_needs_and_no_more() -> None:
    assert {name: found.value for name, found in desired_settings("").items()} == {
        "lro": "off",
        "gro-hw": "off",
    }
    assert all(found.optional for found in desired_settings("").values())


def test_lossless_priorities_bring_pause_dscp_and_rdma_settings() -> None:
    found = desired_settings("pfc: {priorities: [4, 3], required: true}\nroce: {priority: 4, dscp: 34}\n")
    values = {name: setting.value for name, setting in found.items() if name not in ("lro", "gro-hw")}
    assert values == {
        "pause": "off",
        "pfc priorities": "3,4",
        "dscp 34": "4",
        "roce mode": "v2",
        "roce tos": str(34 * 4 + 2),
        "ecn np 4": "1",
        "ecn rp 4": "1",
    }
    assert found["pfc priorities"].required and found["dscp 34"].required
    assert not found["roce tos"].required
    without_ecn = desired_settings("roce: {ecn: {enabled: false}}\n")
    assert (without_ecn["roce tos"].value, without_ecn["ecn rp 3"].value) == ("104", "0")


def test_a_nic_section_is_taken_as_it_is() -> None:
    found = desired_settings(
        "nic:\n  pause: 'on'\n  channels: 4\n  rx_ring: 512\n  adaptive: true\n  tx_usecs: 0\n"
        "  dscp: [{dscp: 10, priority: 1}]\n  trust: [dscp, pcp]\n  dcbx: host\n"
        "  max_rates: [unlimited, 40Gbit/s, 1Mbit/s, 1Gbit/s, unlimited, unlimited, unlimited, unlimited]\n"
        "  buffers: {of: [0, 0, 0, 1, 0, 0, 0, 0], sizes: [1KiB, 2KiB, 0B, 0B, 0B, 0B, 0B, 0B]}\n"
    )
    values = {name: setting.value for name, setting in found.items() if name not in ("lro", "gro-hw")}
    assert values == {
        "pause": "rx,tx",
        "channels": "4",
        "ring rx": "512",
        "coalesce adaptive": "on",
        "coalesce tx": "0",
        "dscp 10": "1",
        "trust order": "dscp,pcp",
        "dcbx": "host,ieee",
        "maxrate kbit/s": "0,40000000,1000,1000000,0,0,0,0",
        "buffer of": "0,0,0,1,0,0,0,0",
        "buffer sizes": "1024,2048,0,0,0,0,0,0",
    }


def test_what_stops_comes_first_and_a_group_is_one_change() -> None:
    asked = [
        Setting("ring rx", "512"),
        Setting("pfc priorities", "3"),
        Setting("pause", "off"),
        Setting("ring tx", "512"),
        Setting("channels", "4"),
    ]
    now = there(ring_rx="1024", pfc_priorities="none", pause="rx,tx", ring_tx="1024", channels="4")
    found = nic.differences(node(*asked), now)
    assert [str(change) for change in found] == [
        "nic eth1 pause: rx,tx -> off",
        "nic eth1 ring: rx 1024, tx 1024 -> rx 512, tx 512",
        "nic eth1 pfc: priorities none -> priorities 3",
    ]
    back = [Setting("pause", "rx,tx"), Setting("pfc priorities", "none")]
    found = nic.differences(node(*back), there(pfc_priorities="3", pause="off"))
    assert [change.subject for change in found] == ["eth1 pfc", "eth1 pause"]
    assert nic.differences(node(*back), there(pfc_priorities="none", pause="rx,tx")) == []


def test_missing_settings_are_reported_by_group_and_an_error_only_if_required() -> None:
    asked = (Setting("pfc priorities", "3"), Setting("pfc delay", "7"), Setting("lro", "off", optional=True))
    assert nic.lacking(node(*asked), there()) == (
        "eth1: pfc priorities 3, pfc delay 7 left out: its driver has no PFC (dcbnl ieee_getpfc)",
    )
    nic.refuse_lacking(node(*asked), there())
    with pytest.raises(InputError, match=r"s0: eth1: pfc priorities 3 left out.*`required`"):
        nic.refuse_lacking(node(Setting("pfc priorities", "3", required=True)), there())
    assert nic.lacking(node(*asked), there(pfc_priorities="none", pfc_delay="0")) == ()


def test_a_device_in_software_that_is_still_to_be_made_lacks_nothing() -> None:
    asked = Setting("roce mode", "v2", required=True)
    nic.refuse_lacking(node(asked, rxe="hips_demo_s0_p0"), there())
    with pytest.raises(InputError):
        nic.refuse_lacking(node(asked), there())


def test_settings_out_of_a_drivers_structures() -> None:
    ets = Ets(
        0,
        8,
        0,
        (40, 60, *ZEROS[2:]),
        ZEROS,
        (2, 2, 0, 0, 0, 0, 1, 255),
        (0, 0, 1, 0, 0, 0, 0, 7),
        (ZEROS,) * 3,
    )
    full = answer(
        pfc=Pfc(8, 0b10010001, 0, 5),
        ets=ets,
        buffer=Buffer((0, 1, *ZEROS[2:]), (10, 20, *ZEROS[2:]), 99),
        apps=(App(5, 3, 26), App(1, 6, 0x8906), App(5, 1, 0)),
    )
    assert dcb.settings_of(full, "pfc") == {"pfc priorities": "0,4,7", "pfc delay": "5"}
    assert dcb.settings_of(full, "ets")["ets classes"] == "0,0,1,0,0,0,0,7"
    assert dcb.settings_of(full, "ets")["ets bandwidth"] == "40,60,0,0,0,0,cbs,vendor"
    (back,) = dcb.requests("e", full, "ets", dcb.settings_of(full, "ets"))
    assert dict(dict(back["attrs"])["DCB_ATTR_IEEE"]["attrs"])["IEEE_ETS"] == ets.pack()
    assert dcb.settings_of(full, "buffer") == {
        "buffer of": "0,1,0,0,0,0,0,0",
        "buffer sizes": "10,20,0,0,0,0,0,0",
    }
    dscps = dcb.settings_of(full, "dscp")
    assert {name: value for name, value in dscps.items() if value != "none"} == {
        "dscp 26": "3",
        "dscp 0": "1",
    }
    assert [dcb.settings_of(answer(), group) for group in ("pfc", "ets", "buffer")] == [{}, {}, {}]


def test_the_trust_order_and_dcbx_mode_of_a_driver() -> None:
    answered = answer(trusted=(5, 255, 9), dcbx=0b1010)
    assert dcb.settings_of(answered, "trust") == {"trust order": "dscp,pcp,9"}
    assert dcb.settings_of(answered, "dcbx") == {"dcbx": "firmware,ieee"}
    (back,) = dcb.requests("e", answered, "dcbx", {"dcbx": "firmware,ieee"})
    assert dict(back["attrs"])["DCB_ATTR_DCBX"] == 0b1010
    assert dcb.settings_of(answer(trusted=(), dcbx=0), "trust") == {"trust order": "none"}
    assert dcb.settings_of(answer(trusted=(), dcbx=0), "dcbx") == {"dcbx": "none"}
    assert [dcb.settings_of(answer(), group) for group in ("trust", "dcbx", "maxrate")] == [{}, {}, {}]


def test_a_dscp_with_two_priorities_gets_both_back() -> None:
    found = dcb.settings_of(answer(apps=(App(5, 2, 26), App(5, 1, 26))), "dscp")
    assert found["dscp 26"] == "1+2"
    (request,) = dcb.requests("e", answer(apps=(App(5, 2, 26),)), "dscp", {"dscp 26": "1+2"})
    assert apps_of(request) == [App(5, 1, 26)]


def test_only_what_differs_is_sent_new_dscps_first() -> None:
    now = answer(apps=(App(5, 3, 26), App(5, 1, 10), App(5, 2, 48)))
    found = dcb.requests("e", now, "dscp", {"dscp 26": "3", "dscp 10": "4", "dscp 48": "none"})
    assert [(request["cmd"], apps_of(request)) for request in found] == [
        (dcbnl.IEEE_SET, [App(5, 4, 10)]),
        (dcbnl.IEEE_DEL, [App(5, 1, 10), App(5, 2, 48)]),
    ]
    assert dcb.requests("e", now, "dscp", {"dscp 26": "3"}) == []


def apps_of(request: dcbnl.Message) -> list[App]:
    table = dict(dict(request["attrs"])["DCB_ATTR_IEEE"]["attrs"])["IEEE_APP_TABLE"]
    return [App(*struct.unpack("=BBH", data)) for _, data in table["attrs"]]


def test_what_is_not_asked_for_stays_in_the_message() -> None:
    pfc = Pfc(8, 0b1000, 1, 42)
    (request,) = dcb.requests("e", answer(pfc=pfc), "pfc", {"pfc priorities": "none"})
    ((_, ieee),) = [pair for pair in request["attrs"] if pair[0] == "DCB_ATTR_IEEE"]
    ((name, data),) = ieee["attrs"]
    assert (name, data[:6]) == ("IEEE_PFC", struct.pack("=BBBxH", 8, 0, 1, 42))
    assert len(data) == 136


def test_rdma_settings_in_the_kernels_files(tmp_path: Path) -> None:
    tree = roce.Tree(tmp_path)
    assert roce.device("eth1", tree) is None
    ndev = tmp_path / "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"
    ndev.parent.mkdir(parents=True)
    ndev.write_text("eth1\n")
    assert roce.device("eth1", tree) == "mlx5_0"
    assert roce.read("eth1", "roce", tree) == {}  # without rdma_cm

    card = tmp_path / "devices/0000:03:00.0"
    card.mkdir(parents=True)
    net = tmp_path / "class/net/eth1"
    (net / "ecn/roce_np/enable").mkdir(parents=True)
    (net / "device").symlink_to(card)
    (net / "ecn/roce_np/enable/3").write_text("0\n")
    (net / "ecn/roce_np/cnp_dscp").write_text("48\n")
    parameters = tmp_path / "kernel/debug/mlx5/0000:03:00.0/cc_params"
    parameters.mkdir(parents=True)
    (parameters / "rp_ai_rate").write_text("5\n")
    (parameters / "np_cnp_dscp").write_text("46\n")
    assert roce.read("eth1", "ecn", tree) == {"ecn np 3": "0"}
    assert roce.read("eth1", "dcqcn", tree) == {"dcqcn np_cnp_dscp": "46", "dcqcn rp_ai_rate": "5"}
    roce.write("eth1", "dcqcn", {"dcqcn np_cnp_dscp": "40"}, tree)
    roce.write("eth1", "ecn", {"ecn np 3": "1"}, tree)
    assert (parameters / "np_cnp_dscp").read_text() == "40"
    assert (net / "ecn/roce_np/enable/3").read_text() == "1"
    assert (net / "ecn/roce_np/cnp_dscp").read_text() == "48\n"
