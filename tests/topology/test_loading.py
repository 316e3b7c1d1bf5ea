# SPDX-License-Identifier: Apache-2.0
"""A valid file is loaded; an invalid one is reported with line, key, value and allowed values."""

from __future__ import annotations

import contextlib
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsnet.errors import TopologyError
from hipsnet.topology import parse, templates
from hipsnet.topology.kinds import BCube, Torus

HEAD = "version: 1\nname: demo\nfabric: {kind: bcube, n: 3, levels: 2}\n"
TWO = "version: 1\nname: demo\nfabric: {kind: bcube, n: 2, levels: 1}\n"


def head(rest: str) -> str:
    """A right beginning of three lines and the rest."""
    return HEAD + textwrap.dedent(rest).lstrip("\n")


FULL = head("""
    link: {rate: 2.5Gbit/s, mtu: 4200, delay: 1.5ms}
    addresses: {ports: 172.16.0.0/12, identity: 192.168.0.0/24}
    roce: {device: rxe, priority: 4, dscp: 34, ecn: {enabled: false}}
    pfc:
      priorities: [3, 4]
      routes: fixed
      cable_m: 5
      xoff: 100KiB
      xon: 80KiB
      headroom: 3800KiB
      alpha: 0.5
      watchdog: {detect_ms: 400, restore_ms: 800, action: alert}
      phy: twinax
      response: 1ms
      cell: 96B
      buffer: 8MiB
      delay: 100
      required: true
    nic:
      pause: "off"
      channels: 8
      rx_ring: 1024
      adaptive: false
      dscp: [{dscp: 48, priority: 6}]
      ets: {classes: [0, 0, 0, 1, 0, 0, 0, 0]}
      required: true
    nodes: lab
    lab: {switch: bridge}
    """)

