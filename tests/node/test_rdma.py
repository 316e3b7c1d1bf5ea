# SPDX-License-Identifier: Apache-2.0
"""RDMA devices in software: the difference, whose they are, and kernels without them.

What the kernel makes of it is tested in tests/vm/inside/test_rxe_provision.py.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hipsnet.errors import CapabilityError, ConflictError
from hipsnet.node import nldev, rdma
from hipsnet.node.actual import Actual
from hipsnet.node.derive import server_config
from hipsnet.node.desired import LinkConfig, NodeConfig
from hipsnet.topology import build, find_server, parse

NODE = NodeConfig("t", "s0", (LinkConfig("e0", "card", 0, rxe="hips_t_s0_p0"), LinkConfig("e1", "card", 1)))
HOSTS = """
version: 1
name: t
fabric: {kind: bcube, n: 2, levels: 2}
roce: {device: rxe}
nodes:
  s00: {host: one, ports: [{interface: a0}, {interface: a1}]}
  s01: {host: one, ports: [{interface: b0}, {interface: b1}]}
  s10: {host: two, ports: [{interface: a0}, {interface: a1}]}
  s11: {ports: [{interface: a0}, {interface: a1}]}
"""


@pytest.mark.parametrize(
    ("there", "steps"),
    [
        ({}, ["add hips_t_s0_p0"]),
        ({"hips_t_s0_p0": "e0"}, []),
        ({"hips_t_s0_p0": "e1"}, ["remove hips_t_s0_p0", "add hips_t_s0_p0"]),
        ({"hips_t_s0_p0": ""}, ["remove hips_t_s0_p0", "add hips_t_s0_p0"]),
        ({"hips_t_s0_p0": "e0", "hips_t_s0_p1": "e1"}, ["remove hips_t_s0_p1"]),
    ],
)
def test_wrong_devices_are_removed_before_missing_ones_are_added(
    there: dict[str, str], steps: list[str]
) -> None:
    found = rdma.differences(NODE, Actual(rxe=there))
    assert [f"{change.action} {change.subject}" for change in found] == steps


def test_only_a_port_that_needs_one_may_not_have_another_s() -> None:
    rdma.refuse_foreign(NODE, Actual(foreign_rxe={"hers": "e1", "his": ""}))
    with pytest.raises(ConflictError, match=r"s0: e0 has the rxe device hers already.*rdma link delete hers"):
        rdma.refuse_foreign(NODE, Actual(foreign_rxe={"hers": "e0"}))


def test_ports_of_servers_get_devices_and_those_together_share_the_host() -> None:
    topology = parse(HOSTS, "t.yaml")
    fabric = build(topology)
    configs = {name: server_config(topology, fabric, find_server(fabric, name)) for name in topology.nodes}
    assert [[link.rxe for link in config.links] for config in configs.values()] == [
        [None, f"hips_t_{name}_p0", f"hips_t_{name}_p1"] for name in ("s00", "s01", "s10", "s11")
    ]
    together, alone, nameless = configs["s01"], configs["s10"], configs["s11"]
    assert [str(address) for address in together.links[0].addresses] == ["10.255.0.0/32", "10.255.0.1/32"]
    assert [len(config.links[0].addresses) for config in (alone, nameless)] == [1, 1]
    assert [bool(config.routes) for config in (together, alone, nameless)] == [False, True, True]
    accepting = "net/ipv4/conf/{}/accept_local"
    assert together.sysctls[accepting.format("b0")] == together.sysctls[accepting.format("b1")] == "1"
    assert accepting.format("a0") not in alone.sysctls


def test_without_rxe_in_the_kernel_the_error_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdma, "_MODULE", tmp_path / "loaded")
    monkeypatch.setattr(rdma, "_MODULES", tmp_path)
    for require in (rdma.require_rxe, rdma.require_rxe_in_namespaces):
        with pytest.raises(
            CapabilityError, match=r"requires rdma_rxe, which .*modprobe rdma_rxe.*linux-image-amd64"
        ):
            require()
    listed = tmp_path / platform.release() / "modules.dep"
    listed.parent.mkdir()
    listed.write_text("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/net/ipv4/udp_tunnel.ko\n")
    rdma.require_rxe()
    listed.write_text("kernel/drivers/net/veth.ko:\n")
    (tmp_path / "loaded").mkdir()
    rdma.require_rxe()


def test_a_kernel_without_rdma_has_no_devices() -> None:
    if not rdma.SYSFS.exists():
        assert nldev.devices() == {}
    assert not [name for name in nldev.devices() if name.startswith("hips_")]
