# SPDX-License-Identifier: Apache-2.0
"""`hipsnet schema, init, routes, graph`: what they print, write and refuse."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hipsnet.topology import build, parse, paths
from tests.lab.rig import hipsnet, hipsnet_process


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The topology file that `init` writes for BCube(3,2)."""
    path = tmp_path / "topology.yaml"
    path.write_text(hipsnet("init", "bcube", "--ports", "3", "--levels", "2").stdout)
    return path


def test_schema_is_json() -> None:
    result = hipsnet_process("schema")
    assert result.returncode == 0
    assert json.loads(result.stdout)["required"] == ["version", "name", "fabric"]


@pytest.mark.parametrize(
    ("arguments", "servers", "name", "rate_bps", "mtu"),
    [
        (["bcube", "--ports", "4", "--levels", "2", "--name", "big"], 16, "big", 500_000_000, 9000),
        (["torus", "--dims", "2,3,2", "--rate", "unlimited"], 12, "demo", None, 9000),
        (["fattree", "--servers", "9", "--nics", "1", "--mtu", "1500"], 9, "demo", 500_000_000, 1500),
        (["fattree", "--servers", "9", "--nics", "2", "--k", "8"], 9, "demo", 500_000_000, 9000),
        (["leafspine", "--leaves", "3", "--spines", "2", "--servers", "4"], 12, "demo", 500_000_000, 9000),
        (
            ["dragonfly", "--groups", "3", "--routers", "2", "--servers", "2", "--global-links", "1"],
            *(12, "demo", 500_000_000, 9000),
        ),
    ],
)
def test_init_writes_a_file_that_loads(
    arguments: list[str], servers: int, name: str, rate_bps: int | None, mtu: int
) -> None:
    result = hipsnet("init", *arguments)
    assert result.returncode == 0, result.stderr
    topology = parse(result.stdout, "t.yaml")
    assert len(build(topology).servers) == servers
    assert (topology.name, topology.link.rate_bps, topology.link.mtu) == (name, rate_bps, mtu)
    assert "#" in result.stdout


def test_init_with_wrong_options_ends_with_2_and_writes_nothing() -> None:
    result = hipsnet("init", "bcube", "--ports", "1", "--levels", "2")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "hipsnet: --ports: found 1; allowed: a whole number from 2 to 1024\n"


def test_routes_prints_every_path(file: Path) -> None:
    result = hipsnet("routes", file, "00", "s12")
    assert result.returncode == 0
    assert "demo: s00 to s12, 2 disjoint paths" in result.stdout
    assert "to 10.1.0.18, 2 hops\n   s00.p0 -> l0g0 -> s02\n   s02.p1 -> l1g2 -> s12" in result.stdout
    assert "to 10.0.0.11, 2 hops\n   s00.p1 -> l1g0 -> s10\n   s10.p0 -> l0g1 -> s12" in result.stdout


def test_routes_as_json_are_the_paths(file: Path) -> None:
    result = hipsnet("routes", file, "00", "01", "--json")
    answer = json.loads(result.stdout)
    expected = paths(build(parse(file.read_text(), "t")), "s00", "s01")
    assert (answer["fabric"], answer["source"], answer["target"]) == ("demo", "s00", "s01")
    assert [path["destination"] for path in answer["paths"]] == [str(path.destination) for path in expected]
    first = {"from": "s00", "port": "p0", "via": "l0g0", "to": "s01", "to_port": "p0"}
    assert answer["paths"][0]["hops"] == [first]
    assert [len(path["hops"]) for path in answer["paths"]] == [1, 3]