# what is wrong: (text, line, key, found, allowed, nearest known key)
BAD = {
    "empty": ("", 1, "the file", "an empty file", "version, name, fabric", None),
    "only a comment": ("# nothing\n", 1, "the file", "an empty file", "one YAML mapping", None),
    "an empty document": ("---\n", 1, "the file", "an empty file", "one YAML mapping", None),
    "a list": ("- version: 1\n", 1, "the file", "a list of 1", "one YAML mapping", None),
    "a word": ("hello\n", 1, "the file", "hello", "one YAML mapping", None),
    "two documents": (HEAD + "---\n" + HEAD, 5, "the file", "2 YAML documents", "one YAML mapping", None),
    "a tab": (head("link:\n\tmtu: 9000\n"), 5, "the file", "a tab", "indented by spaces", None),
    "an open bracket": (head("link: {mtu: 9000\n"), 5, "the file", "the end of the file", "YAML", None),
    "a control character": (HEAD + "link: \x01\n", 4, "the file", "control characters", "YAML", None),
    "a key twice": (HEAD + "name: other\n", 4, "name", "twice, first in line 2", "once", None),
    "a deep key twice": (head("link:\n  mtu: 9000\n  mtu: 1500\n"), 6, "link.mtu", "twice", "once", None),
    "a number as a key": (HEAD + "7: x\n", 4, "the file", "7 as a key", "a word", None),
    "an alias": (head("link: &l {mtu: 9000}\nlab: *l\n"), 5, "lab", "an alias", "YAML", None),
    "a tag": (HEAD + "lab: !!set {switch}\n", 4, "lab", "the tag", "a plain value", None),
    "a Python tag": (HEAD + "lab: !!python/object:os.x {}\n", 4, "lab", "the tag", "a plain value", None),
    "a forced integer": (HEAD + "link: {mtu: !!int x}\n", 4, "link.mtu", "the tag", "a plain value", None),
    "no version": (HEAD.split("\n", 1)[1], 1, "version", "nothing", "1", None),
    "no name": ("version: 1\nfabric: {kind: bcube, n: 3, levels: 2}\n", 1, "name", "nothing", "demo", None),
    "no fabric": ("version: 1\nname: demo\n", 1, "fabric", "nothing", "kind", None),
    "another version": (HEAD.replace("1", "2", 1), 1, "version", "2", "1", None),
    "version as text": (HEAD.replace("1", '"1"', 1), 1, "version", '"1"', "1", None),
    "a capital name": (HEAD.replace("demo", "Demo"), 2, "name", "Demo", "^[a-z]", None),
    "a long name": (HEAD.replace("demo", "a" * 17), 2, "name", "aaaa", "demo or rack-7", None),
    "a number as name": (HEAD.replace("demo", "42"), 2, "name", "42", "text like demo", None),
    "an unknown key": (HEAD + "linq: {}\n", 4, "linq", "an unknown key", "roce, pfc", "link"),
    "an unknown deep key": (head("link:\n  ratte: 1Gbit/s\n"), 5, "link.ratte", "unknown", "mtu", "rate"),
    "a key of another place": (HEAD + "mtu: 9000\n", 4, "mtu", "an unknown key", "link", "link.mtu"),
    "an unknown fabric key": (
        "version: 1\nname: demo\nfabric:\n  kind: bcube\n  n: 3\n  level: 2\n",
        *(6, "fabric.level", "an unknown key", "kind, n, levels", "levels"),
    ),
    "a key of another kind": (
        "version: 1\nname: demo\nfabric:\n  kind: torus\n  dims: [3, 3]\n  levels: 2\n",
        *(6, "fabric.levels", "an unknown key", "kind, dims", "dims"),
    ),
    "no kind": (
        "version: 1\nname: demo\nfabric: {n: 3}\n",
        3,
        "fabric.kind",
        "nothing",
        "bcube, dragonfly, fattree, leafspine or torus",
        None,
    ),
    "an unknown kind": (
        "version: 1\nname: demo\nfabric:\n  kind: bcub\n",
        *(4, "fabric.kind", "bcub", "bcube, dragonfly, fattree, leafspine or torus", None),
    ),
    "fabric is a word": (
        "version: 1\nname: demo\nfabric: bcube\n",
        *(3, "fabric", "bcube", "a mapping with the keys kind", None),
    ),
    "fabric is a list": (
        "version: 1\nname: demo\nfabric: [bcube, 3]\n",
        *(3, "fabric", "a list of 2", "a mapping with the keys kind", None),
    ),
    "n too small": (HEAD.replace("n: 3", "n: 1"), 3, "fabric.n", "1", "from 2 to 1024", None),
    "n as text": (HEAD.replace("n: 3", "n: '3'"), 3, "fabric.n", '"3"', "a whole number", None),
    "n with a fraction": (HEAD.replace("n: 3", "n: 3.5"), 3, "fabric.n", "3.5", "a whole number", None),
    "n is true": (HEAD.replace("n: 3", "n: true"), 3, "fabric.n", "true", "a whole number", None),
    "no levels": (HEAD.replace(", levels: 2", ""), 3, "fabric.levels", "nothing", "from 1 to 16", None),
    "BCube too large": (
        HEAD.replace("n: 3, levels: 2", "n: 64, levels: 4"),
        *(3, "fabric", "134217728 ports", "BCube(9,4) or BCube(64,2)", None),
    ),
    "dims as text": (
        "version: 1\nname: demo\nfabric: {kind: torus, dims: 3x3}\n",
        *(3, "fabric.dims", "3x3", "a list of 1 to 15, each a whole number from 2", None),
    ),
    "a side of one": (
        "version: 1\nname: demo\nfabric:\n  kind: torus\n  dims:\n  - 3\n  - 1\n",
        *(7, "fabric.dims[1]", "1", "from 2 to 1024", None),
    ),
    "no dims": (
        "version: 1\nname: demo\nfabric: {kind: torus, dims: []}\n",
        *(3, "fabric.dims", "a list of 0", "a list of 1 to 15", None),
    ),
    "torus too large": (
        "version: 1\nname: demo\nfabric: {kind: torus, dims: [40, 40, 40]}\n",
        *(3, "fabric", "384000 ports", "dims 22, 22, 22 or dims 40, 40", None),
    ),
    "torus with too many bits": (
        "version: 1\nname: demo\nfabric: {kind: torus, dims: [9, 9, 9, 9]}\n",
        *(3, "fabric", "port addresses need 17 bits", "dims 8, 8, 8, 8 or dims 9, 9, 9", None),
    ),
    "an odd k": (
        "version: 1\nname: demo\nfabric: {kind: fattree, servers: 9, k: 5}\n",
        *(3, "fabric.k", "5", "a multiple of 2", None),
    ),
    "k too small": (
        "version: 1\nname: demo\nfabric: {kind: fattree, servers: 17, k: 4}\n",
        *(3, "fabric", "Fat-Tree(4) has 16 host slots", "with k = 6 or 16 servers", None),
    ),
    "a Fat-Tree too large": (
        "version: 1\nname: demo\nfabric: {kind: fattree, servers: 8192, nics: 2}\n",
        *(3, "fabric", "ports, but", "4096 servers x 2 NICs", None),
    ),
    "a rate without unit": (head("link:\n  rate: 500\n"), 5, "link.rate", "500", "like 500Mbit/s", None),
    "a rate of another unit": (head("link:\n  rate: 1GB/s\n"), 5, "link.rate", "1GB/s", "10Gbit/s", None),
    "a rate of nothing": (
        head("link:\n  rate: 0bit/s\n"),
        5,
        "link.rate",
        "0bit/s",
        "at least 8kbit/s",
        None,
    ),
    "an MTU too large": (head("link:\n\n  mtu: 9001\n"), 6, "link.mtu", "9001", "from 1280 to 9000", None),
    "an MTU of nothing": (head("link:\n  mtu:\n"), 5, "link.mtu", "nothing", "from 1280 to 9000", None),
    "a delay without unit": (head("link:\n  delay: 50\n"), 5, "link.delay", "50", "50us", None),
    "a delay too long": (head("link:\n  delay: 11s\n"), 5, "link.delay", "11s", "at most 10s", None),
    "a part of a microsecond": (
        head("link:\n  delay: 0.5us\n"),
        5,
        "link.delay",
        "0.5us",
        "whole number",
        None,
    ),
    "no prefix": (head("addresses:\n  ports: ten\n"), 5, "addresses.ports", "ten", "10.0.0.0/8", None),
    "host bits": (
        head("addresses:\n  ports: 10.0.0.1/8\n"),
        5,
        "addresses.ports",
        "10.0.0.1/8",
        "like",
        None,
    ),
    "a prefix without space": (
        head("addresses:\n  ports: 192.168.0.0/16\n"),
        *(4, "addresses", "has 1 of the 2 /16s required", "2 /16s", None),
    ),
    "overlapping prefixes": (
        head("addresses:\n  identity: 10.1.0.0/16\n"),
        *(4, "addresses", "overlaps 10.1.0.0/16", "do not overlap", None),
    ),
    "loopback as ports": (
        head("addresses:\n  ports: 127.0.0.0/8\n"),
        *(5, "addresses.ports", "127.0.0.0/8", "unicast only, but 127.0.0.0/8 is the loopback", None),
    ),
    "multicast as identity": (
        head("addresses:\n  identity: 239.1.0.0/16\n"),
        *(5, "addresses.identity", "239.1.0.0/16", "unicast only, but 224.0.0.0/4 is multicast", None),
    ),
    "the zero network": (
        head("addresses:\n  ports: 0.0.0.0/8\n"),
        *(5, "addresses.ports", "0.0.0.0/8", "unicast only", None),
    ),
    "all addresses": (
        head("addresses:\n  ports: 0.0.0.0/0\n"),
        *(5, "addresses.ports", "0.0.0.0/0", "unicast only", None),
    ),
    "reserved addresses": (
        head("addresses:\n  ports: 240.0.0.0/4\n"),
        *(5, "addresses.ports", "240.0.0.0/4", "like 10.0.0.0/8 or 172.16.0.0/12; unicast only", None),
    ),
    "link-local addresses": (
        head("addresses:\n  identity: 169.254.0.0/16\n"),
        *(5, "addresses.identity", "169.254.0.0/16", "is link-local", None),
    ),
    "a prefix around the loopback": (
        head("addresses:\n  ports: 64.0.0.0/2\n"),
        *(5, "addresses.ports", "64.0.0.0/2", "127.0.0.0/8 is the loopback", None),
    ),
    "too few identities": (
        head("addresses:\n  identity: 10.255.0.0/29\n"),
        *(3, "fabric", "identities need 4 bits", "BCube(2,2) or BCube(3,1)", None),
    ),
    "no such RDMA device": (head("roce:\n  device: siw\n"), 5, "roce.device", "siw", "nic or rxe", None),
    "no such priority": (head("roce:\n  priority: 8\n"), 5, "roce.priority", "8", "from 0 to 7", None),
    "no such DSCP": (head("roce:\n  dscp: 64\n"), 5, "roce.dscp", "64", "from 0 to 63", None),
    "on is no boolean": (
        head("roce:\n  ecn:\n    enabled: on\n"),
        *(6, "roce.ecn.enabled", "on", "true or false", None),
    ),
    "kmin above kmax": (
        head("roce:\n  ecn: {kmin: 2MiB, kmax: 1MiB}\n"),
        *(5, "roce.ecn.kmin", "2MiB", "at most kmax, 1MiB", None),
    ),
    "too much marked": (
        head("roce:\n  ecn: {pmax: 1.5}\n"),
        *(5, "roce.ecn.pmax", "1.5", "above 0, at most 1", None),
    ),
    "a lossy RoCE priority": (
        head("pfc:\n  priorities: [4, 5]\n"),
        *(5, "pfc.priorities", "4, 5", "contains roce.priority, 3", None),
    ),
    "a priority twice": (head("pfc: {priorities: [3, 3]}\n"), 4, "pfc.priorities", "3, 3", "once", None),
    "unknown routes": (
        head("pfc:\n  routes: all\n"),
        *(5, "pfc.routes", "all", "neighbours, fixed or disjoint", None),
    ),
    "a cycle": (head("pfc:\n  routes: disjoint\n"), 5, "pfc.routes", "l0g0.p0 -> s00.p1", "fixed", None),
    "XON above XOFF": (head("pfc: {xon: 2KiB, xoff: 1KiB}\n"), 4, "pfc.xon", "2KiB", "less than xoff", None),
    "XON at XOFF": (head("pfc: {xon: 1024B, xoff: 1KiB}\n"), 4, "pfc.xon", "1024B", "less than xoff", None),
    "too little headroom": (
        head("pfc:\n  response: 100us\n  headroom: 149500B\n"),
        *(6, "pfc.headroom", "149500B", "149548B or more: 500Mbit/s, 3 m and MTU 9000", None),
    ),
    "two kinds of pause": (
        head("pfc: {}\nnic: {pause: 'on'}\n"),
        *(5, "nic.pause", "on, and a pfc section", "priorities, not both", None),
    ),
    "bandwidths that are no whole": (
        head("nic:\n  ets: {classes: [0, 1, 0, 0, 0, 0, 0, 0], bandwidth: [40, 50, 0, 0, 0, 0, 0, 0]}\n"),
        *(5, "nic.ets.bandwidth", "90 percent in all", "100 percent in all", None),
    ),
    "a class that there is not": (
        head("nic:\n  ets: {classes: [0, 8, 0, 0, 0, 0, 0, 0]}\n"),
        *(5, "nic.ets.classes[1]", "8", "from 0 to 7", None),
    ),
    "a DSCP twice": (
        head("nic: {dscp: [{dscp: 10, priority: 1}, {dscp: 10, priority: 2}]}\n"),
        *(4, "nic.dscp[1].dscp", "10, which entry 0 has", "once", None),
    ),
    "RoCE's DSCP otherwise": (
        head("pfc: {}\nnic: {dscp: [{dscp: 26, priority: 1}]}\n"),
        *(5, "nic.dscp[0].dscp", "26, which roce.dscp has as priority 3", "once", None),
    ),
    "a card's buffer too small": (
        head(
            "pfc: {headroom: 1MiB, xoff: 64KiB}\nlink: {rate: 100Mbit/s}\nnic:\n  buffers:\n"
            "    of: [0, 0, 0, 1, 0, 0, 0, 0]\n    sizes: [0B, 1087KiB, 0B, 0B, 0B, 0B, 0B, 0B]\n"
        ),
        *(9, "nic.buffers.sizes[1]", "1087KiB", "1114112B or more", None),
    ),
    "a parameter of no name": (
        head("roce: {dcqcn: [{name: ../x, value: 1}]}\n"),
        *(4, "roce.dcqcn[0].name", "../x", "text like rp_ai_rate", None),
    ),
    "too small a buffer": (
        head("pfc:\n  headroom: 1MiB\n  xoff: 64KiB\n  buffer: 1088KiB\n  priorities: [3, 4]\n"),
        *(7, "pfc.buffer", "1088KiB", "2228224B or more: 2 x (headroom 1048576B + XOFF 65536B)", None),
    ),
    "a hasty watchdog": (
        head("pfc:\n  watchdog:\n    detect_ms: 10\n"),
        *(6, "pfc.watchdog.detect_ms", "10", "from 100 to 5000", None),
    ),
    "nodes elsewhere": (HEAD + "nodes: cloud\n", 4, "nodes", "cloud", "lab or a mapping of names", None),
    "a server that is not": (
        TWO + "nodes:\n  s0: {ports: [{interface: a}]}\n  s1: {ports: [{interface: a}]}\n"
        "  s2: {ports: [{interface: a}]}\n",
        *(7, "nodes.s2", "a server that is not in the fabric", "s0 to s1", None),
    ),
    "a server missing": (
        TWO + "nodes:\n  s0: {ports: [{interface: eth1}]}\n",
        *(4, "nodes", "nothing for s1", "all of the 2 servers", None),
    ),
    "a port too many": (
        TWO + "nodes:\n  s0: {ports: [{interface: a}, {interface: b}]}\n  s1: {ports: [{interface: a}]}\n",
        *(5, "nodes.s0.ports", "2 ports", "1, one per port of s0", None),
    ),
    "a MAC twice": (
        TWO + "nodes:\n  s0: {ports: [{interface: a, mac: '02:00:00:00:00:01'}]}\n  s1:\n    ports:\n"
        "    - interface: a\n      mac: 02:00:00:00:00:01\n",
        *(9, "nodes.s1.ports[0].mac", "which s0 port 0 has", "another MAC", None),
    ),
    "a multicast MAC": (
        TWO + "nodes:\n  s0: {ports: [{interface: a, mac: '01:00:00:00:00:01'}]}\n",
        *(5, "nodes.s0.ports[0].mac", '"01:00:00:00:00:01"', "like 02:00", None),
    ),
    "an interface twice": (
        TWO
        + "nodes:\n  s0: {host: h, ports: [{interface: eth1}]}\n"
        + "  s1: {host: h, ports: [{interface: eth1}]}\n",
        *(6, "nodes.s1.ports[0].interface", "eth1, which s0 port 0 has", "another interface", None),
    ),
    "a long interface name": (
        TWO + "nodes:\n  s0: {ports: [{interface: averyverylongname}]}\n",
        *(5, "nodes.s0.ports[0].interface", "averyverylongname", "like eth1", None),
    ),
    "an interface without a name": (
        TWO + "nodes:\n  s0:\n    ports:\n    - eth1\n",
        *(7, "nodes.s0.ports[0]", "eth1", "a mapping with the keys interface, mac", None),
    ),
    "a soft switch too large": (
        "version: 1\nname: demo\nfabric: {kind: leafspine, leaves: 2, spines: 5, servers: 60}\n"
        "lab: {switch: lossless}\n",
        *(3, "fabric", "a switch with 65 ports", "at most 64 ports in a switch, or lab.switch: bridge", None),
    ),
    "an unknown switch": (HEAD + "lab: {switch: hub}\n", 4, "lab.switch", "hub", "bridge", None),
}


