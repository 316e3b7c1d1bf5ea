# SPDX-License-Identifier: Apache-2.0
"""What `init` writes is a file that `parse` accepts, also once its comments are switched on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hipsnet.errors import InputError
from hipsnet.topology import build, parse, templates
from hipsnet.topology.schema import Pfc

TEXTS = {
    "bcube": templates.bcube(3, 2, "demo", "500Mbit/s", 9000),
    "torus": templates.torus("2,3,2", "demo", "unlimited", 1500),
    "fattree": templates.fattree(9, 1, None, "demo", "10Gbit/s", 4200),
    "fattree with k": templates.fattree(9, 2, 8, "rack-7", "10Gbit/s", 4200),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_starter_is_accepted(kind: str) -> None:
    topology = parse(TEXTS[kind], "t.yaml")
    assert topology.fabric.kind == kind.split()[0]
    assert topology.nodes == "lab"


def test_options_reach_the_file() -> None:
    torus = parse(TEXTS["torus"], "t.yaml")
    assert torus.fabric.dims == (2, 3, 2)
    assert (torus.link.rate_bps, torus.link.mtu) == (None, 1500)
    assert parse(TEXTS["fattree"], "t.yaml").fabric.ports_per_switch == 4
    tree = parse(TEXTS["fattree with k"], "t.yaml")
    assert (tree.name, tree.fabric.k, tree.fabric.nics) == ("rack-7", 8, 2)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_commented_lines_show_what_holds_without_them(kind: str) -> None:
    header, body = TEXTS[kind].split("version:", 1)
    body = re.sub(r"(?ms)^# nodes:.*?^$", "", body)
    switched_on = parse(header + "version:" + re.sub(r"(?m)^( *)# ", r"\1", body), "t.yaml")
    assert switched_on.pfc == Pfc()
    assert switched_on.model_copy(update={"pfc": None}) == parse(TEXTS[kind], "t.yaml")


def test_the_commented_hosts_have_the_servers_name_and_ports() -> None:
    for text in TEXTS.values():
        first = build(parse(text, "t.yaml")).servers[0]
        assert f"#   {first.name}:\n" in text
        assert text.count("#       - interface: eth") == len(first.ports)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (
            lambda: templates.bcube(1, 2, "demo", "500Mbit/s", 9000),
            "--ports: found 1; allowed: a whole number from 2 to 1024",
        ),
        (lambda: templates.bcube(3, 0, "demo", "500Mbit/s", 9000), "--levels: found 0; allowed: "),
        (lambda: templates.bcube(3, 2, "Demo: x", "500Mbit/s", 9000), "--name: found "),
        (lambda: templates.bcube(3, 2, "demo\nlink: 3", "500Mbit/s", 9000), "--name: found "),
        (lambda: templates.bcube(3, 2, "demo", "fast", 9000), "--rate: found fast; allowed: .* or unlimited"),
        (lambda: templates.bcube(3, 2, "demo", "500Mbit/s", 100), "--mtu: found 100; allowed: "),
        (lambda: templates.torus("3,x", "demo", "500Mbit/s", 9000), "--dims: found x; allowed: "),
        (lambda: templates.torus("", "demo", "500Mbit/s", 9000), '--dims: found ""; allowed: '),
        (lambda: templates.fattree(0, 1, None, "demo", "500Mbit/s", 9000), "--servers: found 0; allowed: "),
        (lambda: templates.fattree(9, 1, 3, "demo", "500Mbit/s", 9000), "--k: found 3; allowed: "),
        (lambda: templates.fattree(90, 1, 4, "demo", "500Mbit/s", 9000), "--servers, --nics, --k: found "),
    ],
)
def test_wrong_options_are_named_as_they_were_typed(write: Callable[[], str], told: str) -> None:
    with pytest.raises(InputError, match=f"(?s)^{told}"):
        write()
