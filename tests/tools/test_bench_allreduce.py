# SPDX-License-Identifier: Apache-2.0
"""`tools/bench allreduce`: its bounds and its picture. The turns themselves take minutes."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from hipsnet.errors import InputError
from hipsnet.topology import build, parse
from tools.benchmarks import allreduce, allreduce_picture
from tools.benchmarks.allreduce import Found, Measured
from tools.benchmarks.allreduce_plan import KIB, MAIN, MIB, PARTS, Bound, Part, topology_text
from tools.benchmarks.allreduce_turns import Turn


def test_every_part_is_consistent() -> None:
    for part in PARTS.values():
        names = {contender.name for contender in part.contenders}
        for bound in part.bounds:
            assert bound.size_bytes in part.sizes_bytes
            assert {bound.first, bound.second} <= names | {None, "s"}
        for contender in part.contenders:
            build(parse(topology_text(contender.fabric, part.rate, part.lossless), "here"))


def test_an_unknown_part_is_refused() -> None:
    assert [part.name for part in allreduce._parts("200,500")] == ["200", "500"]
    with pytest.raises(InputError, match="--parts: found '300'; allowed: all, or of 500, auto, 200"):
        allreduce._parts("200,300")


def found_in(part: Part, seconds: float) -> Found:
    keys = [(part.name, found.name, size) for found in part.contenders for size in part.sizes_bytes]
    found = {key: Measured(*key, ranks=9, neighbours=4) for key in keys}
    for number, measured in enumerate(found.values()):
        times = (seconds * (number + 1), seconds, 9.0)
        measured.turns += [
            Turn(measured.size_bytes, times, 0.5, 1.0, 8 * MIB),
            Turn(measured.size_bytes, times),
        ]
    return found


def test_bounds_are_ratios_of_medians() -> None:
    found = found_in(MAIN, 0.25)
    first, second = MAIN.contenders[0].name, MAIN.contenders[1].name
    assert found["500", first, 64].median_s == 0.5
    assert allreduce._value(MAIN, Bound(64, first, None, 1.0), found) == 1.0
    assert allreduce._value(MAIN, Bound(64, first, "s", 1.0), found) == 0.5
    assert allreduce._value(MAIN, Bound(4, second, first, 1.0), found) == 12.0
    verdicts = allreduce._verdicts(MAIN, found)
    assert verdicts.row_count == len(MAIN.bounds)
    assert {"[green]ok[/]", "[red]miss[/]"} == set(verdicts.columns[-1].cells)


def test_the_picture_has_all_contenders_and_the_limit(tmp_path: Path) -> None:
    curves = {f"contender {number}": [(KIB, 0.001 * number), (MIB, 0.1)] for number in range(1, 7)}
    output = tmp_path / "times.svg"
    allreduce_picture.draw(MAIN, curves, [(KIB, 1e-5), (MIB, 0.01)], output)
    text = " ".join(ElementTree.parse(output).getroot().itertext())
    assert all(name in text for name in [*curves, "physical limit", "1KiB", "1MiB"])