@pytest.mark.parametrize("what", BAD)
def test_every_error_of_a_file_is_reported(what: str) -> None:
    text, line, key, found, allowed, nearest = BAD[what]
    with pytest.raises(TopologyError) as refusal:
        parse(text, "my.yaml")
    answers = [answer.split("\n  ") for answer in f"\n{refusal.value}".split("\nmy.yaml:")[1:]]
    _, found_line, allowed_line, *rest = next(a for a in answers if a[0] == f"{line}: {key}")
    assert found_line.startswith("found: ")
    assert found in found_line
    assert allowed_line.startswith("allowed: ")
    assert allowed in allowed_line
    assert rest == ([f"nearest known key: {nearest}"] if nearest else [])
    assert refusal.value.exit_code == 2


def test_all_errors_are_reported_at_once_in_order_of_lines() -> None:
    text = "version: 1\nname: DEMO\nfabric:\n  kind: bcube\n  n: 0\n  levels: 2\nlink:\n  mtv: 9000\n"
    with pytest.raises(TopologyError) as refusal:
        parse(text, "my.yaml")
    places = [line for line in str(refusal.value).splitlines() if line.startswith("my.yaml:")]
    assert places == ["my.yaml:2: name", "my.yaml:5: fabric.n", "my.yaml:8: link.mtv"]


