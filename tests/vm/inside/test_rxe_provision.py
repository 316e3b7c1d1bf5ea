# SPDX-License-Identifier: Apache-2.0
"""RDMA devices in software on the ports of servers that this machine plays, all in the initial namespace."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hipsnet.errors import CapabilityError, ConflictError
from hipsnet.node import nldev, rdma
from hipsnet.transport.verbs.devices import endpoint_of
from orchestrator.machine import doctor, rdma_devices
from orchestrator.provision import removal
from tests.lab.rig import Done, Lab, hipsnet, run

CABLE = ("e0", "e1")
"""BCube(2,1): two servers on a switch of two ports, which is a cable."""


def links() -> dict[str, str]:
    """All RDMA devices and their interfaces, in the words of another program."""
    return {link["ifname"]: link.get("netdev", "") for link in json.loads(run("rdma", "-j", "link"))}


def condition() -> tuple[str, ...]:
    """What a provision could have changed, but for what the kernel numbers anew."""
    settings = run("sysctl", "-a", "-r", r"^net\.ipv4\.(conf|ip_forward)")
    found = run("ip", "-o", "-4", "addr"), run("ip", "route"), run("ip", "neigh", "show", "nud", "permanent")
    return (settings, *found, run("ip", "-d", "-o", "link", "show", "e0"))


def add_cable(near: str, far: str, mac: str) -> None:
    """A veth pair, born with its MACs: to those of chance udev gives others, at a moment of its own."""
    ends = (near, "address", f"{mac}0"), (far, "address", f"{mac}1")
    run("ip", "link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A file for both servers, and their cable; next to it an interface with a foreign RDMA device."""
    add_cable(*CABLE, "02:00:00:00:00:0")
    add_cable("other", "other1", "02:00:00:00:01:0")
    for name in (*CABLE, "other"):
        run("ip", "link", "set", name, "up")
    run("rdma", "link", "add", "theirs", "type", "rxe", "netdev", "other")
    lab = Lab("rxe", tmp_path / "rxe.yaml", {})
    nodes = {f"s{i}": {"host": "vm", "ports": [{"interface": name}]} for i, name in enumerate(CABLE)}
    lab.edit(
        version=1,
        name=lab.name,
        fabric={"kind": "bcube", "n": 2, "levels": 1},
        link={"rate": "unlimited", "mtu": 4200},
        roce={"device": "rxe"},
        nodes=nodes,
    )
    yield lab
    removal.destroy(lab.name)
    assert links() == {"theirs": "other"}
    for name in (CABLE[0], "other"):
        run("ip", "link", "del", name)


def provision(lab: Lab, node: str) -> list[str]:
    """What a provision changed, each as "+ aspect subject"."""
    done = report(hipsnet("provision", lab.file, "--node", node, "--json"))
    return [f"{change['action']} {change['aspect']} {change['subject']}" for change in done["changes"]]


def drift(lab: Lab, node: str) -> list[str]:
    return list(report(hipsnet("inspect", lab.file, "--node", node, "--json"))["nodes"][0]["drift"])


