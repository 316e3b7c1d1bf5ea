# SPDX-License-Identifier: Apache-2.0
"""Headroom compared with published formulas, which are written out here from their sources."""

from __future__ import annotations

from math import ceil

import pytest

from hipsnet.errors import TopologyError
from hipsnet.topology import headroom, parse
from hipsnet.topology.headroom import Link, headroom_bytes, terms

GBPS = 10**9
HEAD = "version: 1\nname: demo\nfabric: {kind: bcube, n: 2, levels: 1}\n"
HOSTS = "nodes: {s0: {ports: [{interface: a}]}, s1: {ports: [{interface: a}]}}\n"


def part(link: Link, name: str) -> int:
    return next(term.bytes for term in terms(link) if term.name == name)


def link_of(text: str) -> Link:
    topology = parse(text, "t.yaml")
    assert topology.pfc
    return headroom.link_of(topology, topology.pfc)


def mlx5(rate_gbps: int, cable_m: float, mtu: int) -> float:
    """calculate_xoff of the kernel's drivers/net/ethernet/mellanox/mlx5/core/en/port_buffer.c: a NIC's headroom."""
    return (301 + 2.16 * cable_m) * rate_gbps + 2.72 * mtu


def sonic(rate_gbps: int, cable_m: float, quanta: int, mtu: int = 1500, port_mtu: int = 1500) -> float:
    """xoff_value of SONiC's cfgmgr/buffer_headroom_mellanox.lua, Spectrum-1: cells of 96 B, MAC and PHY 0.8 KiB."""
    cable = 2 * cable_m * rate_gbps * GBPS / 198_000_000 / 8
    return mtu + (port_mtu + cable + 0.8 * 1024 + quanta * 64) * (2 * 96) / (1 + 96)


@pytest.mark.parametrize("rate_gbps", [40, 50, 100])
@pytest.mark.parametrize("cable_m", [7, 100, 300])
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_nic_with_mlx5s_cells_has_what_mlx5_reckons_with(rate_gbps: int, cable_m: float, mtu: int) -> None:
    assert headroom_bytes(Link(rate_gbps * GBPS, mtu, cable_m, cell_bytes=128)) >= mlx5(
        rate_gbps, cable_m, mtu
    )


def test_at_100_gbit_and_100_m_it_is_what_mlx5_reckons_with() -> None:
    assert headroom_bytes(Link(100 * GBPS, 1500, 100)) == pytest.approx(mlx5(100, 100, 1500), rel=0.02)


@pytest.mark.parametrize(("rate_gbps", "quanta"), [(10, 67), (25, 80), (40, 118), (100, 394), (400, 905)])
@pytest.mark.parametrize("cable_m", [5, 40, 300])
def test_a_switch_with_cells_has_at_least_what_sonic_gives_it(
    rate_gbps: int, quanta: int, cable_m: float
) -> None:
    link = Link(rate_gbps * GBPS, 1500, cable_m, cell_bytes=96)
    published = sonic(rate_gbps, cable_m, quanta)
    assert published <= headroom_bytes(link)
    # The difference is the standard's bound for MAC, PHY and FEC instead of one chip's own figure.
    mac_and_phy = (part(link, "interface") - 0.8 * 1024) * 2 * 96 / 97
    assert headroom_bytes(link) - mac_and_phy == pytest.approx(published, rel=0.05)


def test_100_gbit_and_100_m_of_spectrum() -> None:
    """mlxsw: "headroom size for 100Gbps port and 100m cable is 101.6KB" (kernel commit edf777f55aee)."""
    found = headroom_bytes(Link(100 * GBPS, 1500, 100, cell_bytes=96))
    assert 101_600 <= found <= 1.10 * 101_600


def test_ten_gbit_as_in_the_pfc_white_paper() -> None:
    """Cisco's "Priority Flow Control: Build Reliable Layer 2 Infrastructure": its parts at 10 Gbit/s, 100 m."""
    link = Link(10 * GBPS, 9216, 100)
    assert part(link, "cable") == pytest.approx(2 * 641, rel=0.02)  # 641 B each way
    assert part(link, "response") >= 60 * 512 // 8  # 3840 B: 60 quanta
    assert part(link, "interface") >= 1280  # its transceivers, at most
    assert part(link, "own frame") >= 9216
    assert part(link, "PFC frame") == (512 + 160) // 8


@pytest.mark.parametrize(
    ("rate_gbps", "interface_bits", "response_bits"),
    [(10, 8192, 30720), (25, 6144, 40960), (40, 24576, 60416), (100, 122_880, 201_728)],
)
def test_no_bound_of_the_standard_is_undercut(
    rate_gbps: int, interface_bits: int, response_bits: int
) -> None:
    """The bit times that chapter 7 of "Congestion in Storage Networks" (Cisco Press) takes out of IEEE 802.3."""
    link = Link(rate_gbps * GBPS, 9216, 1)
    assert 8 * part(link, "interface") >= interface_bits
    assert 8 * part(link, "response") >= response_bits
    assert 8 * part(link, "cable") >= 2 * 5 * rate_gbps  # 5 ns a metre


