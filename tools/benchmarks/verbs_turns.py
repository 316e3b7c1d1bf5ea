# SPDX-License-Identifier: Apache-2.0
"""The turns of `tools/bench verbs`, in the machine: prints one JSON line for each.

Each turn writes messages of one size from one process to another over the same cable: by perftest's
ib_write_bw, and by the engine over the verbs wire (libibverbs from C, or callbacks to pyverbs) and the TCP wire.
All have as many writes, of which as many may be in flight, and RDMA the same path MTU and as many signals; time
counts until the last write is acknowledged. The order of the ways rotates with every round, so that no way always
has the machine's best moments.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hipsnet.engine.engine import Engine, Limits, Piece, State
from hipsnet.engine.plans import SEGMENT, PlanArrays
from hipsnet.engine.wire.verbs import VerbsWire
from hipsnet.engine.wire.verbs_library import library
from hipsnet.engine.wire.verbs_posting import PyverbsPosting
from hipsnet.engine.wire.wire import Wire, open_wire
from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Peer
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs.devices import endpoint_of
from hipsnet.transport.verbs.layout import SIGNAL_EVERY
from tools.benchmarks.rdma_pair import ENDS, rdma_pair

WRITES, BYTES, MOST = 16, 32 << 20, 1024
"""Lower bounds of a turn, in writes and in bytes; the last bounds the number of small writes."""
PATH_MTU = 4096
IN_FLIGHT = 8  # CORE_IN_FLIGHT
_PATIENCE_S = 120.0
_ATTEMPTS = 5
_PORT = 29500
_processes = multiprocessing.get_context("fork")


def writes_of(size_bytes: int) -> int:
    return min(MOST, max(WRITES, BYTES // size_bytes))


def perftest(size_bytes: int) -> float:
    """Bytes per second of ib_write_bw: its average over one run."""
    return first_possible((_perftest_run(size_bytes) for _ in range(_ATTEMPTS)), size_bytes)


def first_possible(runs: Iterable[tuple[str, float]], size_bytes: int) -> float:
    """The bandwidth of the first plausible run; a run is the output of ib_write_bw and its lifetime.

    It counts the processor's cycles and guesses their length. On an emulated processor the guess can fail: it is
    0 then, and so is the bandwidth. Whatever it says, its writes took no longer than its life.
    """
    wrong = []
    for text, lived_s in runs:
        rate = printed_rate(text, size_bytes)
        if rate * lived_s >= writes_of(size_bytes) * size_bytes:
            return rate
        wrong.append(f"{rate:g} bytes/s in {lived_s:.1f} s")
    raise TransportError(
        f"ib_write_bw wrote {writes_of(size_bytes)} times {size_bytes} bytes and printed an impossible rate, "
        f"{'; '.join(wrong)}; look at its words about the processor's clock:\n{text}"
    )


def printed_rate(text: str, size_bytes: int) -> float:
    """The average bytes per second that ib_write_bw printed; TransportError if it printed none."""
    found = re.search(rf"^\s*{size_bytes}\s+\d+\s+[\d.]+\s+([\d.]+)", text, re.MULTILINE)
    if found is None:
        raise TransportError(f"ib_write_bw printed no bandwidth for {size_bytes} bytes; its output:\n{text}")
    return float(found[1]) * (1 << 20)  # its MB are 2^20


def _perftest_run(size_bytes: int) -> tuple[str, float]:
    """The output of a client that exited, and its lifetime."""
    near, far = ENDS
    common = [
        *("-s", str(size_bytes), "-n", str(writes_of(size_bytes)), "-m", str(PATH_MTU)),
        *("-t", str(IN_FLIGHT), "-Q", str(min(IN_FLIGHT, SIGNAL_EVERY, writes_of(size_bytes))), "-F", "-N"),
    ]
    near_gid, far_gid = (endpoint_of(end.address).gid_index for end in ENDS)
    server = _perftest(far.device, far_gid, common)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            began = time.monotonic()
            client = _perftest(near.device, near_gid, [*common, far.address])
            text = client.communicate(timeout=_PATIENCE_S)[0]
            if client.returncode == 0:
                return text, time.monotonic() - began
            if time.monotonic() > deadline:
                raise TransportError(f"ib_write_bw ended with {client.returncode}; it said:\n{text}")
            time.sleep(0.1)  # the server is not listening yet
    finally:
        server.kill()
        server.wait()


def _perftest(device: str, gid_index: int, rest: list[str]) -> subprocess.Popen[str]:
    command = ["ib_write_bw", "-d", device, "-x", str(gid_index), *rest]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def engine(way: str, size_bytes: int) -> tuple[float, float]:
    """Bytes per second, and CPU seconds of the sending process for each write, over one of our wires."""
    token = secrets.token_hex(8)
    results, theirs = _processes.Pipe(duplex=False)
    processes = [
        _processes.Process(target=_rank, args=(rank, way, size_bytes, token, theirs)) for rank in (0, 1)
    ]
    for process in processes:
        process.start()
    theirs.close()
    try:
        if not results.poll(_PATIENCE_S):
            raise TransportError(f"{way} did not finish a turn of {size_bytes} bytes")
        rate, cpu_s = results.recv()
        return rate, cpu_s
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _rank(rank: int, way: str, size_bytes: int, token: str, results: Connection) -> None:
    here, there = ENDS[rank], ENDS[1 - rank]
    peers = [Peer(1 - rank, 0, here.address, 0, there.address)]
    name = "tcp" if way == "tcp" else "verbs"
    transport = open_transport(name, Greeting(rank, 2, "bench", token), Options(_PORT))
    transport.connect(peers, 30.0)
    limits = Limits(_PATIENCE_S / 2, _PATIENCE_S, slots=2, slot_bytes=size_bytes, eager_bytes=8, reserve=1)
    runner = Engine(_wire(way, transport, limits.message_max), rank, 2, peers, limits)
    for count in (1, writes_of(size_bytes)):
        array = np.zeros(size_bytes // 4, np.float32)
        began_s, used_s = time.perf_counter(), time.process_time()
        call = runner.submit(_plan(rank == 0, count, len(array)), [Piece(array)], array.dtype, "copy")
        if runner.wait(call, _PATIENCE_S) != State.DONE:
            raise TransportError(f"{way}: a turn of {size_bytes} bytes failed")
        lasted_s, used_s = time.perf_counter() - began_s, time.process_time() - used_s
    if rank == 0:
        results.send((count * size_bytes / lasted_s, used_s / count))
    runner.close()


def _wire(way: str, transport: Any, message_max: int) -> Wire:
    if way == "callbacks":
        return VerbsWire(transport, PyverbsPosting(library(), transport))
    return open_wire("tcp" if way == "tcp" else "verbs", transport, message_max)


def _plan(sends: bool, count: int, elements: int) -> PlanArrays:
    """As many writes of the whole vector from one rank to the other, in place."""
    segments = np.zeros(count, SEGMENT)
    segments["length"], segments["number"], segments["sends"] = elements, np.arange(count), sends
    none = np.zeros(2, np.uint32), np.zeros(1, np.uint32)
    every = np.array([0, count], np.uint32), np.arange(count, dtype=np.uint32)
    return PlanArrays(
        elements,
        elements,
        1,
        segments,
        np.zeros(count, np.uint32),
        (np.zeros(count + 1, np.uint32), np.zeros(1, np.uint32)),
        every if sends else none,
        none if sends else every,
    )


TURNS: dict[str, Callable[[int], tuple[float, float]]] = {
    "ib_write_bw": lambda size: (perftest(size), 0.0),
    "verbs": lambda size: engine("verbs", size),
    "callbacks": lambda size: engine("callbacks", size),
    "tcp": lambda size: engine("tcp", size),
}
WAYS = tuple(TURNS)


def main(sizes: list[int], rounds: int) -> None:
    importlib.import_module("hipsnet.engine.wire.verbs")  # once, not in every turn
    library()
    with rdma_pair():
        for round_ in range(rounds):
            for size in sizes:
                first = round_ % len(WAYS)
                for way in WAYS[first:] + WAYS[:first]:
                    rate, cpu_s = TURNS[way](size)
                    words = {"way": way, "size_bytes": size, "bytes_per_s": rate, "cpu_s": cpu_s}
                    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[2:]], int(sys.argv[1]))
