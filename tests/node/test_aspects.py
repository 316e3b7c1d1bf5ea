# SPDX-License-Identifier: Apache-2.0
"""Each aspect of a node against the kernel: a difference is found, applied, and no longer found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

import pytest

from hipsnet.errors import ConflictError, InputError, ProvisionError
from hipsnet.node import namespace, sysctls
from hipsnet.node.applying import apply, settle
from hipsnet.node.changes import changes, refuse_conflicts
from hipsnet.node.context import Context, opened
from hipsnet.node.desired import GRO, TX_CHECKSUM, LinkConfig, NeighbourConfig, NodeConfig, RouteConfig
from hipsnet.node.observe import read_actual

NAME = f"t{os.getpid():x}-node"
PORT = LinkConfig("p0", "cable", mtu=4000, shaped=True, addresses=(IPv4Interface("10.0.0.1/29"),))
LOOPBACK = LinkConfig("lo", "loopback", addresses=(IPv4Interface("10.255.0.1/32"),))
BARE = NodeConfig("t", "node", (LOOPBACK, PORT))


@pytest.fixture
def context() -> Iterator[Context]:
    """A namespace with both ends of two cables; the thread is inside."""
    namespace.create(NAME, "a test's")
    try:
        with opened("node", NAME) as found:
            for port in (0, 1):
                near: dict[str, Any] = {"ifname": f"p{port}", "address": f"02:48:00:00:00:0{port}"}
                found.netlink.link("add", kind="veth", peer={"ifname": f"far{port}"}, **near)
                found.netlink.link("set", index=found.index(f"far{port}"), state="up")
            yield found
    finally:
        namespace.delete(NAME)


def steps(context: Context, config: NodeConfig) -> list[tuple[str, str, str]]:
    """Settle a node; return the changes as (aspect, action, subject)."""
    found = changes(config, read_actual(context, config))
    settle(context, config)
    assert changes(config, read_actual(context, config)) == []
    return [(change.aspect, change.action, change.subject) for change in found]


def shown(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_bare_node_is_settled_once(context: Context) -> None:
    assert steps(context, BARE) == [
        ("link", "change", "p0 mtu"),
        ("link", "change", "p0 segments_bytes"),
        ("address", "add", "10.255.0.1/32 on lo"),
        ("address", "add", "10.0.0.1/29 on p0"),
        ("state", "change", "p0"),
    ]
    assert steps(context, BARE) == []


@pytest.mark.parametrize("rate_bps", [8_000, 999_999, 10**8, 5 * 10**8, 10**10, 10**11, 4 * 10**11])
def test_a_rate_is_set_changed_and_freed_in_place(context: Context, rate_bps: int) -> None:
    def with_rate(rate: int | None) -> NodeConfig:
        return replace(BARE, links=(LOOPBACK, replace(PORT, rate_bps=rate)))

    def of_rate(config: NodeConfig) -> list[tuple[str, str, str]]:
        return [step for step in steps(context, config) if step[0] == "rate"]

    steps(context, BARE)
    assert of_rate(with_rate(123_456_000)) == [("rate", "add", "p0")]
    assert "htb 48:" in shown("tc", "qdisc", "show", "dev", "p0")
    subprocess.run(["ping", "-c1", "-W0.1", "-q", "10.0.0.2"], capture_output=True, check=False)
    assert of_rate(with_rate(rate_bps)) == [("rate", "change", "p0")]
    actual = read_actual(context, BARE).links["p0"]
    assert actual.rate_bps is not None and actual.rate_bps // 8 == rate_bps // 8
    assert "Sent 0 bytes" not in shown("tc", "-s", "class", "show", "dev", "p0")  # still the same class
    assert of_rate(with_rate(None)) == [("rate", "remove", "p0")]
    assert "noqueue" in shown("tc", "qdisc", "show", "dev", "p0")


def test_a_rate_that_was_half_set_is_set(context: Context) -> None:
    steps(context, BARE)
    shown("tc", "qdisc", "replace", "dev", "p0", "root", "handle", "48:", "htb", "default", "1")
    half = replace(BARE, links=(LOOPBACK, replace(PORT, rate_bps=10**8)))
    assert ("rate", "add", "p0") in steps(context, half)
    assert "rate 100Mbit" in shown("tc", "class", "show", "dev", "p0")


def test_the_queue_in_front_of_a_cable_is_as_long_as_50_ms(context: Context) -> None:
    config = replace(BARE, links=(LOOPBACK, replace(PORT, rate_bps=10**8)))

    def queue() -> list[str]:
        lines = shown("tc", "qdisc", "show", "dev", "p0").splitlines()
        return [line.strip() for line in lines if "48:1" in line]

    steps(context, config)
    assert queue() == ["qdisc bfifo 49: parent 48:1 limit 625000b"]
    shown("tc", "qdisc", "change", "dev", "p0", "handle", "49:", "bfifo", "limit", "9999999")
    (found,) = changes(config, read_actual(context, config))
    assert str(found) == "rate p0: queue of 9999999 bytes -> queue of 625000 bytes"
    assert steps(context, config) == [("rate", "change", "p0")]
    shown("tc", "qdisc", "del", "dev", "p0", "parent", "48:1")
    (found,) = changes(config, read_actual(context, config))
    assert str(found) == "rate p0: queue of frames -> queue of 625000 bytes"
    assert steps(context, config) == [("rate", "change", "p0")]
    assert queue() == ["qdisc bfifo 49: parent 48:1 limit 625000b"]


def test_no_frame_of_segments_holds_a_cable_for_more_than_8_ms(context: Context) -> None:
    def shown_after(rate_bps: int | None) -> tuple[int | None, int | None]:
        settle(context, replace(BARE, links=(LOOPBACK, replace(PORT, rate_bps=rate_bps))))
        (port,) = context.netlink.get_links(context.index("p0"))
        return port.get("IFLA_GSO_IPV4_MAX_SIZE"), port.get("IFLA_GRO_IPV4_MAX_SIZE")

    if shown_after(None) == (None, None):
        pytest.skip("IPv4 BIG TCP: Linux 6.3")
    assert shown_after(None) == (524_280, 524_280)
    assert shown_after(100_000_000) == (100_000, 100_000)
    assert shown_after(20_000_000) == (20_000, 20_000)
    assert shown_after(1_000_000) == (8_512, 8_512), "two segments of MTU 4000"


def test_addresses_move_and_those_of_others_stay(context: Context) -> None:
    steps(context, BARE)
    subprocess.run(["ip", "addr", "add", "192.0.2.1/24", "dev", "p0"], check=True)
    moved = replace(PORT, addresses=(IPv4Interface("10.0.0.9/29"), IPv4Interface("192.0.2.1/24")))
    assert steps(context, replace(BARE, links=(LOOPBACK, moved))) == [
        ("address", "remove", "10.0.0.1/29 on p0"),
        ("address", "add", "10.0.0.9/29 on p0"),
    ]
    steps(context, BARE)
    assert "192.0.2.1/24" in shown("ip", "addr", "show", "dev", "p0")


def test_routes_single_and_shared_change_into_each_other(context: Context) -> None:
    other = LinkConfig("p1", "cable", addresses=(IPv4Interface("10.0.0.17/29"),))
    first, second = ("p0", IPv4Address("10.0.0.2")), ("p1", IPv4Address("10.0.0.18"))
    prefix = IPv4Network("10.9.0.0/16")
    wide = replace(BARE, links=(LOOPBACK, PORT, other))
    steps(context, wide)
    for hops in ((first,), (first, second), (second, first), (second,), ()):
        routes = (RouteConfig(prefix, hops),) if hops else ()
        steps(context, replace(wide, routes=routes))
        found = shown("ip", "route", "show", str(prefix))
        assert [f"via {via} dev {link}" in found for link, via in (first, second)] == [
            first in hops,
            second in hops,
        ]


def test_a_route_on_the_link_has_a_first_window_and_stays_gone(context: Context) -> None:
    prefix, via = IPv4Network("10.0.0.0/29"), IPv4Address("10.0.0.2")
    near, far = (
        RouteConfig(prefix, (("p0", None),), 99),
        RouteConfig(IPv4Network("10.9.0.0/16"), (("p0", via),), 33),
    )
    steps(context, replace(BARE, routes=(near, far)))
    assert shown("ip", "route", "show", str(prefix)).split() == (
        ["10.0.0.0/29", "dev", "p0", "proto", "72", "scope", "link", "initcwnd", "99"]
    )
    assert "initcwnd 33" in shown("ip", "route", "show", "10.9.0.0/16")
    assert steps(context, replace(BARE, routes=(replace(near, window=11),))) == [
        ("route", "remove", "10.9.0.0/16"),
        ("route", "change", "10.0.0.0/29"),
    ]
    steps(context, BARE)
    assert shown("ip", "route", "show", str(prefix)) == ""


def test_a_route_of_others_is_a_conflict(context: Context) -> None:
    steps(context, BARE)
    subprocess.run(["ip", "route", "add", "10.9.0.0/16", "via", "10.0.0.3"], check=True)
    route = RouteConfig(IPv4Network("10.9.0.0/16"), (("p0", IPv4Address("10.0.0.2")),))
    config = replace(BARE, routes=(route,))
    with pytest.raises(ConflictError, match=r"node: a route to 10\.9\.0\.0/16"):
        refuse_conflicts(config, read_actual(context, config))


def test_neighbours_are_permanent_and_those_of_others_stay(context: Context) -> None:
    mac, address = "02:48:00:00:00:aa", IPv4Address("10.0.0.2")
    steps(context, BARE)
    subprocess.run(["ip", "neigh", "add", "10.0.0.3", "lladdr", mac, "dev", "p0"], check=True)
    with_one = replace(BARE, neighbours=(NeighbourConfig("p0", address, mac),))
    assert steps(context, with_one) == [("neighbour", "add", "10.0.0.2 on p0")]
    with_other = replace(BARE, neighbours=(NeighbourConfig("p0", address, "02:48:00:00:00:bb"),))
    assert steps(context, with_other) == [("neighbour", "change", "10.0.0.2 on p0")]
    assert "10.0.0.2 dev p0 lladdr 02:48:00:00:00:bb PERMANENT" in shown("ip", "neigh")
    assert steps(context, BARE) == [("neighbour", "remove", "10.0.0.2 on p0")]
    assert "10.0.0.3 dev p0 lladdr" in shown("ip", "neigh")


def test_offloads_settings_names_and_bridges(context: Context) -> None:
    bridge = LinkConfig("br0", "bridge")
    member = LinkConfig(
        "p1",
        "cable",
        mac="02:48:00:00:00:77",
        mtu=1500,
        alias="a cable",
        master="br0",
        offloads=((TX_CHECKSUM, False), (GRO, True)),
    )
    config = NodeConfig("t", "node", (bridge, member), sysctls={"net/ipv4/conf/p1/arp_ignore": "1"})
    steps(context, config)
    features = shown("ethtool", "-k", "p1")
    assert "tx-checksumming: off" in features and "generic-receive-offload: on" in features
    assert "02:48:00:00:00:77" in shown("ip", "link", "show", "p1")
    assert "alias a cable" in shown("ip", "link", "show", "p1")
    details: Any = shown("ip", "-d", "link", "show", "br0")
    assert "stp_state 0" in details and "mcast_snooping 0" in details
    assert steps(context, replace(config, sysctls={"net/ipv4/conf/p1/arp_ignore": "2"})) == [
        ("sysctl", "change", "net/ipv4/conf/p1/arp_ignore")
    ]


def test_what_the_kernel_refuses_names_node_and_step(context: Context) -> None:
    unreachable = RouteConfig(IPv4Network("10.9.0.0/16"), (("p0", IPv4Address("203.0.113.1")),))
    config = replace(BARE, routes=(unreachable,))
    with pytest.raises(ProvisionError, match=r"node: add route 10\.9\.0\.0/16"):
        settle(context, config)
    with pytest.raises(ProvisionError, match="node has no interface p7"):
        context.index("p7")


def test_removing_a_missing_object_is_no_error(context: Context) -> None:
    steps(context, BARE)
    config = replace(BARE, links=(replace(LOOPBACK, addresses=()), replace(PORT, addresses=())))
    planned = changes(config, read_actual(context, config))
    subprocess.run(["ip", "addr", "flush", "dev", "p0"], check=True)
    apply(context, planned)
    assert changes(config, read_actual(context, config)) == []


@pytest.mark.parametrize(
    "key",
    [
        "kernel/core_pattern",
        "net/../kernel/core_pattern",
        "/proc/sys/net/core/x",
        "net",
        "net/",
        "net//core",
        "net/./x",
    ],
)
def test_only_sysctls_of_the_network_are_read_and_written(key: str) -> None:
    with pytest.raises(InputError, match="not below net/"):
        sysctls.read([key])
    with pytest.raises(InputError, match="not below net/"):
        sysctls.write({key: "1"})
