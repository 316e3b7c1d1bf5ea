"""What the stack adds to AF_XDP: one reliable connection against a bare loop, and against TCP."""

from __future__ import annotations

import json
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import kernel
from hipsnet.errors import HipsnetError
from hipsnet.node import namespace
from hipsnet.stack.ports import loop
from hipsnet.stack.ports.loop import Stack
from hipsnet.stack.roce.core import Core, load
from hipsnet.stack.xsk.sockets import RECEIVE_CHUNKS, SEND_FRAMES
from tools.benchmarks.two_nodes import INTERFACE, End, cable

app = typer.Typer()
WANTED_SHARE, WANTED_LATENCY = 0.8, 1.0
WRITE_BYTES, PING_BYTES, DEPTH = 1 << 20, 4096, 16
FRAME_BYTES = 14 + 20 + 8 + 12 + 4096 + 4  # the middle of a write: no RETH, no immediate
TCP_PORT = 29999
_FOLDER = Path(__file__).parent
_LATE_S = 0.3  # the receiver counts a little longer than the sender sends

Job = Callable[[Core, End, End, Connection], Any]
_processes = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Turn:
    """One turn: bytes by the second of the bare loop and of the connection; seconds to and fro."""

    bare_bytes_s: float
    stack_bytes_s: float
    stack_ping_s: float
    tcp_ping_s: float


@app.command()
def stack(
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each; their medians count.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each sends in a turn.")] = 1.0,
    pings: Annotated[int, typer.Option(min=1, help="Round trips in a turn.")] = 3000,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write results here; - for stdout.")
    ] = None,
) -> None:
    """Writes over one reliable connection against a bare AF_XDP loop; a 4 KiB write against TCP."""
    turns = []
    with cable() as ends, Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("stack", total=rounds)
        for _ in range(rounds):
            turns.append(measure(ends, seconds, pings))
            progress.advance(task)
    result = summarize(turns)
    if str(json_file) != "-":
        Console().print(_table(result))
    if json_file is not None:
        text = json.dumps({"benchmark": "stack", "results": [result]}, indent=2) + "\n"
        typer.echo(text, nl=False) if str(json_file) == "-" else json_file.write_text(text)


def measure(ends: tuple[End, End], seconds: float, pings: int) -> Turn:
    """One turn of everything, on one cable."""
    bare_frames, _ = _both(ends, _bare_sender(seconds), _bare_receiver(seconds))
    writes, _ = _both(ends, _flow_sender(seconds), _flow_receiver(seconds))
    stack_ping, _ = _both(ends, _stack_ping(pings, True), _stack_ping(pings, False))
    tcp_ping, _ = _both(ends, _tcp_ping(pings, True), _tcp_ping(pings, False))
    return Turn(bare_frames * 4096 / seconds, writes * WRITE_BYTES / seconds, stack_ping, tcp_ping)


def summarize(turns: list[Turn]) -> dict[str, float]:
    """The medians, and the two ratios turn by turn: both sides of a ratio had the same machine."""

    def median(value: Callable[[Turn], float]) -> float:
        return statistics.median(map(value, turns))

    return {
        "bare_bytes_s": median(lambda turn: turn.bare_bytes_s),
        "stack_bytes_s": median(lambda turn: turn.stack_bytes_s),
        "share": median(lambda turn: turn.stack_bytes_s / turn.bare_bytes_s),
        "stack_ping_us": median(lambda turn: turn.stack_ping_s * 1e6),
        "tcp_ping_us": median(lambda turn: turn.tcp_ping_s * 1e6),
        "latency": median(lambda turn: turn.stack_ping_s / turn.tcp_ping_s),
    }


def library() -> Core:
    """The stack with the loops of this benchmark."""
    sources = (*loop.SOURCES, str(_FOLDER / "stack_loops.c"))
    headers = (*loop.HEADERS, str(_FOLDER / "stack_loops.h"))
    return load(kernel.cache_folder(), "stack-bench", sources, headers, loop.LIBRARIES)


# both ends


def _both(ends: tuple[End, End], near: Job, far: Job) -> tuple[Any, Any]:
    """Run a job at each end, in a process of its own; what they give. The connection between them is ready."""
    library()
    here, there = _processes.Pipe()
    results, giver = _processes.Pipe(duplex=False)
    child = _processes.Process(target=_run, args=(far, ends[1], ends[0], there, giver))
    child.start()
    try:
        with namespace.inside(ends[0].namespace):
            mine = near(library(), ends[0], ends[1], here)
        if not results.poll(60):
            raise HipsnetError("the other end of the benchmark does not end")
        return mine, results.recv()
    finally:
        child.kill()
        child.join()


def _run(job: Job, end: End, other: End, pipe: Connection, giver: Connection) -> None:
    with namespace.inside(end.namespace):
        giver.send(job(library(), end, other, pipe))


def _begin(pipe: Connection, word: Any = None) -> Any:
    """Tell the other end something, and wait until it has something to tell."""
    pipe.send(word)
    return pipe.recv()


# the bare loop


@contextmanager
def _bare(made: Core, end: End) -> Iterator[Any]:
    ffi, lib = made
    memory, xsk = ffi.new("struct xsk_memory **"), ffi.new("struct xsk **")
    if lib.xsk_memory_open(memory, RECEIVE_CHUNKS, SEND_FRAMES, lib.RC_FRAME_MAX):
        raise HipsnetError("no memory for the benchmark")
    try:
        if lib.xsk_open(xsk, memory[0], INTERFACE.encode(), 0, 0):
            raise HipsnetError("no AF_XDP socket for the benchmark")
        endpoints = lib.xsk_open_map(bytes(end.endpoints))
        lib.xsk_refill(xsk[0])
        lib.xsk_join(xsk[0], endpoints, 0)
        yield xsk[0]
    finally:
        lib.xsk_close(xsk[0])
        lib.xsk_memory_close(memory[0])