def test_a_thousand_mistakes_are_not_all_listed() -> None:
    with pytest.raises(TopologyError) as refusal:
        parse(HEAD + "".join(f"key{i}: 1\n" for i in range(1000)), "my.yaml")
    assert str(refusal.value).count("my.yaml:") == 10
    assert str(refusal.value).endswith("... and 990 more")


@pytest.mark.timeout(40)  # a description of every key, and a search for each, would take hours
@pytest.mark.parametrize("where", ["", "  "], ids=["keys of the file", "keys of a section"])
def test_eighty_thousand_unknown_keys_are_refused(where: str) -> None:
    lines = "".join(f"{where}key{i}: 1\n" for i in range(80_000))
    with pytest.raises(TopologyError) as refusal:
        parse(HEAD + ("link:\n" if where else "") + lines, "my.yaml")
    assert str(refusal.value).count("my.yaml:") == 10
    assert str(refusal.value).endswith("... and 79,990 more")


@pytest.mark.parametrize("key", ["link:\n  mtu", "version", "unknown"])
def test_a_number_of_five_thousand_digits_is_refused(key: str) -> None:
    with pytest.raises(TopologyError, match=r"found: a number of 5000 digits\n  allowed: at most 18 digits"):
        parse(TWO.replace("version: 1\n", "") + f"{key}: {'1' * 5000}\n", "my.yaml")


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"my.yaml:4: .*\n *found: values nested more than 32 deep"):
        parse(HEAD + "lab: " + "[" * 5000 + "]" * 5000 + "\n", "my.yaml")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_file_yields_a_topology_or_a_topology_error(data: st.DataObject) -> None:
    text = data.draw(
        st.sampled_from([FULL, templates.write(Torus, {"dims": "3,3"}, "demo", "unlimited", 9000)])
    )
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = (
            text[:start] + data.draw(st.text("ab:[]{}-#&*!|>'\"%@`,\n\t 0159.~?<=", max_size=5)) + text[end:]
        )
    with contextlib.suppress(TopologyError):
        parse(text, "my.yaml")


def test_a_short_file_has_its_defaults() -> None:
    topology = parse(HEAD, "my.yaml")
    assert topology.fabric == BCube(kind="bcube", n=3, levels=2)
    assert (topology.link.rate_bps, topology.link.mtu, topology.link.delay_us) == (500_000_000, 9000, 0)
    assert str(topology.addresses.ports) == "10.0.0.0/8"
    assert (topology.roce.priority, topology.roce.dscp, topology.roce.ecn.enabled) == (3, 26, True)
    assert topology.pfc is None
    assert topology.nodes == "lab"
    assert topology.lab.switch == "bridge"


def test_a_full_file_is_loaded() -> None:
    topology = parse(FULL, "my.yaml")
    assert topology.link.rate_bps == 2_500_000_000
    assert topology.link.delay_us == 1500
    assert topology.pfc and topology.pfc.priorities == (3, 4)
    assert topology.pfc.watchdog and topology.pfc.watchdog.action == "alert"


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("unlimited", None),
        ("8kbit/s", 8000),
        ("100Gbit/s", 10**11),
        ("0.5Mbit/s", 500_000),
        ("1Tbit/s", 10**12),
    ],
)
def test_rates(text: str, rate_bps: int | None) -> None:
    assert parse(HEAD + f"link: {{rate: {text}}}\n", "my.yaml").link.rate_bps == rate_bps


def test_a_mac_of_digits_is_no_number_in_base_sixty() -> None:
    nodes = (
        "nodes:\n  s0: {ports: [{interface: a, mac: 10:20:30:40:50:11}]}\n  s1: {ports: [{interface: a}]}\n"
    )
    hosts = parse(TWO + nodes, "my.yaml").nodes
    assert isinstance(hosts, dict) and hosts["s0"].ports[0].mac == "10:20:30:40:50:11"
