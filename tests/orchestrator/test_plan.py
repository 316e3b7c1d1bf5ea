# SPDX-License-Identifier: Apache-2.0
"""`hipsnet plan`: the fabrics that fit, their prices and times, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hipsnet.errors import InputError
from hipsnet.predict.planning import Prices, slowdown
from hipsnet.topology.kinds import BCube, Torus
from orchestrator.command_line import app

PARTS = {"--servers": "64", "--ports": "4", "--switch-ports": "16", "--rate": "100Gbit/s"}


def plan(*arguments: str, **changed: str) -> Result:
    parts = PARTS | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return CliRunner().invoke(app, ["plan", *(word for pair in parts.items() for word in pair), *arguments])


def fabrics(*arguments: str, **changed: str) -> dict[str, dict[str, Any]]:
    done = plan(*arguments, "--json", **changed)
    assert done.exit_code == 0, done.output
    return {f"{one['title']}, {one['ports_per_server']}": one for one in json.loads(done.stdout)["fabrics"]}


def test_fabrics_that_fit_are_listed_the_fastest_first() -> None:
    found = fabrics("--price-port", "300", "--price-cable", "100", "--price-switch-port", "200")
    assert {"BCube(4,3), 3", "BCube(8,2), 2", "Torus 8x8, 4", "Leaf-spine(8,8), 1", "Fat-Tree(8), 1"} <= set(
        found
    )
    times = [one["time_s"] for one in found.values()]
    assert times == sorted(times)
    cube, torus = found["BCube(8,2), 2"], found["Torus 8x8, 4"]
    assert (cube["switches"], cube["switch_ports"], cube["cables"], cube["diameter_cables"]) == (
        16,
        8,
        128,
        4,
    )
    assert cube["cost"] == 128 * (300 + 100 + 200)
    assert torus["cost"] == 256 * 300 + 128 * 100
    assert cube["algorithm"] == torus["algorithm"] == "hips"
    for one in found.values():
        assert one["time_s"] >= one["limit_s"] * (1 - 1e-5)  # less by an element for each transfer
        assert (one["dead_port_slowdown"] is None) == (one["ports_per_server"] == 1)


def test_the_table_names_the_next_size_of_kinds_that_do_not_fit() -> None:
    done = plan(servers="100", ports="2", rate="10Gbit/s")
    assert done.exit_code == 0
    head, *rows = done.stdout.splitlines()
    assert head == "# 100 servers with at most 2 ports at 10Gbit/s each; gradients of vgg19"
    assert any(row.split()[:2] == ["BCube(10,2)", "2"] for row in rows)
    assert "# no LeafSpine has 100 servers; the next one is Leaf-spine(13,8) with 104" in rows
    assert len({len(row) for row in rows if not row.startswith("# no")}) == 1


def test_large_fabrics_are_not_built() -> None:
    found = fabrics(servers="65536", switch_ports="64")
    assert found["BCube(16,4), 4"]["switches"] == 16384
    assert found["BCube(16,4), 4"]["time_s"] == pytest.approx(found["BCube(16,4), 4"]["limit_s"], rel=1e-3)


def test_one_dead_port() -> None:
    """A server of BCube(3,2) that owns no piece sends and receives the whole vector through one port of two."""
    assert slowdown(9, 2) == pytest.approx(1.125)
    assert slowdown(4096, 4) == 1
    assert slowdown(9, 1) is None


def test_ports_of_switches_in_use() -> None:
    prices = Prices(switch_port=1)
    assert prices.cost(BCube(kind="bcube", n=4, levels=3)) == 192
    assert prices.cost(Torus(kind="torus", dims=(4, 4))) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"servers": "1"}, "--servers: found 1; allowed: 2 to 131072"),
        ({"ports": "17"}, "--ports: found 17; allowed: 1 to 16"),
        ({"switch_ports": "-1"}, "--switch-ports: found -1; allowed: 0 to 1024"),
        ({"rate": "fast"}, "--rate: found 'fast'"),
        ({"rate": "unlimited"}, "--rate: found unlimited"),
        ({"price_cable": "-2"}, "--price-cable: found -2.0; allowed: 0 or a positive number"),
        ({"model": "gpt"}, "model: found 'gpt'"),
    ],
)
def test_what_is_refused(changed: dict[str, str], message: str) -> None:
    done = plan(**changed)
    assert isinstance(done.exception, InputError) and message in str(done.exception)