def report(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_device_on_every_port_is_added_carries_traffic_and_is_removed(lab: Lab) -> None:
    before = condition()
    planned = hipsnet("provision", lab.file, "--node", "s0", "--dry-run", "--exit-code")
    assert planned.returncode == 3
    assert "+ s0: rdma hips_rxe_s0_p0: rxe on e0" in planned.stdout
    assert (condition(), links()) == (before, {"theirs": "other"})

    assert "add rdma hips_rxe_s0_p0" in provision(lab, "s0")
    assert "add rdma hips_rxe_s1_p0" in provision(lab, "s1")
    provision(lab, "s0")  # now that s1 answers ARP
    assert [provision(lab, node) for node in ("s0", "s1")] == [[], []]
    assert links() == {"theirs": "other", "hips_rxe_s0_p0": "e0", "hips_rxe_s1_p0": "e1"}
    carry("hips_rxe_s0_p0", "hips_rxe_s1_p0", "e0")

    assert report(hipsnet("destroy", lab.file, "--json"))  # both servers, without a word about them
    assert (condition(), links()) == (before, {"theirs": "other"})


def carry(server: str, client: str, interface: str) -> None:
    """RDMA writes from one device to the other, whose bytes are on the cable."""
    counter = Path(f"/sys/class/net/{interface}/statistics/rx_bytes")
    begun = int(counter.read_text())
    write = ("ib_write_bw", "-F", "-n", "100", "-s", "65536", "-m", "4096", "-p", "18515")
    gid = {found.device: str(found.gid_index) for found in map(endpoint_of, ("10.0.0.1", "10.0.0.2"))}
    with subprocess.Popen([*write, "-d", server, "-x", gid[server]], stdout=subprocess.DEVNULL) as listening:
        run("sh", "-c", "until ss -Hltn | grep -q :18515; do sleep 0.1; done")
        run(*write, "-d", client, "-x", gid[client], "127.0.0.1")
        assert listening.wait(timeout=60) == 0
    assert int(counter.read_text()) - begun >= 100 * 65536


def test_a_removed_device_is_drift_and_added_again(lab: Lab) -> None:
    run("modprobe", "rdma_cm")
    config = Path("/sys/kernel/config")
    if not (config / "rdma_cm").is_dir():  # unless another test has mounted it
        run("mount", "-t", "configfs", "none", str(config))
    provision(lab, "s0")
    run("rdma", "link", "delete", "hips_rxe_s0_p0")
    assert drift(lab, "s0") == ["rdma hips_rxe_s0_p0: rxe on e0"]
    # Its setting for connections (rdma_cm) went with it.
    assert provision(lab, "s0") == ["add rdma hips_rxe_s0_p0", "change nic e0 roce"]
    lab.edit(roce={"device": "nic"})
    assert drift(lab, "s0") == ["rdma hips_rxe_s0_p0: rxe on e0"]
    assert provision(lab, "s0") == ["remove rdma hips_rxe_s0_p0"]
    assert links() == {"theirs": "other"}


def test_a_device_of_others_on_a_port_is_a_conflict(lab: Lab) -> None:
    run("rdma", "link", "add", "hers", "type", "rxe", "netdev", "e0")
    before = condition()
    done = hipsnet("provision", lab.file, "--node", "s0")
    assert done.returncode == ConflictError.exit_code
    assert "e0 has the rxe device hers already" in done.stderr
    assert (condition(), links()) == (before, {"theirs": "other", "hers": "e0"})
    run("rdma", "link", "delete", "hers")


def test_a_lab_s_namespaces_are_out_of_its_reach(lab: Lab) -> None:
    before = links()
    with pytest.raises(CapabilityError, match=r"works in the initial one only: let `nodes` name interfaces"):
        rdma.require_rxe_in_namespaces()
    lab.edit(nodes="lab")
    done = hipsnet("provision", lab.file, "--dry-run")
    assert done.returncode == CapabilityError.exit_code
    assert "inside network namespaces" in done.stderr
    assert (links(), run("ip", "netns").strip()) == (before, "")


def test_doctor_checks_devices_and_ports(lab: Lab) -> None:
    provision(lab, "s0")
    (found,) = [device for device in rdma_devices.devices() if device.name == "hips_rxe_s0_p0"]
    printed = run("ibv_devinfo", "-v", "-d", found.name)
    gids = {int(n): gid for n, gid in re.findall(r"GID\[\s*(\d+)\]:\s*(\S+?),? *RoCE v2", printed)}
    assert {gid.gid_index for gid in found.gids} == set(gids)
    assert "::ffff:10.0.0.1" in gids.values()
    assert f"active_mtu:\t\t{found.mtu} " in printed
    assert str(found).startswith("hips_rxe_s0_p0 on e0: MTU 4096, GIDs ")

    (mine,) = doctor.examine_ports(*lab.load(), "s0")
    assert (mine.name, mine.ok, mine.found) == ("RDMA of s0", True, "e0: hips_rxe_s0_p0")
    (other,) = doctor.examine_ports(*lab.load(), "s1")
    assert (other.ok, other.found, other.fix) == (False, "e1: none", "run `hipsnet provision`")
    run("ip", "addr", "flush", "dev", "e0", "scope", "global")
    deadline = time.monotonic() + 10  # the kernel takes the GID away a moment later
    while doctor.examine_ports(*lab.load(), "s0")[0].ok:
        assert time.monotonic() < deadline
    assert doctor.examine_ports(*lab.load(), "s0")[0].found == "e0: hips_rxe_s0_p0, no GID of its address"


def test_what_the_kernel_lists_is_what_rdma_lists(lab: Lab) -> None:
    assert {name: nldev.interface(index) for name, index in nldev.devices().items()} == links()
    with pytest.raises(OSError, match="no RDMA device hips_rxe_s0_p0"):
        nldev.remove("hips_rxe_s0_p0")
