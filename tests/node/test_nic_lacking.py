# SPDX-License-Identifier: Apache-2.0
"""Missing features of a card on the command line: an interface without DCB, rings and channels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsnet.node import namespace
from tests.lab.rig import hipsnet

TEXT = """\
version: 1
name: {name}
fabric: {{kind: bcube, n: 2, levels: 1}}
link: {{rate: 100Gbit/s, mtu: 1280}}
nodes: {{s0: {{ports: [{{interface: card0}}]}}, s1: {{ports: [{{interface: card1, mac: "02:00:00:00:00:01"}}]}}}}
"""
SECTIONS = """\
pfc: {{priorities: [3], required: {required}}}
nic: {{channels: 64, trust: [dscp], required: {required}}}
"""


@pytest.fixture
def host() -> Iterator[str]:
    """A namespace with the card; the thread is inside."""
    name = f"t{os.getpid():x}-lacks"
    namespace.create(name, "a test's")
    try:
        ip(name, "link", "add", "card0", "type", "veth", "peer", "name", "other")
        with namespace.inside(name):
            yield name
    finally:
        namespace.delete(name)


def ip(host: str, *words: str) -> str:
    return subprocess.run(["ip", "-n", host, *words], check=True, capture_output=True, text=True).stdout


def written(folder: Path, host: str, sections: str) -> Path:
    file = folder / "hosts.yaml"
    file.write_text(TEXT.format(name=host) + sections)
    return file


def test_a_missing_setting_is_in_the_plan(host: str, tmp_path: Path) -> None:
    file = written(tmp_path, host, SECTIONS.format(required="false"))
    done = hipsnet("provision", file, "--node", "s0", "--dry-run")
    assert done.returncode == 0, done.stderr
    for sentence in (
        "pfc priorities 3 left out: its driver has no PFC (dcbnl ieee_getpfc)",
        "channels 64 left out: its driver has no channels (ethtool)",
        "trust order dscp left out: its driver, or a kernel before 6.2, does not support setting the trust order",
        "roce mode v2, roce tos 106 left out: it has no RDMA device",
    ):
        assert f"lacking: card0: {sentence}" in done.stdout


def test_what_is_required_is_an_error_and_nothing_changes(host: str, tmp_path: Path) -> None:
    file = written(tmp_path, host, SECTIONS.format(required="true"))
    before = ip(host, "-d", "address")
    done = hipsnet("provision", file, "--node", "s0")
    assert done.returncode == 2
    for sentence in ("pfc priorities 3", "dscp 26 3", "channels 64", "trust order dscp"):
        assert f"{sentence} left out" in done.stderr
    assert "It is required" in done.stderr
    assert ip(host, "-d", "address") == before


def test_pause_of_the_link_and_of_priorities_at_once(host: str, tmp_path: Path) -> None:
    file = written(tmp_path, host, "pfc: {}\nnic: {pause: 'on'}\n")
    done = hipsnet("provision", file, "--node", "s0")
    assert done.returncode == 2
    assert "a port pauses the link or priorities, not both" in done.stderr
