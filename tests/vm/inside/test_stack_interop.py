# SPDX-License-Identifier: Apache-2.0
"""Our reliable connection interoperates with the kernel's rdma_rxe, also when packets are lost."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hipsnet.errors import CapabilityError
from hipsnet.stack.building import library
from hipsnet.stack.roce import core as stack_core
from hipsnet.stack.roce.core import Core
from kernel import cache_folder
from tests.vm.inside.rxe_peer import Joined, cable, immediate_of

MIB = 1 << 20
SIZES = [1, 3, 1024, 4096, 4097, 100_001, MIB, MIB - 5]
OFFSETS = [sum(SIZES[:i]) for i in range(len(SIZES))]
TOTAL = sum(SIZES)
DATA = random.Random(4791).randbytes(TOTAL)
IMMEDIATE = 0xDEADBE00
WC_REMOTE_ACCESS = 10  # ibv_wc_status
LINKTYPE_ETHERNET = 1
GUESSES = ("rpcordma", "smb_direct", "iser", "nvme-rdma", "lnet", "smc", "infiniband_sdp", "fcoib")

_frames: list[bytes] = []  # all that passed in this run, for the dissectors

if "HIPSNET_VM" not in os.environ:
    with suppress(CapabilityError):  # otherwise the machine compiles it, or reports why not
        library("core", stack_core.SOURCES, cache_folder())


@pytest.fixture(scope="module")
def core() -> Iterator[Core]:
    with cable():
        yield stack_core.load(cache_folder())


@pytest.fixture(params=[(4096, 0.0), (4096, 0.02), (1024, 0.005)], ids=["4096", "4096-lossy", "1024-lossy"])
def joined(core: Core, request: pytest.FixtureRequest) -> Iterator[Joined]:
    mtu, loss = request.param
    pair = Joined(core, mtu, loss, TOTAL)
    yield pair
    _frames.extend(pair.frames)
    pair.close()
    assert bool(pair.lost) == bool(loss)


@pytest.fixture
def plain(core: Core) -> Iterator[Joined]:
    pair = Joined(core, 1024, 0.0, 1 << 16, min_rnr_timer=14)
    yield pair
    _frames.extend(pair.frames)
    pair.close()


def test_sends_to_the_kernel(joined: Joined) -> None:
    for i, (offset, size) in enumerate(zip(OFFSETS, SIZES, strict=True)):
        joined.theirs.receive(i, offset, size)
        assert joined.ours.send(DATA[offset : offset + size], i, immediate=IMMEDIATE + i if i % 2 else None)
    assert joined.both(len(SIZES), len(SIZES))
    assert [(one.id, one.status) for one in joined.ours.completions] == [(i, 0) for i in range(len(SIZES))]
    found = [(one.wr_id, one.status, one.byte_len) for one in joined.theirs.completions]
    assert found == [(i, 0, size) for i, size in enumerate(SIZES)]
    assert [immediate_of(one) for one in joined.theirs.completions[1::2]] == [
        IMMEDIATE + i for i in range(1, len(SIZES), 2)
    ]
    assert joined.theirs.memory.array.tobytes() == DATA


def test_sends_of_the_kernel(joined: Joined) -> None:
    joined.theirs.memory.array[:] = np.frombuffer(DATA, np.uint8)
    buffers = [joined.ours.receive(size, i) for i, size in enumerate(SIZES)]
    for i, (offset, size) in enumerate(zip(OFFSETS, SIZES, strict=True)):
        joined.theirs.post(i, offset, size, immediate=IMMEDIATE + i if i % 2 else None)
    assert joined.both(len(SIZES), len(SIZES))
    assert [(one.wr_id, one.status) for one in joined.theirs.completions] == [
        (i, 0) for i in range(len(SIZES))
    ]
    found = [(one.id, one.status, one.bytes) for one in joined.ours.completions]
    assert found == [(i, 0, size) for i, size in enumerate(SIZES)]
    assert [one.immediate for one in joined.ours.completions if one.has_immediate] == [
        IMMEDIATE + i for i in range(1, len(SIZES), 2)
    ]
    assert b"".join(bytes(buffer) for buffer in buffers) == DATA


def test_writes_to_the_kernel(joined: Joined) -> None:
    memory = joined.theirs.memory
    for i, (offset, size) in enumerate(zip(OFFSETS, SIZES, strict=True)):
        joined.theirs.receive(i, 0, 0)
        immediate = IMMEDIATE + i
        assert joined.ours.write(
            DATA[offset : offset + size], memory.address + offset, memory.region.rkey, i, immediate
        )
    assert joined.both(len(SIZES), len(SIZES))
    assert [(one.id, one.status) for one in joined.ours.completions] == [(i, 0) for i in range(len(SIZES))]
    found = [(one.wr_id, one.status, immediate_of(one)) for one in joined.theirs.completions]
    assert found == [(i, 0, IMMEDIATE + i) for i in range(len(SIZES))]
    assert memory.array.tobytes() == DATA


def test_writes_of_the_kernel(joined: Joined) -> None:
    joined.theirs.memory.array[:] = np.frombuffer(DATA, np.uint8)
    memory = joined.ours.register(TOTAL)
    for i, (offset, size) in enumerate(zip(OFFSETS, SIZES, strict=True)):
        joined.ours.receive(0, i)
        joined.theirs.post(i, offset, size, (memory.address + offset, memory.key), IMMEDIATE + i)
    assert joined.both(len(SIZES), len(SIZES))
    assert [(one.wr_id, one.status) for one in joined.theirs.completions] == [
        (i, 0) for i in range(len(SIZES))
    ]
    found = [(one.id, one.status, one.bytes, one.immediate) for one in joined.ours.completions]
    assert found == [(i, 0, size, IMMEDIATE + i) for i, size in enumerate(SIZES)]
    assert memory.read(TOTAL) == DATA
    assert memory.is_guarded()


def test_both_ways_at_once(core: Core) -> None:
    joined = Joined(core, 4096, 0.01, 2 * MIB)
    try:
        half = random.Random(1).randbytes(MIB)
        joined.theirs.memory.array[MIB:] = np.frombuffer(half, np.uint8)
        memory = joined.ours.register(MIB)
        for i in range(16):
            part = slice(i << 16, i + 1 << 16)
            joined.ours.receive(0, i)
            joined.theirs.receive(100 + i, 0, 0)
            joined.theirs.post(i, MIB + (i << 16), 1 << 16, (memory.address + (i << 16), memory.key), i)
            to = joined.theirs.memory.address + (i << 16)
            assert joined.ours.write(half[part], to, joined.theirs.memory.region.rkey, 100 + i, i)
        assert joined.both(32, 32)
        assert {one.status for one in joined.ours.completions} == {0}
        assert {one.status for one in joined.theirs.completions} == {0}
        assert memory.read(MIB) == half
        assert joined.theirs.memory.array[:MIB].tobytes() == half
        _frames.extend(joined.frames)
    finally:
        joined.close()


def test_the_kernel_has_no_receive_yet(plain: Joined) -> None:
    assert plain.ours.send(b"wait for me", 1)
    assert plain.run(lambda: plain.ours.counters.rx_nak_rnr >= 2)
    plain.theirs.receive(5, 0, 64)
    assert plain.both(1, 1)
    assert plain.ours.completions[0].status == 0
    assert plain.theirs.memory.array[:11].tobytes() == b"wait for me"


def test_we_have_no_receive_yet(plain: Joined) -> None:
    plain.theirs.memory.array[:11] = np.frombuffer(b"wait for me", np.uint8)
    plain.theirs.post(1, 0, 11)
    assert plain.run(lambda: plain.ours.counters.tx_nak_rnr >= 2)
    buffer = plain.ours.receive(64, 5)
    assert plain.both(1, 1)
    assert plain.theirs.completions[0].status == 0
    assert bytes(buffer)[:11] == b"wait for me"


def test_the_kernel_refuses_a_wrong_key(plain: Joined) -> None:
    memory = plain.theirs.memory
    assert plain.ours.write(b"x", memory.address, memory.region.rkey ^ 0x100, 3)
    assert plain.run(lambda: bool(plain.ours.completions))
    assert plain.ours.completions[0].status == plain.ours.lib.RC_REMOTE_ACCESS
    assert not memory.array.any()


@pytest.mark.parametrize(("flip", "offset"), [(1, 0), (0, 4096 - 10), (0, -1)])
def test_we_refuse_the_kernel(plain: Joined, flip: int, offset: int) -> None:
    memory = plain.ours.register(4096)
    plain.theirs.memory.array[:] = 7
    plain.theirs.post(3, 0, 11, (memory.address + offset, memory.key ^ flip))
    assert plain.run(lambda: bool(plain.theirs.completions))
    assert plain.theirs.completions[0].status == WC_REMOTE_ACCESS
    assert plain.ours.counters.tx_nak_access >= 1
    assert not any(memory.read(4096))
    assert memory.is_guarded()


def a_few_of_each_kind() -> list[bytes]:
    """Of the frames that passed, some of each opcode from each side: dissectors are slow."""
    kinds: dict[tuple[int, int], list[bytes]] = {}
    for frame in _frames:
        kinds.setdefault((frame[42], frame[29]), []).append(frame)
    return [frame for frames in kinds.values() for frame in frames[:5] + frames[-5:]]


def test_scapy_reads_and_makes_the_same(core: Core) -> None:
    from tests.stack.crafted import rebuilt

    frames = a_few_of_each_kind()
    assert {frame[42] for frame in frames} >= {0, 1, 2, 3, 4, 5, 6, 7, 9, 0x0B, 0x11}
    for frame in frames:
        assert rebuilt(frame) == frame


def test_tshark_reads_the_same(core: Core, tmp_path: Path) -> None:
    frames = a_few_of_each_kind()
    capture = tmp_path / "frames.pcap"
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINKTYPE_ETHERNET)
    records = (struct.pack("<IIII", 0, i, len(frame), len(frame)) + frame for i, frame in enumerate(frames))
    capture.write_bytes(head + b"".join(records))
    fields = ["bth.opcode", "bth.destqp", "bth.psn", "invariant.crc"]
    selected = [part for field in fields for part in ("-e", f"infiniband.{field}")]
    # The payload means nothing: no dissector is to guess at it.
    guesses = [part for name in GUESSES for part in ("--disable-protocol", name)]
    command = ["tshark", "-n", "-r", str(capture), *guesses, "-T", "fields", *selected, "-e", "_ws.malformed"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [
        tuple(int(number, 0) if number else None for number in line.split("\t")) for line in text.splitlines()
    ]
    assert found == [
        (
            frame[42],
            int.from_bytes(frame[47:50], "big"),
            int.from_bytes(frame[51:54], "big"),
            int.from_bytes(frame[-4:], "big"),
            None,
        )
        for frame in frames
    ]
