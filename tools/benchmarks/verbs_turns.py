# SPDX-License-Identifier: Apache-2.0
"""The turns of `tools/bench verbs`, in the machine: prints one JSON line for each.

Each turn writes messages of one size from one process to another over the same cable: by perftest's
ib_write_bw, by the verbs transport, by the TCP transport. All have as many writes, of which as many may be under
way, and RDMA the same path MTU and as many signals; time counts until the last write is acknowledged. The order of
the ways turns with every round, so that none has the machine's best moments to itself.
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

import numpy as np

from hipsnet.errors import TransportError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Completion, Event, Peer, Transport
from hipsnet.transport.options import Options
from hipsnet.transport.registry import open_transport
from hipsnet.transport.verbs.devices import endpoint_of
from hipsnet.transport.verbs.flow import SIGNAL_EVERY, WINDOW
from tools.benchmarks.rdma_pair import ENDS, rdma_pair

WRITES, BYTES, MOST = 16, 32 << 20, 1024
"""Lower bounds of a turn, in writes and in bytes; the last bounds the number of small writes."""
PATH_MTU = 4096
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
        *("-t", str(WINDOW), "-Q", str(min(SIGNAL_EVERY, writes_of(size_bytes))), "-F", "-N"),
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


def transport(name: str, size_bytes: int) -> float:
    """Bytes per second of our transport: from the first write posted to the last one acknowledged."""
    token = secrets.token_hex(8)
    results, theirs = _processes.Pipe(duplex=False)
    processes = [
        _processes.Process(target=_rank, args=(rank, name, size_bytes, token, theirs)) for rank in (0, 1)
    ]
    for process in processes:
        process.start()
    theirs.close()
    try:
        if not results.poll(_PATIENCE_S):
            raise TransportError(f"the {name} transport did not finish a turn of {size_bytes} bytes")
        return float(results.recv())
    finally:
        for process in processes:
            process.join(5)
            process.kill()


def _rank(rank: int, name: str, size_bytes: int, token: str, results: Connection) -> None:
    here, there = ENDS[rank], ENDS[1 - rank]
    count = writes_of(size_bytes)
    link = open_transport(name, Greeting(rank, 2, "bench", token), Options(_PORT))
    link.connect([Peer(1 - rank, 0, here.address, 0, there.address)], 30.0)
    region = link.register(np.zeros(size_bytes, np.uint8))
    link.post_message(0, str(region.key).encode())
    key = int(_await(link, Event.MESSAGE, 1)[0].payload)
    if rank == 0:
        for warm in (True, False):
            began = time.perf_counter()
            for number in range(1 if warm else count):
                link.post_write(0, region, 0, size_bytes, key, 0, number)
            _await(link, Event.SENT, 1 if warm else count)
        results.send(count * size_bytes / (time.perf_counter() - began))
        link.post_message(0, b"done")
        link.drain(5.0)
    else:
        _await(link, Event.MESSAGE, 1)
    link.close()


def _await(link: Transport, event: Event, count: int) -> list[Completion]:
    found: list[Completion] = []
    deadline = time.monotonic() + _PATIENCE_S
    while len(found) < count:
        for completion in link.poll(1.0):
            if completion.event == event:
                found.append(completion)
            elif completion.event == Event.CLOSED or time.monotonic() > deadline:
                raise TransportError(f"{len(found)} of {count}: {completion.payload.decode()}")
    return found


TURNS: dict[str, Callable[[int], float]] = {
    "ib_write_bw": perftest,
    "verbs": lambda size: transport("verbs", size),
    "tcp": lambda size: transport("tcp", size),
}
WAYS = tuple(TURNS)


def main(sizes: list[int], rounds: int) -> None:
    importlib.import_module("hipsnet.transport.verbs.transport")  # once, not in every turn
    with rdma_pair():
        for round_ in range(rounds):
            for size in sizes:
                for way in WAYS[round_ % 3 :] + WAYS[: round_ % 3]:
                    rate = TURNS[way](size)
                    print(json.dumps({"way": way, "size_bytes": size, "bytes_per_s": rate}), flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[2:]], int(sys.argv[1]))
