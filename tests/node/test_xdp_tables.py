# SPDX-License-Identifier: Apache-2.0
"""The forwarding table, losses and counters of a node, read back from the kernel's maps."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

import kernel
from hipsnet.errors import InputError, ProvisionError
from hipsnet.node import bpf, pins
from hipsnet.node.attaching import attach_forwarding
from hipsnet.node.desired import TableEntry
from hipsnet.node.forwarding import (
    TableDifference,
    compare_table,
    fill_table,
    read_counters,
    read_loss,
    read_table,
    set_loss,
)
from tests.kernel.rig import node

LOCAL = TableEntry(IPv4Network("10.0.0.1/32"))
NEAR = TableEntry(IPv4Network("10.1.0.0/16"), 1, "02:48:00:bb:00:01")
NEARER = TableEntry(IPv4Network("10.1.0.0/24"), 2, "02:48:00:bb:00:02")
UNRESOLVED = TableEntry(IPv4Network("10.2.0.0/15"), 0, None)
DEFAULT = TableEntry(IPv4Network("0.0.0.0/0"), 0, "02:48:00:bb:00:03")


def test_compares_tables() -> None:
    elsewhere = TableEntry(NEAR.prefix, 2, NEAR.mac)
    assert compare_table([LOCAL, NEAR, DEFAULT], [NEARER, elsewhere, DEFAULT]) == TableDifference(
        added=(NEARER,), changed=(elsewhere,), removed=(LOCAL,)
    )
    assert not compare_table([LOCAL, NEAR], [NEAR, LOCAL])


def test_fills_reads_and_changes_only_the_difference() -> None:
    with node("tables", attach_forwarding) as rig:
        home = (rig.fabric, rig.node)
        entries = (DEFAULT, LOCAL, NEAR, NEARER, UNRESOLVED)
        assert read_table(*home) == ()
        assert fill_table(*home, reversed(entries)).added == entries
        assert read_table(*home) == entries
        assert not fill_table(*home, entries)
        moved = TableEntry(NEAR.prefix, 0, "02:48:00:bb:00:09")
        assert fill_table(*home, (LOCAL, moved)) == TableDifference(
            changed=(moved,), removed=(DEFAULT, NEARER, UNRESOLVED)
        )
        assert read_table(*home) == (LOCAL, moved)


def test_entries_lie_in_the_map_as_the_header_says() -> None:
    with node("bytes", attach_forwarding) as rig:
        fill_table(rig.fabric, rig.node, (NEAR,))
        fd = bpf.open_pin(pins.node_folder(rig.fabric, rig.node) / "table")
        assert fd is not None
        with bpf.closing(fd):
            (key,) = bpf.keys(fd, 8)
            assert key == bytes([16, 0, 0, 0, 10, 1, 0, 0])
            action = kernel.constant("ACTION_FORWARD")
            mac = bytes.fromhex("024800bb0001")
            assert bpf.lookup(fd, key, 16) == bytes([action, 0, 0, 0, 1, 0, 0, 0]) + mac + bytes(2)


def test_losses_are_checked_and_kept_by_port() -> None:
    with node("losses", attach_forwarding) as rig:
        home = (rig.fabric, rig.node)
        set_loss(*home, 2, 1_000_000)
        assert read_loss(*home) == (0, 0, 1_000_000)
        for ppm in (-1, 1_000_001):
            with pytest.raises(InputError, match="allowed: 0 to 1000000"):
                set_loss(*home, 0, ppm)
        for port in (-1, 3):
            with pytest.raises(ProvisionError, match=f"has no port {port}; it has the ports 0 to 2"):
                set_loss(*home, port, 0)
        assert read_loss(*home) == (0, 0, 1_000_000)


def test_counters_have_a_column_for_every_reason() -> None:
    with node("columns", attach_forwarding) as rig:
        counters = read_counters(rig.fabric, rig.node)
    assert counters.shape == (3,)
    plain = ("rx_frames", "rx_bytes", "tx_frames", "tx_bytes", "pfc")
    assert counters.dtype.names == (*plain, *kernel.reasons())
    assert counters["pfc"].shape == (3, 8)


def test_a_node_without_program_is_named() -> None:
    for read in (read_table, read_counters, read_loss):
        with pytest.raises(ProvisionError, match=r"s01: /sys/fs/bpf/hipsnet/nowhere/s01/\w+ does not exist"):
            read("nowhere", "s01")
