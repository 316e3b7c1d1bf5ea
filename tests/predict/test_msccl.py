# SPDX-License-Identifier: Apache-2.0
"""MSCCL's XML sums, whatever the order of its steps; the interpreter rejects what is wrong with it."""

from __future__ import annotations

from functools import cache
from xml.etree import ElementTree

import pytest

from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict.export.msccl import export
from tests.collective.shapes import fabric
from tests.predict.msccl_machine import Machine, Rejected

CASES = [
    *((Algorithm(), shape) for shape in ("bcube(2,2)", "bcube(3,2)", "torus(3,3)", "torus(2,3,2)")),
    (Algorithm("hips", ("ring",)), "bcube(3,2)"),
    (Algorithm("hips", ("ps",)), "bcube(3,2)"),
    *((Algorithm(name), "fattree(9,1)") for name in ("ring", "mesh", "ps")),
    (Algorithm("ring"), "fattree(5,3)"),
]


@cache
def xml(algorithm: Algorithm, shape: str) -> str:
    return export(algorithm, fabric(shape))


@pytest.mark.parametrize(("algorithm", "shape"), CASES)
def test_every_chunk_ends_with_one_of_each_input(algorithm: Algorithm, shape: str) -> None:
    machine = Machine(xml(algorithm, shape))
    for seed in range(3):
        assert (machine.run(seed) == 1).all()


def test_the_number_of_chunks_is_the_least_that_divides() -> None:
    chunks = {
        shape: Machine(xml(Algorithm(), shape)).chunks for shape in ("bcube(2,2)", "bcube(3,2)", "torus(3,3)")
    }
    assert chunks == {"bcube(2,2)": 8, "bcube(3,2)": 18, "torus(3,3)": 36}


def test_each_port_is_a_channel() -> None:
    root = ElementTree.fromstring(xml(Algorithm(), "bcube(3,2)"))
    assert root.get("nchannels") == "2"
    for block in root.iter("tb"):
        (peer,) = {block.get("send"), block.get("recv")} - {"-1"}
        gpu = next(gpu for gpu in root if block in gpu)
        level = 0 if int(peer or 0) // 3 == int(gpu.get("id", 0)) // 3 else 1
        assert block.get("chan") == str(level)


def changed(change: str) -> str:
    """The XML of HiPS on BCube(3,2) with one error."""
    root = ElementTree.fromstring(xml(Algorithm(), "bcube(3,2)"))
    blocks = list(root[0])
    receiving = next(block for block in blocks if block.get("recv") != "-1" and len(block) > 1)
    sending = [block for block in blocks if block.get("send") != "-1"]
    waiting = next(step for block in sending for step in block if int(step.get("deps", 0)) > 0)
    if change == "dropped":
        receiving.remove(receiving[len(receiving) - 1])
    elif change == "unordered":
        waiting.set("depid", "-1")
        waiting.set("deps", "-1")
    elif change == "other step":
        waiting.set("deps", "0")
    elif change == "two peers":
        sending[0].set("recv", receiving.get("recv", ""))
    elif change == "merged":
        for number, step in enumerate(sending[1]):
            step.set("s", str(len(sending[0]) + number))
        sending[0].extend(sending[1])
        root[0].remove(sending[1])
    elif change == "other chunk":
        sending[0][0].set("srcoff", str((int(sending[0][0].get("srcoff", "0")) + 1) % 16))
    _set_hasdep(root[0])  # so that it is the order that is wrong
    return ElementTree.tostring(root, encoding="unicode")


def _set_hasdep(gpu: ElementTree.Element) -> None:
    awaited = {(step.get("depid"), step.get("deps")) for step in gpu.iter("step")}
    for block in gpu:
        for step in block:
            step.set("hasdep", str(int((block.get("id"), step.get("s")) in awaited)))


ERRORS = {
    "dropped": "as many receives as sends",
    "unordered": "two steps race for a chunk",
    "other step": "two steps race for a chunk",
    "two peers": "one peer and direction for each threadblock",
    "merged": "threadblocks are numbered",
    "other chunk": "two steps race for a chunk",
}


@pytest.mark.parametrize("change", ERRORS)
def test_errors_are_rejected(change: str) -> None:
    assert (Machine(changed("nothing")).run(0) == 1).all()
    with pytest.raises(Rejected, match=ERRORS[change]):
        Machine(changed(change))


@pytest.mark.parametrize(
    ("algorithm", "shape", "message"),
    [
        (Algorithm("mesh"), "fattree(128,1)", "peers of a channel: found 127; allowed: 32"),
        (Algorithm("ring"), "fattree(150,1)", "steps in a threadblock: found 298; allowed: 256"),
        (Algorithm(), "torus(5,2,4)", "chunks in a step: found"),
        (Algorithm("hips", ("full",)), "bcube(3,2)", "exchange full cannot be exported"),
    ],
)
def test_limits_are_named(algorithm: Algorithm, shape: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        export(algorithm, fabric(shape))
