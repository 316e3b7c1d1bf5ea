# SPDX-License-Identifier: Apache-2.0
"""MSCCL's XML: a schedule that GPUs execute.

The format is that of microsoft/msccl-tools (msccl/language/ir.py), as ROCm/rccl reads it (msccl_parser.cc).
A threadblock sends to one peer, or receives from one, over one channel, which is the sender's port. Its steps run
in order. A step may wait for one step of another threadblock; for more, nops that wait precede it. The vector is
in place: all steps work on the input buffer, which is the output buffer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.etree import ElementTree

from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import InputError
from hipsnet.predict.export.chunks import Step, chunked, steps
from hipsnet.topology import Fabric

STEPS, COUNT, PEERS, CHANNELS = 256, 72, 32, 32
"""Limits of the format: steps of a threadblock, chunks of a step (below), peers of a channel, channels."""

MOST_BYTES = 1 << 40

Blocks = Mapping[int, Sequence[Step]]
"""By lane: its steps."""

_Place = tuple[int, int]
"""Threadblock, and step in it."""


def export(
    algorithm: Algorithm, fabric: Fabric, progress: Callable[[int, int], None] = lambda done, total: None
) -> str:
    """Return the XML. Raises InputError naming the limit of the format that is exceeded."""
    schedule = chunked(algorithm, fabric)
    if (longest := int(schedule.transfers["length"].max(initial=0))) >= COUNT:
        raise _exceeded("chunks in a step", longest, COUNT - 1)
    every = []
    for rank in range(schedule.world_size):
        progress(rank, schedule.world_size)
        every.append(_blocks(steps(schedule, fabric, rank)))
        _require_limits(every[-1])
    channels = max(
        (step.port + 1 for blocks in every for lane in blocks.values() for step in lane), default=1
    )
    root = ElementTree.Element(
        "algo",
        name=f"{algorithm.name} on {fabric.shape.title}",
        proto="Simple",
        nchannels=str(channels),
        nchunksperloop=str(schedule.count),
        ngpus=str(schedule.world_size),
        coll="allreduce",
        inplace="1",
        outofplace="0",
        minBytes="0",
        maxBytes=str(MOST_BYTES),
    )
    for rank, blocks in enumerate(every):
        chunks = str(schedule.count)
        gpu = ElementTree.SubElement(
            root, "gpu", id=str(rank), i_chunks=chunks, o_chunks=chunks, s_chunks="0"
        )
        _write_blocks(gpu, blocks)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _blocks(rank_steps: Iterable[Step]) -> dict[int, list[Step]]:
    found: defaultdict[int, list[Step]] = defaultdict(list)
    for step in rank_steps:
        found[step.lane].append(step)
    return dict(sorted(found.items()))


def _write_blocks(gpu: ElementTree.Element, blocks: Blocks) -> None:
    numbers = {lane: number for number, lane in enumerate(blocks)}
    lane_of = {step.index: lane for lane, lane_steps in blocks.items() for step in lane_steps}
    waits = {lane: [_waits(step, lane_of) for step in lane_steps] for lane, lane_steps in blocks.items()}
    places = _places(blocks, waits, numbers)
    awaited = {places[index] for lane in waits.values() for found in lane for index in found}
    for lane, lane_steps in blocks.items():
        first = lane_steps[0]
        send, receive = (first.peer, -1) if first.sends else (-1, first.peer)
        block = ElementTree.SubElement(
            gpu, "tb", id=str(numbers[lane]), send=str(send), recv=str(receive), chan=str(first.port)
        )
        for step, found in zip(lane_steps, waits[lane], strict=True):
            *before, last = [places[index] for index in found] or [(-1, -1)]
            for place in before:
                _write_step(block, "nop", -1, 0, place, False)
            kind = "s" if step.sends else "rrc" if step.reduces else "r"
            _write_step(block, kind, step.start, step.count, last, places[step.index] in awaited)


def _waits(step: Step, lane_of: Mapping[int, int]) -> list[int]:
    """The steps of other threadblocks that a step waits for: of each threadblock the last one."""
    last: dict[int, int] = {}
    for index in step.after:
        if lane_of[index] != step.lane:
            last[lane_of[index]] = max(last.get(lane_of[index], -1), index)
    return sorted(last.values())


def _places(
    blocks: Blocks, waits: Mapping[int, list[list[int]]], numbers: Mapping[int, int]
) -> dict[int, _Place]:
    """By step: its threadblock, and its number there, nops counted."""
    places = {}
    for lane, lane_steps in blocks.items():
        at = 0
        for step, found in zip(lane_steps, waits[lane], strict=True):
            at += max(0, len(found) - 1)
            places[step.index] = (numbers[lane], at)
            at += 1
        if at > STEPS:
            raise _exceeded("steps in a threadblock", at, STEPS)
    return places


def _write_step(
    block: ElementTree.Element, kind: str, start: int, count: int, after: _Place, is_awaited: bool
) -> None:
    ElementTree.SubElement(
        block,
        "step",
        s=str(len(block)),
        type=kind,
        srcbuf="i",
        srcoff=str(start),
        dstbuf="i",
        dstoff=str(start),
        cnt=str(count),
        depid=str(after[0]),
        deps=str(after[1]),
        hasdep=str(int(is_awaited)),
    )


def _require_limits(blocks: Blocks) -> None:
    peers = Counter((found[0].port, found[0].sends) for found in blocks.values())
    if peers and max(peers.values()) > PEERS:
        raise _exceeded("peers of a channel", max(peers.values()), PEERS)
    if peers and max(port for port, _ in peers) >= CHANNELS:
        raise _exceeded("channels", max(port for port, _ in peers) + 1, CHANNELS)
    if (most := max(map(len, blocks.values()), default=0)) > STEPS:
        raise _exceeded("steps in a threadblock", most, STEPS)


def _exceeded(what: str, found: int, allowed: int) -> InputError:
    return InputError(
        f"msccl: {what}: found {found}; allowed: {allowed}; use fewer servers, or another exchange"
    )