def _bare_sender(seconds: float) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _bare(made, end) as xsk:
            _begin(pipe)
            made.lib.bare_send(xsk, _frame(end, other), FRAME_BYTES, _after(seconds))
            received: int = pipe.recv()
            return received

    return job


def _bare_receiver(seconds: float) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _bare(made, end) as xsk:
            _begin(pipe)
            received = int(made.lib.bare_receive(xsk, _after(seconds + _LATE_S)))
            pipe.send(received)
            return received

    return job


def _frame(end: End, other: End) -> bytes:
    """The headers of a frame that the far end's program hands over."""
    ethernet = _mac(other.mac) + _mac(end.mac) + b"\x08\x00"
    addresses = IPv4Address(end.address).packed + IPv4Address(other.address).packed
    ip = struct.pack("!BBHHHBBH", 0x45, 0, FRAME_BYTES - 14, 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", ip))
    check = 0xFFFF - (total % 0xFFFF)
    ip = ip[:10] + struct.pack("!H", check) + ip[12:]
    return (ethernet + ip + struct.pack("!4H", 50000, 4791, FRAME_BYTES - 34, 0)).ljust(64, b"\0")


def _after(seconds: float) -> int:
    return time.monotonic_ns() + int(seconds * 1e9)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


# the reliable connection


@contextmanager
def _flow(made: Core, end: End, other: End, pipe: Connection, size: int) -> Iterator[Any]:
    """A connected pair, as the C loops take it."""
    work = Stack(made)
    try:
        work.open_ports([end.port()])
        memory = np.zeros(size, np.uint8)
        key = work.register(memory)
        pair = work.pair(0, 0, 3, 64, 64)
        number, remote_key = _begin(pipe, (pair.number, key))
        pair.connect(
            0,
            time.monotonic_ns(),
            local_mac=_mac(end.mac),
            peer_mac=_mac(other.mac),
            local_ip=int(IPv4Address(end.address)),
            peer_ip=int(IPv4Address(other.address)),
            peer_qpn=number,
            send_psn=1,
            receive_psn=1,
            source_port=50000,
            path_mtu=4096,
            credits=True,
            window=512,
            ack_delay_ns=200_000,
        )
        _begin(pipe)
        buffer = made.ffi.from_buffer("u8[]", memory)
        yield made.ffi.new("struct flow *", (work.handle, pair.handle, buffer, size, remote_key, DEPTH))
    finally:
        work.close()


def _flow_sender(seconds: float) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _flow(made, end, other, pipe, WRITE_BYTES) as flow:
            return int(made.lib.flow_send(flow, _after(seconds)))

    return job


def _flow_receiver(seconds: float) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> int:
        with _flow(made, end, other, pipe, WRITE_BYTES) as flow:
            return int(made.lib.flow_receive(flow, _after(seconds + _LATE_S)))

    return job


def _stack_ping(pings: int, begins: bool) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> float:
        with _flow(made, end, other, pipe, PING_BYTES) as flow:
            took = made.lib.flow_ping(flow, pings, begins)
            if not took:
                raise HipsnetError("the stack's round trips stopped")
            return int(took) / 1e9 / pings

    return job


# TCP


def _tcp_ping(pings: int, begins: bool) -> Job:
    def job(made: Core, end: End, other: End, pipe: Connection) -> float:
        with _tcp(end, other, pipe, begins) as sock:
            memory = np.zeros(PING_BYTES, np.uint8)
            took = made.lib.tcp_ping(
                sock.fileno(), made.ffi.from_buffer("u8[]", memory), PING_BYTES, pings, begins
            )
            if not took:
                raise HipsnetError("the round trips over TCP stopped")
            return int(took) / 1e9 / pings

    return job


@contextmanager
def _tcp(end: End, other: End, pipe: Connection, begins: bool) -> Iterator[socket.socket]:
    if begins:
        _begin(pipe)
        sock = socket.create_connection((other.address, TCP_PORT), timeout=10)
    else:
        with socket.create_server((end.address, TCP_PORT)) as listener:
            _begin(pipe)
            sock, _ = listener.accept()
    with sock:
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def _table(result: dict[str, float]) -> Table:
    table = Table(title="one AF_XDP pair over veth, on two CPUs; wants a quiet machine")
    for column in ("", "hipsnet", "against", "ratio", "wanted", ""):
        table.add_column(column, justify="right")
    share, latency = result["share"], result["latency"]
    table.add_row(
        "1 MiB writes (Gbit/s)",
        f"{result['stack_bytes_s'] * 8 / 1e9:.2f}",
        f"bare loop {result['bare_bytes_s'] * 8 / 1e9:.2f}",
        f"{share:.2f}",
        f">= {WANTED_SHARE:g}",
        "yes" if share >= WANTED_SHARE else "no",
    )
    table.add_row(
        "4 KiB to and fro (us)",
        f"{result['stack_ping_us']:.1f}",
        f"TCP {result['tcp_ping_us']:.1f}",
        f"{latency:.2f}",
        f"<= {WANTED_LATENCY:g}",
        "yes" if latency <= WANTED_LATENCY else "no",
    )
    return table
