# SPDX-License-Identifier: Apache-2.0
"""GIDs in a sysfs tree: found by netdev and address, at any index."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from hipsnet.errors import TransportError
from hipsnet.transport.verbs.devices import Endpoint, endpoint_of, endpoints, gid_of, port_state, why_lost

LINK_LOCAL = "fe80:0000:0000:0000:4848:c0ff:fea8:0001"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def mapped(address: str) -> str:
    return gid_of(address).exploded


def plug(
    sysfs: Path, device: str, gids: list[tuple[str, str, str]], port: int = 1, state: str = "4: ACTIVE"
) -> Path:
    """A device as the kernel shows it: (GID, type, netdev) by index; an unused one has no type to read."""
    folder = sysfs / device / "ports" / str(port)
    for part in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (folder / part).mkdir(parents=True)
    (folder / "state").write_text(f"{state}\n")
    for index, (gid, kind, netdev) in enumerate(gids):
        (folder / "gids" / str(index)).write_text(f"{gid}\n")
        if kind:
            (folder / "gid_attrs/types" / str(index)).write_text(f"{kind}\n")
            (folder / "gid_attrs/ndevs" / str(index)).write_text(f"{netdev}\n")
    return folder


@pytest.fixture
def own_address() -> tuple[str, str]:
    """An address of this machine and its netdev: the look-up queries the kernel."""
    with IPRoute() as netlink:
        for message in netlink.get_addr(family=socket.AF_INET):
            (link,) = netlink.get_links(message["index"])
            return message.get_attr("IFA_LOCAL"), link.get_attr("IFLA_IFNAME")
    raise AssertionError("every machine has 127.0.0.1")


def test_the_roce_v2_gid_of_the_address_and_netdev(tmp_path: Path, own_address: tuple[str, str]) -> None:
    address, netdev = own_address
    plug(tmp_path, "mlx5_0", [(mapped("10.9.9.9"), "RoCE v2", "other0")])
    plug(
        tmp_path,
        "mlx5_1",
        [
            (LINK_LOCAL, "IB/RoCE v1", netdev),
            (LINK_LOCAL, "RoCE v2", netdev),
            (mapped(address), "IB/RoCE v1", netdev),
            (EMPTY, "", ""),
            (mapped(address), "RoCE v2", "vlan.7"),  # the same address on an upper device
            (mapped(address), "RoCE v2", netdev),
        ],
        port=2,
    )
    assert endpoint_of(address, tmp_path) == Endpoint("mlx5_1", 2, 5, gid_of(address), netdev)


def test_a_missing_gid_is_reported_with_the_gids_that_exist(
    tmp_path: Path, own_address: tuple[str, str]
) -> None:
    address, netdev = own_address
    plug(tmp_path, "rxe7", [(mapped("10.9.9.9"), "RoCE v2", "other0")])
    with pytest.raises(TransportError) as caught:
        endpoint_of(address, tmp_path)
    text = str(caught.value)
    assert f"RoCEv2 GID for {address} on {netdev}" in text
    assert "rxe7 port 1 (other0) 10.9.9.9" in text
    assert f"rdma link add rxe_{netdev} type rxe netdev {netdev}" in text


def test_no_device_at_all(tmp_path: Path, own_address: tuple[str, str]) -> None:
    with pytest.raises(TransportError, match="found: none"):
        endpoint_of(own_address[0], tmp_path / "missing")


def test_an_address_of_another_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"no address 192\.0\.2\.1; is the fabric provisioned"):
        endpoint_of("192.0.2.1", tmp_path)


def test_indexes_are_numbers_not_texts(tmp_path: Path) -> None:
    plug(tmp_path, "d", [(mapped(f"10.0.0.{i}"), "RoCE v2", "n0") for i in range(12)])
    assert [endpoint.gid_index for endpoint in endpoints(tmp_path)] == list(range(12))


def test_a_gid_of_another_namespace_is_no_endpoint(tmp_path: Path) -> None:
    folder = plug(tmp_path, "d", [(mapped("10.0.0.1"), "RoCE v2", "n0")])
    (folder / "gid_attrs/ndevs/0").unlink()  # the kernel answers EINVAL
    assert list(endpoints(tmp_path)) == []


def test_what_ends_an_endpoint(tmp_path: Path) -> None:
    folder = plug(tmp_path, "rxe0", [(mapped("10.0.0.1"), "RoCE v2", "n0")])
    endpoint = Endpoint("rxe0", 1, 0, gid_of("10.0.0.1"), "n0")
    assert (why_lost(endpoint, tmp_path), port_state(endpoint, tmp_path)) == ("", "ACTIVE")
    (folder / "state").write_text("1: DOWN\n")
    assert (why_lost(endpoint, tmp_path), port_state(endpoint, tmp_path)) == ("", "DOWN")
    (folder / "gids/0").write_text(mapped("10.0.0.2"))
    assert "was ::ffff:a00:1 and is ::ffff:a00:2: n0 has lost its address" in why_lost(endpoint, tmp_path)
    (folder / "gids/0").write_text(EMPTY)
    assert "and is gone" in why_lost(endpoint, tmp_path)
    gone = Endpoint("rxe1", 1, 0, IPv6Address("::1"), "n0")
    assert "rxe1 is gone" in why_lost(gone, tmp_path)
    assert port_state(gone, tmp_path) == "GONE"
