# SPDX-License-Identifier: Apache-2.0
"""What `hipsnet run` does with its options: a measurement, or the user's own program."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hipsnet.collective import limits, models
from hipsnet.collective.algorithms import Algorithm
from hipsnet.errors import HipsnetError, InputError
from hipsnet.settings import Settings
from hipsnet.stack.ports.loop import core as stack_core
from hipsnet.topology import Fabric, Topology
from hipsnet.units import approximate_size, given, parse_size
from orchestrator import topology_file
from orchestrator.jobs import job, output, registry, results
from orchestrator.jobs.benchmark import measure, workers
from orchestrator.jobs.display import Display
from orchestrator.jobs.launch import Outcome, launch
from orchestrator.jobs.measurement import Case, Measurement, count
from orchestrator.lab import account as accounts
from orchestrator.lab.account import Account
from orchestrator.telemetry import watching
from orchestrator.telemetry.job_pauses import PauseBook

DEFAULT_SIZES = "1KiB:64MiB:x4"


@dataclass(frozen=True)
class Wanted:
    """The options that say what is measured, as they were given; None, or False, where they were not."""

    size: str | None
    sizes: str | None
    model: str | None
    dtype: str | None
    iters: int | None
    warmup: int | None
    check: bool
    json: str | None


def run(
    file: Path, command: Sequence[str], wanted: Wanted, user: str | None, engine: Mapping[str, Any]
) -> int:
    """Do it; the exit code. `engine` holds the settings that were given, by field of `Settings`."""
    account = accounts.find(user)
    topology, fabric = topology_file.load(file)
    settings = job.settings(file, fabric, **engine)
    if settings.transport == "xdp":
        stack_core()  # compiled once, here, and not by every worker
    if command:
        return _program(topology, fabric, settings, command, wanted, account)
    return _measurement(topology, fabric, settings, wanted, account)


@contextlib.contextmanager
def _listed(fabric: Fabric, account: Account) -> Iterator[None]:
    """Be in the fabric's list of jobs for the length of the block; warn of the other jobs there."""
    with registry.registered(fabric.name, shlex.join(["hipsnet", *sys.argv[1:]]), account.name) as others:
        for job in others:
            print(
                f"hipsnet: warning: another job runs on {fabric.name} since {job.since}: process {job.pid} of "
                f"{job.user}, `{job.command}`; both are slower for it",
                file=sys.stderr,
            )
        yield


def _program(
    topology: Topology,
    fabric: Fabric,
    settings: Settings,
    command: Sequence[str],
    wanted: Wanted,
    account: Account,
) -> int:
    for field in fields(wanted):
        if getattr(wanted, field.name) not in (None, False):
            raise InputError(f"--{field.name} is for measuring; leave it out, or leave `{command[0]}` out")
    programs = job.programs(topology, fabric, settings, command, account)
    with _listed(fabric, account):
        outcome = launch(programs, output.prefixed([program.server for program in programs]))
    _tell(fabric, outcome)
    return outcome.code


def _tell(fabric: Fabric, outcome: Outcome) -> None:
    """Say on stderr which server failed first."""
    if outcome.failure and not outcome.interrupt:
        rank = outcome.failure.program
        print(
            f"hipsnet: {fabric.servers[rank].name} (rank {rank}) {outcome.failure}; the rest was ended",
            file=sys.stderr,
        )


