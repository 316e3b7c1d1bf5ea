# SPDX-License-Identifier: Apache-2.0
"""AF_XDP sockets on a cable: every byte of every frame, and every chunk of the UMEM."""

from __future__ import annotations

import array
import multiprocessing
import os
import socket as sockets
from collections.abc import Iterator

import pytest

from hipsnet.node import namespace
from hipsnet.stack.ports.loop import core
from tests.lab.rig import run
from tests.stack.sockets import CHUNKS, Socket, memory, roce, socket
from tools.benchmarks.two_nodes import INTERFACE, End, cable

SIZES = (60, 61, 1514, 3839, 3840, 3841, 4096, 4097, 4178, 7680, 7681, 8192, 8193, 9014)


@pytest.fixture(scope="module")
def ends() -> Iterator[tuple[End, End]]:
    if os.geteuid() != 0:
        pytest.skip("root: makes network namespaces")
    core()
    with cable() as ends:
        yield ends


@pytest.fixture
def pair(ends: tuple[End, End]) -> Iterator[tuple[Socket, Socket]]:
    """A socket at each end, each with its own UMEM; afterwards every chunk is back in its place."""
    with memory() as near_memory, memory() as far_memory:
        with socket(ends[0], near_memory) as near, socket(ends[1], far_memory) as far:
            yield near, far
        assert (near_memory.free(), far_memory.free()) == (CHUNKS, CHUNKS)


def test_frames_of_every_size_arrive_whole(ends: tuple[End, End], pair: tuple[Socket, Socket]) -> None:
    near, far = pair
    frames = [roce(*ends, number, size) for number, size in enumerate(SIZES)]
    assert near.send(*frames) == len(frames)
    assert far.await_frames(len(frames)) == frames
    assert far.statistics().rx_frames == len(frames)
    assert far.statistics().rx_bytes == near.statistics().tx_bytes == sum(SIZES)


def test_many_frames_keep_their_order_and_chunks_come_back(
    ends: tuple[End, End], pair: tuple[Socket, Socket]
) -> None:
    near, far = pair
    received, sent = 0, 0
    while received < 5000:
        batch = [roce(*ends, number, 60 + number % 4096) for number in range(sent, sent + 100)]
        sent += near.send(*batch)
        for frame in far.await_frames(sent - received):
            assert frame == roce(*ends, received, 60 + received % 4096)
            received += 1
    assert near.statistics().tx_frames == sent == received
    assert near.statistics().tx_full == 0


def test_more_frames_than_one_call_sends(ends: tuple[End, End], pair: tuple[Socket, Socket]) -> None:
    near, far = pair
    frames = [roce(*ends, number, 200) for number in range(400)]
    assert near.send(*frames) == 400
    assert far.await_frames(400) == frames
    assert near.statistics().kicks >= 1


def test_the_send_zone_fills_and_empties(ends: tuple[End, End]) -> None:
    with (
        memory(frames=8) as few,
        memory() as there,
        socket(ends[0], few) as near,
        socket(ends[1], there) as far,
    ):
        lib = core().lib
        frames = [roce(*ends, number, 9000) for number in range(8)]
        for turn in (1, 2):
            for frame in frames:
                buffer = lib.xsk_reserve(near.made)
                core().ffi.memmove(buffer, frame, len(frame))
                lib.xsk_commit(near.made, buffer, len(frame))
            assert lib.xsk_reserve(near.made) == core().ffi.NULL
            assert near.statistics().tx_full == turn
            assert lib.xsk_kick(near.made) == 0
            assert far.await_frames(8) == frames


def test_a_receiver_that_does_not_read_loses_frames_and_recovers(
    ends: tuple[End, End], pair: tuple[Socket, Socket]
) -> None:
    near, far = pair
    for number in range(0, 3000, 100):
        assert near.send(*(roce(*ends, number + i, 100) for i in range(100))) == 100
    lost = far.statistics()
    assert lost.rx_dropped + lost.rx_ring_full + lost.rx_fill_empty > 0
    first = far.await_frames(1)
    assert first[0] == roce(*ends, 0, 100)
    while far.take():
        continue
    assert near.send(roce(*ends, 77, 500)) == 1
    assert far.await_frames(1) == [roce(*ends, 77, 500)]


def test_frames_other_than_roce_are_passed_as_before(
    ends: tuple[End, End], pair: tuple[Socket, Socket]
) -> None:
    with namespace.inside(ends[1].namespace):
        listener = sockets.create_server((ends[1].address, 9000))
    with namespace.inside(ends[0].namespace):
        caller = sockets.create_connection((ends[1].address, 9000), timeout=5)
    with listener, caller, listener.accept()[0] as accepted:
        caller.sendall(b"by the kernel")
        assert accepted.recv(64) == b"by the kernel"
    run("ip", "netns", "exec", ends[0].namespace, "ping", "-c1", "-W2", ends[1].address)
    assert pair[1].take() == []


def test_a_frame_is_forwarded_by_another_socket_unchanged(ends: tuple[End, End]) -> None:
    ffi, lib = core()
    near_end, far_end = ends
    with memory() as common, memory(chunks=64) as other, cable() as (middle, last):
        with socket(last, other) as end, socket(far_end, common) as taker, socket(middle, common) as giver:
            for made in (taker, giver):
                lib.xsk_limit_fill(made.made, CHUNKS // 4)
            with memory() as mine, socket(near_end, mine) as near:
                frame = roce(middle, last, 5, 9000)
                near.send(roce(near_end, far_end, 1, 9000))
                frames = ffi.new("struct xsk_frame[]", 4)
                while lib.xsk_receive(taker.made, frames, 4) == 0:
                    continue
                spans = [ffi.buffer(span.data, span.bytes) for span in frames[0].spans[0 : frames[0].count]]
                spans[0][:] = frame[: len(spans[0])]
                rest = b"".join(map(bytes, spans[1:]))
                assert lib.xsk_forward(giver.made, frames)
                assert lib.xsk_kick(giver.made) == 0
                (arrived,) = end.await_frames(1)
                assert arrived == frame[: len(frame) - len(rest)] + rest
        assert common.free() == CHUNKS


def test_a_queue_has_one_socket_and_another_when_that_is_closed(ends: tuple[End, End]) -> None:
    ffi, lib = core()
    with memory() as first, memory() as second:
        with socket(ends[0], first):
            made = ffi.new("struct xsk **")
            with namespace.inside(ends[0].namespace):
                assert lib.xsk_open(made, second.made, INTERFACE.encode(), 0, 0) == -16
            assert second.free() == CHUNKS
        with socket(ends[0], second):
            pass


def test_a_worker_without_any_privilege_takes_over_an_open_socket(ends: tuple[End, End]) -> None:
    near_end, far_end = ends
    ours, theirs = sockets.socketpair(sockets.AF_UNIX, sockets.SOCK_SEQPACKET)
    child = multiprocessing.get_context("fork").Process(target=_echo, args=(theirs, near_end, far_end))
    with memory(chunks=256, frames=64) as owned, memory() as mine:
        lib = core().lib
        child.start()
        with socket(far_end, owned) as handed, socket(near_end, mine) as near:
            fds = array.array("i", [lib.xsk_fd(handed.made), lib.xsk_memory_fd(owned.made)])
            ours.sendmsg([b"socket, memory"], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, fds)])
            assert ours.recv(64) == b"ready: 65534"
            frame = roce(near_end, far_end, 9, 5000)
            near.send(frame)
            (answer,) = near.await_frames(1)
            assert answer == roce(far_end, near_end, 10, 5000)
            ours.send(b"end")
            child.join(10)
            assert child.exitcode == 0


def _echo(theirs: sockets.socket, near: End, far: End) -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ffi, lib = core()
    _, data, _, _ = theirs.recvmsg(64, sockets.CMSG_SPACE(8))
    fds = array.array("i", data[0][2])
    adopted, made = ffi.new("struct xsk_memory **"), ffi.new("struct xsk **")
    assert lib.xsk_memory_adopt(adopted, fds[1], (256, 64, 9018)) == 0
    assert lib.xsk_adopt(made, adopted[0], fds[0]) == 0
    lib.xsk_refill(made[0])
    mine = Socket(made[0])
    theirs.send(f"ready: {os.getuid()}".encode())
    (frame,) = mine.await_frames(1)
    assert frame == roce(near, far, 9, 5000)
    mine.send(roce(far, near, 10, 5000))
    theirs.recv(64)
    lib.xsk_close(made[0])
    assert lib.xsk_memory_free(adopted[0]) == 256
    lib.xsk_memory_close(adopted[0])
    os._exit(0)
