# SPDX-License-Identifier: Apache-2.0
"""Attaching programs to ports: idempotent, refuses foreign programs, detects drift."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute

from hipsnet.errors import ConflictError, ProvisionError
from hipsnet.node import bpf, pins, programs
from hipsnet.node.attaching import ProgramState, attach_cable, attach_forwarding, detach, read_program
from hipsnet.node.forwarding import fill_table, read_loss, read_table, set_loss
from tests.kernel.frames import ARP, ethernet
from tests.kernel.rig import MACS, TABLE, Rig, node

PORTS = [(port, f"p{port}", mac) for port, mac in enumerate(MACS)]


@pytest.fixture
def bare() -> Iterator[Rig]:
    """A node without programs."""
    with node("bare", lambda *_: None) as rig:
        yield rig


def ifindex(name: str) -> int:
    with IPRoute() as netlink:
        (found,) = netlink.link_lookup(ifname=name)
        return int(found)


def program_ids(names: tuple[str, ...] = ("p0", "p1", "p2")) -> list[int | None]:
    return [found.program_id if (found := bpf.attached(ifindex(name))) else None for name in names]


def attach_foreign(name: str) -> int:
    """Attach a foreign program: `return XDP_PASS`. Returns its id."""
    code = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    with bpf.closing(bpf.load_xdp("foreign", code)) as fd:
        bpf.attach(ifindex(name), fd)
        return bpf.program_info(fd).id


def state(rig: Rig) -> ProgramState:
    return rig.inside(read_program, rig.fabric, rig.node, "forward", PORTS)


def attach(rig: Rig, ports: list[tuple[int, str, str]] = PORTS) -> tuple[str, ...]:
    return rig.inside(attach_forwarding, rig.fabric, rig.node, ports)


def test_attaches_one_program_natively_to_every_port(bare: Rig) -> None:
    assert attach(bare) == ("p0", "p1", "p2")
    pinned = state(bare)
    assert pinned.differences == ()
    assert bare.inside(program_ids) == [pinned.program_id] * 3
    folder = pins.node_folder(bare.fabric, bare.node)
    names = {"counters", "endpoints", "pauses", "port_of", "ports", "program", "rings", "table", "transmit"}
    assert {path.name for path in folder.iterdir()} == names
    assert pins.pinned_nodes(bare.fabric) == (bare.node,)
    assert bare.fabric in pins.pinned_fabrics()


def test_attaching_again_changes_nothing(bare: Rig) -> None:
    attach(bare)
    fill_table(bare.fabric, bare.node, TABLE)
    set_loss(bare.fabric, bare.node, 1, 7)
    before = bare.inside(program_ids)
    assert attach(bare) == ()
    assert bare.inside(program_ids) == before
    assert len(read_table(bare.fabric, bare.node)) == len(TABLE)
    assert read_loss(bare.fabric, bare.node) == (0, 7, 0)


def test_a_removed_program_is_detected_and_attached_again(bare: Rig) -> None:
    attach(bare)
    fill_table(bare.fabric, bare.node, TABLE)
    bare.inside(lambda: bpf.libbpf().bpf_xdp_detach(ifindex("p1"), 0, None))
    assert state(bare).differences == ("p1: no program attached",)
    assert attach(bare) == ("p1",)
    assert state(bare).differences == ()
    assert len(read_table(bare.fabric, bare.node)) == len(TABLE)


def test_a_recreated_interface_is_detected_and_attached(bare: Rig) -> None:
    def replace() -> None:
        with IPRoute() as netlink:
            netlink.link("del", index=ifindex("p1"))
            netlink.link("add", ifname="p1", kind="veth", address=MACS[1], peer={"ifname": "q1"})
            netlink.link("set", index=ifindex("p1"), state="up")

    attach(bare)
    bare.inside(replace)
    assert state(bare).differences == (
        "p1: no program attached",
        "its table of ports lists other interfaces",
    )
    assert attach(bare) == ("p1",)
    assert state(bare).differences == ()


def test_another_mac_is_detected_and_written(bare: Rig) -> None:
    attach(bare)
    ports = [*PORTS[:2], (2, "p2", "02:48:00:aa:00:77")]
    seen = bare.inside(read_program, bare.fabric, bare.node, "forward", ports)
    assert seen.differences == ("its table of ports lists other interfaces",)
    assert attach(bare, ports) == ("p2",)
    assert bare.inside(read_program, bare.fabric, bare.node, "forward", ports).differences == ()


def test_ports_that_change_places_keep_no_trace_of_the_old(bare: Rig) -> None:
    attach(bare)
    swapped = [(0, "p1", MACS[1]), (1, "p0", MACS[0]), PORTS[2]]
    assert attach(bare, swapped) == ("p1", "p0")
    assert bare.inside(read_program, bare.fabric, bare.node, "forward", swapped).differences == ()
    for port, name in ((0, "p1"), (1, "p0"), (2, "p2")):
        number = int(name[1])
        _, _, _, counters = bare.counted(ethernet(b"", kind=ARP), port=number)
        assert counters["up_arp"].tolist() == [int(index == port) for index in range(3)]


def test_another_number_of_ports_makes_new_maps(bare: Rig) -> None:
    attach(bare, PORTS[:2])
    assert "another number of ports" in state(bare).differences[0]
    assert attach(bare) == ("p0", "p1", "p2")
    assert state(bare).differences == ()


@pytest.mark.parametrize("lost", ["table", "program", "counters"])
def test_a_lost_pin_is_detected_and_restored(bare: Rig, lost: str) -> None:
    attach(bare)
    (pins.node_folder(bare.fabric, bare.node) / lost).unlink()
    assert len(state(bare).differences) == 1
    assert attach(bare) == ("p0", "p1", "p2")
    assert state(bare).differences == ()


def test_another_program_of_ours_is_replaced(bare: Rig) -> None:
    bare.inside(attach_cable, bare.fabric, bare.node, PORTS)
    assert "of another version" in state(bare).differences[0]
    assert attach(bare) == ("p0", "p1", "p2")
    assert state(bare).differences == ()


def test_a_foreign_program_is_refused_before_anything_changes(bare: Rig) -> None:
    foreign = bare.inside(attach_foreign, "p2")
    with pytest.raises(ConflictError, match=rf"bare: p2 has the XDP program 'foreign' \(id {foreign}\)"):
        attach(bare)
    assert bare.inside(program_ids) == [None, None, foreign]
    assert pins.pinned_nodes(bare.fabric) == ()
    bare.inside(detach, bare.fabric, bare.node, ["p0", "p1", "p2"])
    assert bare.inside(program_ids) == [None, None, foreign]


def test_the_kernel_refuses_to_replace_a_program_attached_meanwhile(bare: Rig) -> None:
    def race() -> None:
        with bpf.closing(bpf.load_xdp("late", bytes.fromhex("b7000000020000009500000000000000"))) as late:
            bpf.attach(ifindex("p0"), late)

    foreign = bare.inside(attach_foreign, "p0")
    with pytest.raises(ProvisionError, match="attach an XDP program"):
        bare.inside(race)
    assert bare.inside(program_ids, ("p0",)) == [foreign]


def test_a_missing_interface_is_named_and_nothing_changes(bare: Rig) -> None:
    with pytest.raises(ProvisionError, match="bare: no interface p9 for port 1"):
        attach(bare, [PORTS[0], (1, "p9", MACS[1])])
    assert bare.inside(program_ids) == [None, None, None]


def test_detaching_leaves_nothing_and_may_be_repeated(bare: Rig) -> None:
    attach(bare)
    for _ in range(2):
        bare.inside(detach, bare.fabric, bare.node, ["p0", "p1", "p2", "gone"])
        assert bare.inside(program_ids) == [None, None, None]
        assert pins.pinned_nodes(bare.fabric) == ()
    assert bare.fabric not in pins.pinned_fabrics()


def test_the_kernel_shows_our_names(bare: Rig) -> None:
    attach(bare)
    pinned = state(bare).program_id
    assert pinned is not None
    shown = subprocess.run(
        ["bpftool", "prog", "show", "id", str(pinned)], capture_output=True, text=True, check=True
    ).stdout
    assert f"name {programs.OURS}forward" in shown