def test_each_part_grows_with_what_it_is_of() -> None:
    link = Link(10 * GBPS, 1500, 10)
    longer = Link(10 * GBPS, 1500, 110)
    assert part(longer, "cable") - part(link, "cable") == pytest.approx(2 * 100 * 5.06 * 10 / 8, abs=1)
    assert headroom_bytes(Link(10 * GBPS, 9000, 10)) - headroom_bytes(link) == 2 * 7500
    delayed = Link(10 * GBPS, 1500, 0, delay_us=100)
    assert part(delayed, "cable") == 2 * 125_000
    slow = Link(10 * GBPS, 1500, 10, response_us=1000)
    assert part(slow, "response") == 1_250_000
    copper = Link(10 * GBPS, 1500, 10, phy="base-t")
    assert part(copper, "interface") - part(link, "interface") == 25_600 // 8
    assert part(copper, "response") == 74 * 64  # 10GBASE-T, 802.3 31B.3.7


def test_rates_between_and_beyond_the_table() -> None:
    assert part(Link(5 * GBPS, 1500, 1), "response") == 67 * 64
    assert part(Link(10**8, 1500, 1), "response") == 2 * 64
    assert part(Link(1600 * GBPS, 1500, 1), "response") == 2 * 905 * 64


def test_large_and_small_cells() -> None:
    assert headroom.occupancy(144) == 144 / 64
    assert float(headroom.occupancy(96)) == pytest.approx(192 / 97)
    link = Link(100 * GBPS, 1500, 5)
    whole = headroom_bytes(link) - link.frame_bytes
    assert headroom_bytes(Link(100 * GBPS, 1500, 5, cell_bytes=144)) == link.frame_bytes + ceil(
        whole * 144 / 64
    )


def test_thresholds_are_derived_where_the_file_is_silent() -> None:
    text = HEAD + HOSTS + "link: {rate: 100Gbit/s, mtu: 1500}\npfc: {priorities: [3, 4], alpha: 0.5}\n"
    found = headroom.thresholds(parse(text, "t.yaml"))
    headroom_size = headroom_bytes(Link(100 * GBPS, 1500, 3))
    lossless = headroom.Thresholds(True, 2 * 1514, headroom_size, 0, 0, 0.5, 2 * 1514)
    lossy = headroom.Thresholds(False, 2 * 1514, 0, 0, 0, 0.5, 0)
    assert found == (lossy,) * 3 + (lossless,) * 2 + (lossy,) * 3


def test_thresholds_of_the_file_hold() -> None:
    text = HEAD + HOSTS + "link: {rate: 100Gbit/s, mtu: 1500}\npfc: {xoff: 64KiB, headroom: 96KiB}\n"
    found = headroom.thresholds(parse(text, "t.yaml"))[3]
    assert (found.xoff, found.xon, found.headroom) == (65536, 65536 - 2 * 1514, 98304)
    text = text.replace("64KiB", "4KiB, xon: 1KiB")
    found = headroom.thresholds(parse(text, "t.yaml"))[3]
    assert (found.xoff, found.xon) == (4096, 1024)
    found = headroom.thresholds(parse(text.replace(", xon: 1KiB", ""), "t.yaml"))[3]
    assert (found.xoff, found.xon) == (4096, 2048)


def test_without_pfc_everything_is_lossy() -> None:
    assert not any(found.lossless for found in headroom.thresholds(parse(HEAD, "t.yaml")))


def test_the_labs_peers_answer_as_programs_do() -> None:
    text = HEAD + "link: {rate: 1Gbit/s, mtu: 1500, delay: 1ms}\npfc: {}\n"
    link = link_of(text)
    assert part(link, "response") == 625_000
    assert part(link, "burst") == 250_000
    assert part(link, "cable") == 250_000 + 4  # 2 x 15.18 ns of fibre
    assert part(link_of(text.replace("{}", "{response: 100us}")), "response") == 12_500


def test_the_smallest_sufficient_headroom_is_accepted_and_one_byte_less_refused() -> None:
    link = Link(100 * GBPS, 1500, 3)
    text = (
        HEAD + HOSTS + "link: {rate: 100Gbit/s, mtu: 1500}\npfc: {xoff: 20KiB, headroom: %dB, buffer: %dB}\n"
    )
    least = headroom_bytes(link)
    parse(text % (least, least + 20480), "t.yaml")
    with pytest.raises(TopologyError, match=r"pfc\.headroom\n.*\n.*" + str(least)):
        parse(text % (least - 1, 10**6), "t.yaml")
    with pytest.raises(TopologyError, match=r"pfc\.buffer\n.*\n.*" + str(least + 20480)):
        parse(text % (least, least + 20479), "t.yaml")
