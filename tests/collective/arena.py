# SPDX-License-Identifier: Apache-2.0
"""A job in one network namespace: each rank is a process, and each port address is on the loopback interface."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

import hipsnet
import hipsnet.errors
from hipsnet.engine.library import library
from hipsnet.node import namespace
from hipsnet.topology import build, parse

Body = Callable[[Any], Any]
"""Runs in a rank's process with its Communicator; its return value is passed to the test."""

_processes = multiprocessing.get_context("fork")


@dataclass
class Outcome:
    """The outcome of a rank: the `value` its body returned, or the text of the error it raised."""

    value: Any = None
    error: str = ""


@dataclass
class Arena:
    """A fabric's addresses in one namespace (without a name: in this one), and the settings of the jobs there."""

    name: str | None
    file: Path
    world_size: int
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, body: Body, bound_s: float = 60, **settings: Any) -> list[Outcome]:
        """Run `body` on every rank and return their outcomes by rank."""
        with self.start(body, **settings) as ranks:
            return [rank.outcome(bound_s) for rank in ranks]

    @contextmanager
    def start(
        self, body: Body, per_rank: dict[int, dict[str, Any]] | None = None, **settings: Any
    ) -> Iterator[list[Rank]]:
        """Start `body` on every rank; `per_rank` overrides `settings`. Kills leftovers."""
        library()  # compiled once, not by every rank
        token = secrets.token_hex(8)
        given = {
            "topology": str(self.file),
            "world_size": self.world_size,
            "token": token,
            **self.settings,
            **settings,
        }
        with namespace.inside(self.name) if self.name else nullcontext():
            ranks = [
                Rank(body, {"rank": rank, **given, **(per_rank or {}).get(rank, {})})
                for rank in range(self.world_size)
            ]
        try:
            yield ranks
        finally:
            for rank in ranks:
                rank.end()


class Rank:
    """A rank's process."""

    def __init__(self, body: Body, settings: dict[str, Any]) -> None:
        self._results, theirs = _processes.Pipe(duplex=False)
        self.process: BaseProcess = _processes.Process(target=_main, args=(body, settings, theirs))
        self.process.start()
        theirs.close()

    def outcome(self, bound_s: float) -> Outcome:
        assert self._results.poll(bound_s), f"pid {self.process.pid} neither returned nor raised: it hangs"
        try:
            outcome = self._results.recv()
        except EOFError:
            return Outcome(error="killed")
        assert isinstance(outcome, Outcome)
        return outcome

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self._results.close()


def _main(body: Body, settings: dict[str, Any], results: Connection) -> None:
    try:
        with hipsnet.init(**settings) as communicator:
            outcome = Outcome(value=body(communicator))
    except hipsnet.errors.HipsnetError as error:
        outcome = Outcome(error=str(error))
    except Exception:
        outcome = Outcome(error=traceback.format_exc())
    results.send(outcome)


@contextmanager
def arena(folder: Path, fabric: str) -> Iterator[Arena]:
    """A namespace with the addresses of `fabric` (YAML flow style), removed afterwards."""
    name = f"arena-{os.getpid()}-{secrets.token_hex(3)}"
    file = folder / f"{name}.yaml"
    file.write_text(f"version: 1\nname: arena\nfabric: {fabric}\n")
    servers = build(parse(file.read_text(), str(file))).servers
    namespace.create(name, "hipsnet test")
    try:
        with namespace.inside(name), IPRoute() as netlink:
            netlink.link("set", index=1, state="up")
            for port in (port for server in servers for port in server.ports):
                assert port.address is not None
                netlink.addr("add", index=1, address=str(port.address.ip), prefixlen=32)
        yield Arena(name, file, len(servers))
    finally:
        namespace.delete(name)
