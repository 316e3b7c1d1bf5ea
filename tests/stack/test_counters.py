# SPDX-License-Identifier: Apache-2.0
"""The counters file of the soft switches: read if it is complete and of this version, refused otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsnet.errors import ProvisionError
from hipsnet.stack.switch import counters, events
from tests.stack.switch_rig import Rig, file_head, rig

WORD = 8
OTHER_VERSION = {"mark": 0, "layout": WORD}
"""Offsets of the words that identify the version."""


def counted(switch: Rig, name: str) -> bytes:
    memory = switch.counted()
    return name.encode().ljust(32, b"\0") + memory[32:]


@pytest.fixture(scope="module")
def whole() -> bytes:
    """The file a process writes for two switches; the first has received a frame."""
    with rig(ports=3) as first, rig(ports=2) as second:
        assert first.admit(0, 1, 3, 1500)
        first.settle()
        return file_head(2) + counted(first, "l0g0") + counted(second, "l0g1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "switch-counters"


def test_a_whole_file_is_read(path: Path, whole: bytes) -> None:
    path.write_bytes(whole)
    found = counters.read(path)
    assert {name: len(switch.ports) for name, switch in found.items()} == {"l0g0": 3, "l0g1": 2}
    assert found["l0g0"].ports["priority"]["egress_bytes"][1, 3] == 1500
    assert events.read(path) == ()


@pytest.mark.parametrize("word", OTHER_VERSION)
def test_a_file_of_another_version_is_refused(path: Path, whole: bytes, word: str) -> None:
    other = bytearray(whole)
    other[OTHER_VERSION[word] + 1] ^= 1
    path.write_bytes(other)
    for read in (counters.read, events.read):
        with pytest.raises(
            ProvisionError, match=r"not written by .* of this version \(.+\); destroy the lab"
        ):
            read(path)


def test_a_counter_of_another_name_is_another_version(
    path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {name: dict(table) for name, table in counters._tables().items()}
    tables["PORT_COUNTERS"] = {
        name.replace("drop_ttl", "drop_hops"): meaning for name, meaning in tables["PORT_COUNTERS"].items()
    }
    path.write_bytes(whole)
    monkeypatch.setattr(counters, "_tables", lambda: tables)
    counters._fingerprint.cache_clear()
    try:
        with pytest.raises(ProvisionError, match="other counters"):
            counters.read(path)
    finally:
        counters._fingerprint.cache_clear()


@pytest.mark.parametrize("lacking", [1, 3000, 10**6])
def test_a_part_of_a_file_is_refused(path: Path, whole: bytes, lacking: int) -> None:
    path.write_bytes(whole[:-lacking])
    with pytest.raises(ProvisionError, match=r"not written by .* of this version \(.+\); destroy the lab"):
        counters.read(path)


def test_more_than_the_file_says_is_refused(path: Path, whole: bytes) -> None:
    path.write_bytes(whole + bytes(WORD))
    with pytest.raises(ProvisionError, match=rf"{len(whole) + WORD} bytes instead of {len(whole)}"):
        counters.read(path)


def test_a_missing_file_is_reported(path: Path) -> None:
    with pytest.raises(ProvisionError, match="does not exist: the soft switch does not run"):
        counters.read(path)
