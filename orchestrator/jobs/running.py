# SPDX-License-Identifier: Apache-2.0
"""The command `run`: start the measuring programs or the user's own, and report how the job ended."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipsnet.collective import choice, limits
from hipsnet.collective.collectives import Collective
from hipsnet.collective.models import ITEM_BYTES
from hipsnet.engine.wire.wire import library_of
from hipsnet.errors import HipsnetError, InputError, ProvisionError
from hipsnet.failures import Failure
from hipsnet.settings import Settings
from hipsnet.topology import Fabric, Topology
from orchestrator import topology_file
from orchestrator.jobs import benchmark, job, output, privileged, registry, results, table, verdict
from orchestrator.jobs.display import Display
from orchestrator.jobs.failures import Inbox
from orchestrator.jobs.launch import LaunchOptions, Outcome, Write, launch
from orchestrator.jobs.logs import logs
from orchestrator.jobs.request import Request
from orchestrator.lab import account as accounts
from orchestrator.lab import background
from orchestrator.lab.account import Account, acting_as
from orchestrator.telemetry import watching
from orchestrator.telemetry.job_pauses import PauseBook


@dataclass(frozen=True)
class Options:
    """The options of any job; a `user` of None is the caller of sudo, or else root."""

    user: str | None = None
    log_dir: Path | None = None
    verbose: bool = False


@dataclass(frozen=True)
class _Job:
    """One job: where it runs, with which settings, as which user."""

    topology: Topology
    fabric: Fabric
    settings: Settings
    account: Account
    options: Options

    @property
    def servers(self) -> list[str]:
        return [server.name for server in self.fabric.servers]


def run(
    file: Path, command: Sequence[str], request: Request, options: Options, engine: Mapping[str, Any]
) -> int:
    """Run the job; returns the exit code. `engine` holds the settings that were given, by field of `Settings`."""
    account = accounts.find(options.user)
    topology, fabric = topology_file.load(file)
    settings = job.settings(file, fabric, **engine)
    if settings.transport == "tcp":
        settings = _permitted(settings, account, "congestion" in engine)
    own = _Job(topology, fabric, settings, account, options)
    if not command:
        return _measure(own, request)
    if request.given:
        raise InputError(f"{request.given[0]} is for measuring; omit it, or omit `{command[0]}`")
    return _run_program(own, command)


def _permitted(settings: Settings, account: Account, is_given: bool) -> Settings:
    """The settings with a congestion control that the user may use; a warning if it is another one."""
    name = privileged.permitted_congestion_control(settings.congestion, account, is_given)
    if name != settings.congestion:
        _say(
            f"warning: the kernel does not permit the congestion control {settings.congestion} to {account.name}; "
            f"this job uses {name}"
        )
    return replace(settings, congestion=name)


def _run_program(own: _Job, command: Sequence[str]) -> int:
    programs = job.programs(own.topology, own.fabric, own.settings, command, own.account)
    screen = output.prefixed(own.servers)
    with _prepared(own, screen) as (log, options):

        def write(*line: Any) -> None:
            screen(*line)
            log(*line)

        outcome = launch(programs, write, options)
    _report(own, outcome, f"`{shlex.join(command)}`")
    return outcome.code


def _measure(own: _Job, request: Request) -> int:
    measurement = request.measurement(own.fabric)
    if request.json not in (None, "-"):
        _require_writable(Path(request.json or "/"), own.account)
    settings = own.settings
    collective = Collective(measurement.collective, measurement.root)
    chooser = choice.of_settings(own.topology, own.fabric, settings)
    chooser.require(collective)
    whole_bytes = collective.total(ITEM_BYTES[measurement.dtype], len(own.fabric.servers))
    programs = benchmark.workers(own.topology, own.fabric, settings, measurement, own.account)
    title = table.title(own.topology, own.fabric, settings, measurement)
    screen = output.prefixed(own.servers)
    with (
        watching.watch(own.topology, own.fabric, None) as (ports, sources),
        _prepared(own, screen) as (log, options),
    ):

        def message(*line: Any) -> None:
            screen(*line)
            log(*line)

        stream = sys.stderr if request.json == "-" else sys.stdout
        has_pauses = own.topology.lab.switch == "lossless"
        with Display(title, measurement, stream, message, has_pauses) as display:
            outcome = benchmark.measure(
                programs,
                measurement,
                lambda size: limits.limit_s(
                    own.fabric, own.topology.link.rate_bps, size, measurement.collective
                ),
                lambda case: chooser.names((count * whole_bytes for count in case.counts), collective),
                PauseBook(ports, sources).since,
                display,
                options,
            )
    done = display.results
    _report(
        own,
        outcome,
        f"the measurement at {display.position}, {len(done)} of {len(measurement.cases)} sizes done,",
    )
    if request.json and (done or not outcome.code):
        document = results.document(own.topology, own.fabric, settings, measurement, done)
        _write(request.json, document, own.account)
    wrong = [result for result in done if result.correct is False]
    if wrong and not outcome.code:
        raise HipsnetError(f"{len(wrong)} of {len(done)} results are wrong; look for `#wrong` in the table")
    return outcome.code


@contextlib.contextmanager
def _prepared(own: _Job, screen: Write) -> Iterator[tuple[Write, LaunchOptions]]:
    """Set up the environment of the programs: job list, log files, inbox, the privileged part of the transport."""
    _require_background(own)
    handed_over = _prepare_transport(own)
    prepare = functools.partial(privileged.start, handed_over) if handed_over else None
    with (
        _listed(own),
        logs(own.options.log_dir, own.servers, own.account) as log,
        Inbox(job.inbox_path(own.fabric), own.account.uid) as inbox,
    ):

        def on_failure(failure: Failure) -> None:
            for line in failure.traceback.encode().splitlines() if failure.is_expected else ():
                log(failure.rank, "stderr", line)
                if own.options.verbose:
                    screen(failure.rank, "stderr", line)

        try:
            yield log, LaunchOptions(prepare=prepare, inbox=inbox, on_failure=on_failure)
        finally:
            privileged.remove(handed_over)


def _prepare_transport(own: _Job) -> tuple[privileged.Endpoints, ...]:
    """Do the privileged work before programs of another user start; returns the endpoints to hand to them."""
    transport, account = own.settings.transport, own.account
    library_of(transport)  # compiled once, here, and not by every program
    if account.is_current:
        return ()
    privileged.compile_as(account, os.environ, transport)
    if transport != "xdp":
        return ()
    return privileged.endpoints(own.topology, own.fabric, account)


@contextlib.contextmanager
def _listed(own: _Job) -> Iterator[None]:
    """List the job in the fabric for the length of the block; warn of other jobs there."""
    command = shlex.join(["hipsnet", *sys.argv[1:]])
    with registry.registered(own.fabric.name, command, own.account.name) as others:
        for other in others:
            _say(
                f"warning: another job runs on {own.fabric.name} since {other.since}: process {other.pid} of "
                f"{other.user}, `{other.command}`; they share its cables and this machine's processors"
            )
        yield


def _require_background(own: _Job) -> None:
    """Raise ProvisionError if a process that the lab needs is not running; its frames would be lost."""
    for process in background.needed(own.topology, own.fabric):
        if not process.is_running:
            raise ProvisionError(process.report)


def _report(own: _Job, outcome: Outcome, what: str) -> None:
    """Report on stderr a failure or a signal that ended the job."""
    if outcome.interrupt:
        _say(
            f"{outcome.interrupt.name} after {outcome.duration_s:.1f} s: stopped {what} on all "
            f"{len(own.servers)} servers"
        )
    elif outcome.failure:
        for line in verdict.lines(own.servers, outcome):
            _say(line)
        for process in background.needed(own.topology, own.fabric):
            if not process.is_running:
                _say(process.report)


def _say(text: str) -> None:
    print(f"hipsnet: {text}", file=sys.stderr)


def _require_writable(path: Path, account: Account) -> None:
    with acting_as(account):
        there = os.access(path, os.F_OK, effective_ids=True)
        place = path if there else path.parent
        if (there and path.is_dir()) or not os.access(place, os.W_OK, effective_ids=True):
            raise InputError(
                f"--json: {account.name} cannot write {str(path)!r}; give a file in a folder that exists, or -"
            )


def _write(target: str, document: dict[str, object], account: Account) -> None:
    text = json.dumps(document, indent=2)
    if target == "-":
        print(text)
        return
    try:
        with acting_as(account):
            Path(target).write_text(text + "\n")
    except OSError as error:
        raise HipsnetError(f"--json: cannot write {target}: {error.strerror}") from None
