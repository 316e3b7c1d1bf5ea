# SPDX-License-Identifier: Apache-2.0
"""`parse` accepts what `init` writes, also with its comments enabled."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from hipsnet.errors import InputError
from hipsnet.topology import KINDS, FabricKind, build, parse, templates
from hipsnet.topology.kinds import BCube, Dragonfly, FatTree, LeafSpine, Torus
from hipsnet.topology.schema import Pfc


def write(
    kind: type[FabricKind], name: str = "demo", rate: str = "500Mbit/s", mtu: int = 9000, **parameters: object
) -> str:
    return templates.write(kind, parameters, name, rate, mtu)


ARGUMENTS: dict[str, dict[str, Any]] = {
    "bcube": {"kind": BCube, "n": 3, "levels": 2},
    "torus": {"kind": Torus, "dims": "2,3,2", "rate": "unlimited", "mtu": 1500},
    "fattree": {"kind": FatTree, "servers": 9, "nics": 1, "k": None, "rate": "10Gbit/s", "mtu": 4200},
    "leafspine": {"kind": LeafSpine, "leaves": 3, "spines": 2, "servers": 3, "nics": 2, "uplinks": 1},
    "dragonfly": {"kind": Dragonfly, "groups": 3, "routers": 2, "servers": 2, "global_links": 1},
    "fattree with k": {
        "kind": FatTree,
        "name": "rack-7",
        "servers": 9,
        "nics": 2,
        "k": 8,
        "rate": "10Gbit/s",
        "mtu": 4200,
    },
}


@cache
def template(name: str) -> str:
    return write(**ARGUMENTS[name])


def test_every_kind_has_a_template() -> None:
    assert {name.split()[0] for name in ARGUMENTS} == {kind.kind_name() for kind in KINDS}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_a_template_is_accepted(kind: str) -> None:
    topology = parse(template(kind), "t.yaml")
    assert topology.fabric.kind == kind.split()[0]
    assert topology.nodes == "lab"


def test_options_reach_the_file() -> None:
    torus = parse(template("torus"), "t.yaml")
    assert torus.fabric == Torus(kind="torus", dims=(2, 3, 2))
    assert (torus.link.rate_bps, torus.link.mtu) == (None, 1500)
    assert parse(template("fattree"), "t.yaml").fabric.switch_ports == 4
    tree = parse(template("fattree with k"), "t.yaml")
    assert (tree.name, tree.fabric) == ("rack-7", FatTree(kind="fattree", servers=9, nics=2, k=8))


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_the_commented_lines_show_what_holds_without_them(kind: str) -> None:
    header, body = template(kind).split("version:", 1)
    body = re.sub(r"(?ms)^# (nodes:|No pfc).*?^$", "", body)
    switched_on = parse(header + "version:" + re.sub(r"(?m)^( *)# ", r"\1", body), "t.yaml")
    lossless = kind != "dragonfly"  # whose routes need two lossless priorities
    assert switched_on.pfc == (Pfc() if lossless else None)
    assert lossless == ("# pfc:" in template(kind)) != ("# No pfc section is allowed" in template(kind))
    assert switched_on.model_copy(update={"pfc": None}) == parse(template(kind), "t.yaml")


def test_the_commented_hosts_have_the_servers_name_and_ports() -> None:
    for text in map(template, ARGUMENTS):
        first = build(parse(text, "t.yaml")).servers[0]
        assert f"#   {first.name}:\n" in text
        assert text.count("#       - interface: eth") == len(first.ports)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (BCube, {"n": 1, "levels": 2}, "--ports: found 1; allowed: a whole number from 2 to 1024"),
        (BCube, {"n": 3, "levels": 0}, "--levels: found 0; allowed: "),
        (BCube, {"n": 3, "levels": 2, "name": "Demo: x"}, "--name: found "),
        (BCube, {"n": 3, "levels": 2, "name": "demo\nlink: 3"}, "--name: found "),
        (BCube, {"n": 3, "levels": 2, "rate": "fast"}, "--rate: found fast; allowed: .* or unlimited"),
        (BCube, {"n": 3, "levels": 2, "mtu": 100}, "--mtu: found 100; allowed: "),
        (Torus, {"dims": "3,x"}, "--dims: found x; allowed: "),
        (Torus, {"dims": ""}, '--dims: found ""; allowed: '),
        (FatTree, {"servers": 0}, "--servers: found 0; allowed: "),
        (FatTree, {"servers": 9, "k": 3}, "--k: found 3; allowed: "),
        (FatTree, {"servers": 90, "k": 4}, "--servers, --nics, --k: found "),
        (
            LeafSpine,
            {"leaves": 1, "spines": 1, "servers": 1},
            "--leaves, .*: found 1 server; allowed: 1 leaves x 2",
        ),
        (LeafSpine, {"leaves": 0, "spines": 1, "servers": 1}, "--leaves: found 0; allowed: "),
        (
            Dragonfly,
            {"groups": 9, "routers": 2, "servers": 2, "global_links": 0},
            "--global-links: found 0; allowed: ",
        ),
        (
            Dragonfly,
            {"groups": 9, "routers": 2, "servers": 2, "global_links": 2},
            "--groups, .*: found 9 groups, but 4 global cables .*; allowed: Dragonfly.p=2,a=2,h=2,g=5",
        ),
    ],
)
def test_wrong_options_are_named_as_they_were_typed(
    kind: type[FabricKind], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=f"(?s)^{message}"):
        write(kind, **arguments)