def _measurement(
    topology: Topology, fabric: Fabric, settings: Settings, wanted: Wanted, account: Account
) -> int:
    measurement = _asked(wanted)
    Algorithm(settings.algorithm, settings.exchange, settings.one_way, settings.servers).build(fabric, 1)
    _require_memory(fabric, measurement)
    programs = workers(topology, fabric, settings, measurement, account)
    title = results.title(topology, fabric, settings, measurement)
    message = output.prefixed([program.server for program in programs])
    table = sys.stderr if wanted.json == "-" else sys.stdout
    with (
        _listed(fabric, account),
        watching.watch(topology, fabric, None) as (ports, sources),
        Display(title, measurement, table, message) as display,
    ):
        outcome = measure(
            programs,
            measurement,
            lambda size: limits.limit_s(fabric, topology.link.rate_bps, size),
            PauseBook(ports, sources).since,
            display,
        )
    _tell(fabric, outcome)
    if outcome.code:
        return outcome.code
    done = display.results
    if wanted.json:
        _write(wanted.json, results.document(topology, fabric, settings, measurement, done))
    wrong = [result for result in done if result.correct is False]
    if wrong:
        raise HipsnetError(f"{len(wrong)} of {len(done)} results are wrong; look for `#wrong` in the table")
    return 0


def _require_memory(fabric: Fabric, measurement: Measurement) -> None:
    """Raise InputError if all servers' vectors together are more than this machine has left."""
    largest = max(measurement.size_bytes(case) for case in range(len(measurement.cases)))
    text = re.search(r"MemAvailable: *([0-9]+) kB", Path("/proc/meminfo").read_text())
    if text and len(fabric.servers) * largest > int(text[1]) * 1024:
        raise InputError(
            f"--size: found {approximate_size(largest)}; {len(fabric.servers)} servers of it wanted "
            f"{approximate_size(len(fabric.servers) * largest)} of memory, "
            f"found {approximate_size(int(text[1]) * 1024)}"
        )


def _asked(wanted: Wanted) -> Measurement:
    """The measurement that the options ask for. Raises InputError where they do not go together."""
    which = [name for name in ("size", "sizes", "model") if getattr(wanted, name) is not None]
    if len(which) > 1:
        raise InputError(f"--{which[0]} and --{which[1]} were found; give one of --size, --sizes, --model")
    if wanted.json not in (None, "-") and not _writable(Path(wanted.json or "/")):
        raise InputError(
            f"--json: found {wanted.json!r}; wanted a file to write, in a folder that exists, or -"
        )
    dtype = wanted.dtype or "float32"
    if wanted.model is not None:
        cases: tuple[Case, ...] = (Case(models.buckets(wanted.model, dtype), wanted.model),)
    else:
        flag = "--size" if wanted.size is not None else "--sizes"
        text = wanted.size if wanted.size is not None else wanted.sizes
        sizes = listed(DEFAULT_SIZES if text is None else text, flag)
        cases = tuple(Case((count(size, dtype, flag),)) for size in sizes)
    return Measurement(
        cases=cases,
        dtype=dtype,
        iterations=10 if wanted.iters is None else wanted.iters,
        warmup=2 if wanted.warmup is None else wanted.warmup,
        check=wanted.check,
    )


def _writable(path: Path) -> bool:
    return not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK)


def _write(target: str, document: dict[str, object]) -> None:
    text = json.dumps(document, indent=2)
    if target == "-":
        print(text)
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise InputError(f"--json {target}: cannot be written: {error.strerror}") from None


def listed(text: str, flag: str = "--sizes") -> tuple[int, ...]:
    """The sizes in bytes of `64MiB`, `1KiB,1MiB` or `FIRST:LAST:xFACTOR`; InputError naming `flag` otherwise."""
    if ":" not in text:
        return tuple(given(flag, size, parse_size) for size in text.split(","))
    parts = re.fullmatch(r"([^:]+):([^:]+):x([0-9]{1,9})", text)
    if parts is None or int(parts[3]) < 2:
        raise InputError(f"{flag}: found {text!r}; wanted FIRST:LAST:xFACTOR like 1KiB:64MiB:x4, or a list")
    first, last = (given(flag, part, parse_size) for part in parts.groups()[:2])
    factor = int(parts[3])
    if not 0 < first <= last:
        raise InputError(f"{flag}: found {text!r}; wanted a first size above 0 and a last one not below it")
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return tuple(sizes)
