# SPDX-License-Identifier: Apache-2.0
"""The netlink socket of a node: long replies, errors, and replies left over from an interrupted request."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from ipaddress import IPv4Network

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.node import namespace
from hipsnet.node.netlink import Netlink, get_attrs

NAME = f"t{os.getpid():x}-netlink"
LOOPBACK, TABLE, ROUTES = 1, 1000, 700
PREFIXES = [IPv4Network((int(IPv4Network("10.9.0.0/16").network_address) + i, 32)) for i in range(ROUTES)]


@pytest.fixture
def netlink() -> Iterator[Netlink]:
    """A socket in a new namespace with the loopback up."""
    namespace.create(NAME, "a test's")
    try:
        with namespace.inside(NAME), Netlink() as found:
            yield found
    finally:
        namespace.delete(NAME)


def test_a_reply_in_many_parts_is_joined(netlink: Netlink) -> None:
    for prefix in PREFIXES:
        netlink.route("add", dst=prefix, proto=72, table=TABLE, oif=LOOPBACK, scope=253)
    found = netlink.get_routes(socket.AF_INET, TABLE)
    assert sorted(get_attrs(route, "RTA_DST")[0] for route in found) == sorted(
        str(p.network_address) for p in PREFIXES
    )
    assert {get_attrs(route, "RTA_OIF", "RTA_GATEWAY") for route in found} == {(LOOPBACK, None)}
    netlink.flush_routes(socket.AF_INET, TABLE)
    assert netlink.get_routes(socket.AF_INET, TABLE) == []


def test_what_the_kernel_refuses_is_an_error_with_its_number(netlink: Netlink) -> None:
    with pytest.raises(NetlinkError) as raised:
        netlink.addr("add", index=4711, address="10.0.0.1", prefixlen=24)
    assert raised.value.code == errno.ENODEV
    assert netlink.get_link("p0") is None
    with pytest.raises(NetlinkError):
        netlink.get_links(4711)
    assert [get_attrs(link, "IFLA_IFNAME") for link in netlink.get_links()] == [("lo",)]


def test_the_answer_to_an_interrupted_request_is_not_the_next_ones(
    netlink: Netlink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> Iterator[object]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(netlink, "_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            netlink.get_addr(socket.AF_INET)
    loopback = netlink.get_link("lo")
    assert loopback is not None and get_attrs(loopback, "IFLA_IFALIAS") == ("a test's",)
