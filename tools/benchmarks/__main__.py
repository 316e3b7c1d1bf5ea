# SPDX-License-Identifier: Apache-2.0
"""The command line of the benchmarks: every module with an `app` adds its commands."""

from __future__ import annotations

import importlib
import pkgutil
import signal
import sys

import typer
from rich.console import Console

from hipsnet.errors import HipsnetError
from tools import benchmarks

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def measure() -> None:
    """Measure what hipsnet can do on this machine."""


def main() -> None:
    """Run a benchmark, with the exit codes of `hipsnet`; on SIGTERM, tear down what was built."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    for module in pkgutil.iter_modules(benchmarks.__path__):
        commands = getattr(importlib.import_module(f"tools.benchmarks.{module.name}"), "app", None)
        if module.name != "__main__" and commands is not None:
            app.add_typer(commands)
    try:
        app()
    except HipsnetError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"bench: {error}", markup=False)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