def test_routes_on_a_torus_and_a_fat_tree(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(hipsnet("init", "torus", "--dims", "3,3").stdout)
    answer = json.loads(hipsnet("routes", path, "00", "11", "--json").stdout)
    assert len(answer["paths"]) == 4
    assert all(hop["via"] is None for path in answer["paths"] for hop in path["hops"])
    path.write_text(hipsnet("init", "fattree", "--servers", "9", "--nics", "2").stdout)
    result = hipsnet("routes", path, "0", "8")
    assert "2 paths, one per NIC" in result.stdout
    assert "6 hops, one of 9 equal ways" in result.stdout


def test_routes_on_a_leaf_spine_and_a_dragonfly(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    options = ["--leaves", "2", "--spines", "3", "--servers", "2", "--nics", "2", "--uplinks", "2"]
    path.write_text(hipsnet("init", "leafspine", *options).stdout)
    near, far = (hipsnet("routes", path, "00", target).stdout for target in ("01", "11"))
    assert "2 paths, one per NIC" in near
    assert "s00.p1 -> leaf0\n   leaf0.p3 -> s01" in near
    assert "4 hops, one of 12 equal ways\n   s00.p1 -> leaf0\n   leaf0.p5 -> spine0\n" in far
    assert "   spine0.p3 -> leaf1\n   leaf1.p3 -> s11" in far
    options = ["--groups", "3", "--routers", "2", "--servers", "2", "--global-links", "2"]
    path.write_text(hipsnet("init", "dragonfly", *options).stdout)
    found = hipsnet("routes", path, "000", "211").stdout
    assert "1 path, one per NIC" in found
    assert "4 hops, one of 2 equal ways" in found


def test_routes_to_an_unknown_server_end_with_2(file: Path) -> None:
    result = hipsnet("routes", file, "00", "33")
    assert (result.returncode, result.stdout) == (2, "")
    assert "no server '33'" in result.stderr
    assert "s22" in result.stderr


@pytest.mark.parametrize("ending", [".svg", ".SVG", ".pdf", ".png", ".dot"])
def test_graph_writes_a_picture(file: Path, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"out{ending}"
    result = hipsnet("graph", file, "-o", picture)
    assert result.returncode == 0, result.stderr
    if ending == ".png":
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        assert int.from_bytes(content[16:20], "big") > 800
        return
    if ending == ".pdf":
        content = picture.read_bytes()
        assert content.startswith(b"%PDF-1.4") and content.rstrip().endswith(b"%%EOF")
        assert b"/Type /Page " in content and b"CreationDate" not in content
        return
    text = picture.read_text()
    for name in ("s00", "s22", "l0g0", "l1g2"):
        assert name in text
    if ending == ".dot":
        assert text.startswith('graph "demo" {')
        assert text.count(" -- ") == 18
    else:
        root = ET.fromstring(text)
        words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
        assert {"demo: BCube(3,2)", "s00", "s22", "l0g0", "l1g2"} <= words


def test_graph_draws_the_same_bytes_again_and_needs_no_home(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:  # a process each: nothing of it hangs on a hash or an address
        result = hipsnet_process("graph", file, "-o", picture)
        assert (result.returncode, result.stderr) == (0, "")
        monkeypatch.setenv("HOME", "/proc/nobody")  # no folder can be made there
    assert pictures[0].read_bytes() == pictures[1].read_bytes()


def test_graph_with_an_unknown_suffix_or_a_missing_folder_ends_with_2(file: Path, tmp_path: Path) -> None:
    for picture, words in (
        (tmp_path / "out.jpg", ".svg, .pdf, .png or .dot"),
        (tmp_path / "no/out.svg", "No such file"),
    ):
        result = hipsnet("graph", file, "-o", picture)
        assert result.returncode == 2
        assert words in result.stderr
        assert not picture.exists()


def test_a_wrong_file_ends_with_2(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("version: 1\nname: demo\nfabric: {kind: bcube, n: 3, level: 2}\n")
    for arguments in (["routes", path, "00", "01"], ["graph", path, "-o", tmp_path / "out.svg"]):
        result = hipsnet(*arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert f"{path}:3: fabric.level\n" in result.stderr
        assert "nearest known key: levels" in result.stderr
        assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.svg").exists()


def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path) -> None:
    for content, words in ((None, "No such file"), (b"\xff\xfe", "UTF-8")):
        path = tmp_path / "t.yaml"
        if content:
            path.write_bytes(content)
        result = hipsnet("routes", path, "00", "01")
        assert result.returncode == 2
        assert words in result.stderr
