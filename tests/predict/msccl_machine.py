# SPDX-License-Identifier: Apache-2.0
"""An interpreter of MSCCL's XML, written from the format's description alone.

It validates the structure, proves that no two steps race for a chunk, and executes the steps in a random order.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

STEP = ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep")
BLOCK, GPU = ("id", "send", "recv", "chan"), ("id", "i_chunks", "o_chunks", "s_chunks")
ALGO = (
    *("name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace"),
    *("minBytes", "maxBytes"),
)
SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rcs", "rrs", "rrc", "rrcs"}


Wires = dict[tuple[int, int, int], deque[NDArray[np.int64]]]
"""What was sent and not received yet, by (sender, receiver, channel)."""


class Rejected(Exception):
    """The program is not valid."""


@dataclass(frozen=True)
class Step:
    gpu: int
    block: int
    number: int
    kind: str
    src: tuple[str, int]
    dst: tuple[str, int]
    count: int
    after: tuple[int, int] | None  # (threadblock, step) of the same GPU
    is_awaited: bool

    def chunks(self, end: tuple[str, int]) -> list[tuple[int, str, int]]:
        # In place, the output is the input.
        buffer = "i" if end[0] == "o" else end[0]
        return [(self.gpu, buffer, end[1] + i) for i in range(self.count)]

    @property
    def reads(self) -> list[tuple[int, str, int]]:
        return self.chunks(self.src) if self.kind in ("s", "rrc", "rrs", "rrcs", "cpy", "re") else []

    @property
    def writes(self) -> list[tuple[int, str, int]]:
        return self.chunks(self.dst) if self.kind in ("r", "rcs", "rrc", "rrcs", "cpy", "re") else []


@dataclass
class Block:
    send: int
    recv: int
    chan: int
    steps: list[Step]


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Rejected(message)


class Machine:
    """A program that was read and validated; `run` executes it once."""

    def __init__(self, xml: str) -> None:
        root = ElementTree.fromstring(xml)
        require(root.tag == "algo" and set(root.keys()) == set(ALGO), "attributes of algo")
        require(root.get("coll") == "allreduce" and root.get("inplace") == "1", "an allreduce in place")
        self.chunks, self.channels = int(root.get("nchunksperloop", 0)), int(root.get("nchannels", 0))
        self.gpus: dict[int, dict[int, Block]] = {}
        for node in root:
            require(node.tag == "gpu" and set(node.keys()) == set(GPU), "attributes of gpu")
            require(node.get("i_chunks") == node.get("o_chunks") == str(self.chunks), "chunks of the buffers")
            gpu = int(node.get("id", -1))
            require(gpu not in self.gpus, "a GPU twice")
            self.gpus[gpu] = self._blocks(gpu, node)
        require(sorted(self.gpus) == list(range(int(root.get("ngpus", 0)))), "GPUs are numbered")
        self.steps = [
            step for blocks in self.gpus.values() for block in blocks.values() for step in block.steps
        ]
        self._require_dependencies()
        self._require_no_race()

    def _blocks(self, gpu: int, node: ElementTree.Element) -> dict[int, Block]:
        blocks: dict[int, Block] = {}
        ends = set()
        for item in node:
            require(item.tag == "tb" and set(item.keys()) == set(BLOCK), "attributes of tb")
            number, send, recv, chan = (int(item.get(key, -9)) for key in BLOCK)
            require(number not in blocks and gpu not in (send, recv), "a threadblock twice, or its own peer")
            require(send == -1 or recv == -1, "one peer and direction for each threadblock")
            require((send, recv, chan) not in ends, "one threadblock for each peer, direction and channel")
            require(0 <= chan < self.channels <= 32, "channel")
            ends.add((send, recv, chan))
            blocks[number] = Block(send, recv, chan, [self._step(gpu, number, *at) for at in enumerate(item)])
            for step in blocks[number].steps:
                require(step.kind not in SENDS or send >= 0, "a send without a peer")
                require(step.kind not in RECEIVES or recv >= 0, "a receive without a peer")
        require(sorted(blocks) == list(range(len(blocks))), "threadblocks are numbered")
        for chan in range(self.channels):
            require(
                sum(block.chan == chan and block.send >= 0 for block in blocks.values()) <= 32, "send peers"
            )
            require(
                sum(block.chan == chan and block.recv >= 0 for block in blocks.values()) <= 32,
                "receive peers",
            )
        return blocks

    def _step(self, gpu: int, block: int, place: int, node: ElementTree.Element) -> Step:
        require(node.tag == "step" and set(node.keys()) == set(STEP), "attributes of step")
        value = {key: node.get(key, "") for key in STEP}
        require(value["type"] in ("s", "r", "rrc", "nop"), f"unknown type {value['type']}")
        require(int(value["s"]) == place < 256, "steps are numbered")
        count, after = int(value["cnt"]), (int(value["depid"]), int(value["deps"]))
        require(0 <= count < 72, "count")
        require(after == (-1, -1) or min(after) >= 0, "dependency")
        step = Step(
            gpu, block, place, value["type"], (value["srcbuf"], int(value["srcoff"])),
            (value["dstbuf"], int(value["dstoff"])), count, None if after == (-1, -1) else after,
            value["hasdep"] == "1",
        )  # fmt: skip
        for _, buffer, chunk in (*step.reads, *step.writes):
            require(buffer == "i" and 0 <= chunk < self.chunks, "a chunk outside of the buffer")
        return step

    def _require_dependencies(self) -> None:
        awaited = set()
        for step in self.steps:
            if step.after:
                block = self.gpus[step.gpu].get(step.after[0])
                require(block is not None and step.after[1] < len(block.steps), "a dependency on no step")
                require(step.after[0] != step.block, "a dependency on the own threadblock")
                awaited.add((step.gpu, *step.after))
        for step in self.steps:
            require(step.is_awaited == ((step.gpu, step.block, step.number) in awaited), "hasdep")

    def _before(self) -> dict[Step, list[Step]]:
        """By step: those that immediately precede it. A send precedes the receive that takes its data."""
        before: dict[Step, list[Step]] = {step: [] for step in self.steps}
        sends, receives = defaultdict(list), defaultdict(list)
        for gpu, blocks in self.gpus.items():
            for block in blocks.values():
                for step in block.steps:
                    if step.number:
                        before[step].append(block.steps[step.number - 1])
                    if step.after:
                        before[step].append(blocks[step.after[0]].steps[step.after[1]])
                    if step.kind in SENDS:
                        sends[gpu, block.send, block.chan].append(step)
                    if step.kind in RECEIVES:
                        receives[block.recv, gpu, block.chan].append(step)
        require(sends.keys() == receives.keys(), "a connection with one end")
        for route, sent in sends.items():
            require(len(sent) == len(receives[route]), "as many receives as sends")
            for send, receive in zip(sent, receives[route], strict=True):
                require(send.count == receive.count, "as many chunks received as sent")
                before[receive].append(send)
        return before

    def _require_no_race(self) -> None:
        """Any two accesses to a chunk, one of which writes, must be ordered."""
        before, number = self._before(), {step: i for i, step in enumerate(self.steps)}
        order, left = deque[Step](), {step: len(found) for step, found in before.items()}
        after: dict[Step, list[Step]] = defaultdict(list)
        for step, found in before.items():
            for earlier in found:
                after[earlier].append(step)
        order.extend(step for step, count in left.items() if count == 0)
        reached: dict[Step, int] = {}
        done = 0
        while order:
            step = order.popleft()
            done += 1
            reached[step] = 1 << number[step]
            for earlier in before[step]:
                reached[step] |= reached[earlier]
            for later in after[step]:
                left[later] -= 1
                if not left[later]:
                    order.append(later)
        require(done == len(self.steps), "steps wait for each other")
        users: dict[tuple[int, str, int], list[tuple[Step, bool]]] = defaultdict(list)
        for step in self.steps:
            for chunk in {*step.reads, *step.writes}:
                users[chunk].append((step, chunk in step.writes))
        for accesses in users.values():
            for i, (a, a_writes) in enumerate(accesses):
                for b, b_writes in accesses[:i]:
                    if a_writes or b_writes:
                        ordered = reached[a] >> number[b] & 1 or reached[b] >> number[a] & 1
                        require(bool(ordered), "two steps race for a chunk")

    def run(self, seed: int) -> NDArray[np.int64]:
        """Execute steps in a random order; return how often each GPU's input is in each chunk: (gpu, chunk, of)."""
        choose, gpus = random.Random(seed), len(self.gpus)
        memory = np.zeros((gpus, self.chunks, gpus), np.int64)
        memory[range(gpus), :, range(gpus)] = 1
        at = {(gpu, number): 0 for gpu, blocks in self.gpus.items() for number in blocks}
        wires: Wires = defaultdict(deque)
        waiting = set(at)
        while waiting:
            ready = [place for place in sorted(waiting) if self._is_ready(place, at, wires)]
            require(bool(ready), "no step can be executed")
            place = choose.choice(ready)
            block = self.gpus[place[0]][place[1]]
            self._execute(block, block.steps[at[place]], memory, wires)
            at[place] += 1
            if at[place] == len(block.steps):
                waiting.remove(place)
        require(not any(wires.values()), "data that nobody received")
        return memory

    def _is_ready(self, place: tuple[int, int], at: dict[tuple[int, int], int], wires: Wires) -> bool:
        gpu, number = place
        block = self.gpus[gpu][number]
        step = block.steps[at[place]]
        if step.after and at[gpu, step.after[0]] <= step.after[1]:
            return False
        return step.kind not in RECEIVES or bool(wires[block.recv, gpu, block.chan])

    def _execute(self, block: Block, step: Step, memory: NDArray[np.int64], wires: Wires) -> None:
        if step.kind == "s":
            start = step.src[1]
            data = memory[step.gpu, start : start + step.count].copy()
            wires[step.gpu, block.send, block.chan].append(data)
        elif step.kind in ("r", "rrc"):
            data = wires[block.recv, step.gpu, block.chan].popleft()
            source, target = step.src[1], step.dst[1]
            if step.kind == "rrc":
                data = data + memory[step.gpu, source : source + step.count]
            memory[step.gpu, target : target + step.count] = data
