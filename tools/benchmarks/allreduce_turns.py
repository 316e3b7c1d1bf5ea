# SPDX-License-Identifier: Apache-2.0
"""One turn of each contender of the all-reduce benchmark, on a lab that is provisioned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from hipsnet.errors import CapabilityError, HipsnetError
from hipsnet.stack.switch import counters
from hipsnet.topology import Fabric
from orchestrator import topology_file
from orchestrator.lab import soft_switch
from orchestrator.provision import provisioning, removal
from tools.benchmarks.allreduce_plan import Contender, rounds_of, topology_text

_HIPSNET = (sys.executable, "-c", "from orchestrator.cli import main; main()")
_MPI_SOURCE = Path(__file__).with_name("mpi_allreduce.c")


@dataclass(frozen=True)
class Lab:
    """A provisioned lab of the benchmark."""

    file: Path
    fabric: Fabric

    @property
    def lost(self) -> int:
        """Frames that the lab's soft switches have dropped."""
        found = counters.read(soft_switch.counters_path(self.fabric.name)).values()
        return sum(sum(switch.dropped.values()) for switch in found)


@dataclass(frozen=True)
class Turn:
    """The times of one contender at one size in one turn; None where the contender does not report it.

    `cpu_s`: processor time of all ranks, per iteration. `memory_bytes`: memory of a rank beyond its arrays.
    """

    size_bytes: int
    times_s: tuple[float, ...]
    limit_s: float | None = None
    cpu_s: float | None = None
    memory_bytes: int | None = None
    algorithm: str | None = None


@contextmanager
def provisioned(fabric: str, rate: str, lossless: bool) -> Iterator[Lab]:
    """Provision a lab, and destroy it in any case."""
    with TemporaryDirectory(prefix="hipsnet-bench-") as folder:
        file = Path(folder) / "topology.yaml"
        file.write_text(topology_text(fabric, rate, lossless))
        topology, built = topology_file.load(file)
        try:
            provisioning.provision(topology, built, str(file), lambda _: lambda _: None)
            yield Lab(file, built)
        finally:
            removal.destroy(built.name)


def take(contender: Contender, lab: Lab, sizes: Sequence[int]) -> Iterator[Turn]:
    """Measure a contender at these sizes. Raises HipsnetError if its program fails."""
    return {"hipsnet": _ours, "gloo": _gloo, "mpi": _mpi}[contender.by](contender, lab, sizes)


def _ours(contender: Contender, lab: Lab, sizes: Sequence[int]) -> Iterator[Turn]:
    """One job for each count of iterations."""
    for (iterations, warmup), group in groupby(sizes, rounds_of):
        listed = ",".join(f"{size}B" for size in group)
        options = ("--iters", str(iterations), "--warmup", str(warmup), "--json", "-")
        out = _run("run", str(lab.file), *contender.flags, "--sizes", listed, *options)
        for result in json.loads(out)["results"]:
            yield Turn(
                result["bytes"],
                tuple(result["times_s"]),
                result["limit_s"],
                result["cpu_s"],
                result["memory_bytes"],
                result.get("algorithm"),
            )


def _gloo(_: Contender, lab: Lab, sizes: Sequence[int]) -> Iterator[Turn]:
    """Gloo, over the only port of each server."""
    cases = json.dumps([(size, *rounds_of(size)) for size in sizes])
    out = _run("run", str(lab.file), "--", sys.executable, "-m", "tools.benchmarks.gloo_worker", cases)
    yield from _turns(line.partition("] ")[2] for line in out.splitlines())


def _mpi(_: Contender, lab: Lab, sizes: Sequence[int]) -> Iterator[Turn]:
    """Open MPI, over the only port of each server; `hipsnet exec` sets mpi_yield_when_idle and the interface."""
    servers = [server.name for server in lab.fabric.servers]
    cases = [str(value) for size in sizes for value in (size, *rounds_of(size))]
    with TemporaryDirectory(prefix="hipsnet-mpi-") as folder:
        program = Path(folder) / "mpi_allreduce"
        program.write_bytes(_mpi_program())
        program.chmod(0o755)
        mpirun = ("mpirun", "-H", ",".join(servers), "--mca", "btl", "tcp,self", str(program))
        out = _run("exec", str(lab.file), servers[0], "--", *mpirun, *cases)
    yield from _turns(out.splitlines())


def _turns(lines: Iterator[str] | Sequence[str]) -> Iterator[Turn]:
    for line in lines:
        result = json.loads(line)
        yield Turn(result["bytes"], tuple(result["times_s"]))


@cache
def _mpi_program() -> bytes:
    """Compile the baseline. Raises CapabilityError without Open MPI's compiler."""
    with TemporaryDirectory(prefix="hipsnet-mpi-") as folder:
        program = Path(folder) / "mpi_allreduce"
        try:
            subprocess.run(["mpicc", "-O2", "-o", str(program), str(_MPI_SOURCE)], check=True)
        except FileNotFoundError:
            raise CapabilityError("mpicc is missing; install openmpi-bin and libopenmpi-dev") from None
        return program.read_bytes()


def _run(*arguments: str) -> str:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "p0"}
    done = subprocess.run([*_HIPSNET, *arguments], env=environ, capture_output=True, text=True)
    if done.returncode:
        raise HipsnetError(f"`hipsnet {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout
