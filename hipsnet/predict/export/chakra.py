# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces, one for each rank, of the sends and receives of a schedule (mlcommons/chakra).

A file has length-delimited protobuf messages: a GlobalMetadata, then a Node for each transfer that the rank sends
or receives. Field numbers are those of schema/protobuf/et_def.proto; comm_size is an int64 and the ranks and tags
are int32, as the feeders of ASTRA-sim read them. Additions take no time in the trace.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsnet.collective.schedule import Schedule
from hipsnet.predict.export.chunks import Step, steps
from hipsnet.topology import Fabric

VERSION = "0.0.4"
SEND, RECEIVE = 5, 6
"""NodeType: COMM_SEND_NODE, COMM_RECV_NODE."""

_VARINT, _BYTES = 0, 2
_TAG_BITS = 20


def traces(schedule: Schedule, fabric: Fabric, item_bytes: int) -> Iterator[bytes]:
    """Yield the content of each rank's file, in order of rank."""
    for rank in range(schedule.world_size):
        found = steps(schedule, fabric, rank)
        last: dict[int, int] = {}
        content = [_delimited(_text(1, VERSION))]
        for step in found:
            before = sorted({*step.after, *([last[step.lane]] if step.lane in last else [])})
            content.append(_delimited(_node(step, rank, before, item_bytes)))
            last[step.lane] = step.index
        yield b"".join(content)


def _node(step: Step, rank: int, before: list[int], item_bytes: int) -> bytes:
    source, target = (rank, step.peer) if step.sends else (step.peer, rank)
    name = f"{'send' if step.sends else 'recv'} {source} to {target}, {step.number}"
    tag = step.port << _TAG_BITS | step.number
    return b"".join(
        (
            _number(1, step.index),
            _text(2, name),
            _number(3, SEND if step.sends else RECEIVE),
            _packed(5, before),
            _attribute("is_cpu_op", 27, 0),
            _attribute("comm_size", 9, step.count * item_bytes),
            _attribute("comm_src", 7, source),
            _attribute("comm_dst", 7, target),
            _attribute("comm_tag", 7, tag),
        )
    )


def _attribute(name: str, field: int, value: int) -> bytes:
    return _message(10, _text(1, name) + _number(field, value))


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _delimited(content)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _packed(field: int, values: list[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values))) if values else b""


def _delimited(content: bytes) -> bytes:
    return _varint(len(content)) + content
