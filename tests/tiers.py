# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin for `tools/test`: the tiers of the suite, and the only place that assigns tests to them.

`--tier NAME` selects one tier and reports what it left out; `--tier all` runs all of them concurrently.
The quick tier runs without capabilities even when root starts it, so a test that needs them fails there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.remote_pytest import Outputs, read_outputs, remote_command, run_remotely

TESTS = Path(__file__).parent
WITHOUT_CAPABILITIES = ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]


@dataclass(frozen=True)
class Tier:
    """A part of the suite: what its tests need, and patterns of the files below tests/ that belong to it."""

    name: str
    needs: str
    patterns: tuple[str, ...] = ()


TIERS = (
    Tier("vm", "root and QEMU", ("vm/*", "test_remote_pytest.py")),
    Tier(
        "lab",
        "root",
        (
            "kernel/*",
            "lab/*",
            "tools/*",
            "collective/test_async.py",
            "collective/test_calls.py",
            "collective/test_engine.py",
            "collective/test_failures.py",
            "collective/test_leaks.py",
            "engine/test_wires.py",  # to choose cubic takes CAP_NET_ADMIN where it is not the default
            "engine/test_xdp_cable.py",
            "node/test_aspects.py",
            "node/test_dcbnl.py",
            "node/test_namespace.py",
            "node/test_netlink.py",
            "node/test_nic_lacking.py",
            "node/test_policy.py",
            "node/test_xdp_attaching.py",
            "node/test_xdp_programs.py",
            "node/test_xdp_tables.py",
            "orchestrator/test_doctor.py",
            "orchestrator/test_exercise.py",
            "orchestrator/test_hostile_use.py",
            "orchestrator/test_run.py",
            "stack/test_building.py",
            "stack/test_transport_xdp.py",
            "stack/test_xsk*.py",
            "test_ownership.py",
        ),
    ),
    Tier("quick", "neither root, labs nor virtual machines"),  # all other files
)


def tier_of(path: Path) -> Tier:
    """The tier of the tests in a file."""
    below = path.relative_to(TESTS).as_posix()
    for tier in TIERS:
        if any(fnmatch(below, pattern) for pattern in tier.patterns):
            return tier
    return TIERS[-1]


def pytest_addoption(parser: pytest.Parser) -> None:
    names = [tier.name for tier in reversed(TIERS)]
    parser.addoption("--tier", choices=[*names, "all"], default="all", help="the tests to run")


def pytest_configure() -> None:
    """Refuse a pattern without a file: the file was renamed or removed."""
    for tier in TIERS:
        for pattern in tier.patterns:
            if not any(TESTS.glob(pattern)):
                raise pytest.UsageError(
                    f"tests/tiers.py: no file matches {pattern!r} of the tier {tier.name}"
                )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of other tiers out."""
    if (chosen := config.getoption("--tier")) != "all":
        others = [item for item in items if tier_of(item.path).name != chosen]
        config.stash[_LEFT_OUT] = Counter(tier_of(item.path) for item in others)
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if tier_of(item.path).name == chosen]


_LEFT_OUT = pytest.StashKey[Counter[Tier]]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tiers that were left out."""
    for tier, count in config.stash.get(_LEFT_OUT, Counter[Tier]()).items():
        terminalreporter.write_line(
            f"left out: {count} tests that need {tier.needs}; run: tools/test {tier.name}"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Use a second processor: run some of the tests in processes of their own.

    In a run of all tiers these are the quick tests, the labs, which mostly wait, and the virtual machine (see
    tests/vm/conftest.py); in the quick tier they are the tests that compile C. Their reports come last.
    """
    tier = session.config.getoption("--tier")
    quick = [item for item in session.items if tier_of(item.path).name == "quick"]
    compiling = [
        item for item in quick if item.path.relative_to(TESTS).parts[0] in ("engine", "predict", "stack")
    ]
    labs = [item for item in session.items if TESTS / "lab" in item.path.parents]
    inside = [item for item in session.items if TESTS / "vm" / "inside" in item.path.parents]
    remote = {"all": (quick, labs), "quick": (compiling,)}.get(tier, ())
    order = {item: number for number, items in enumerate((*remote, inside)) for item in items}
    session.items.sort(key=lambda item: order.get(item, -1))
    for items in remote:
        run_remotely(session, items, _with_capabilities if items is labs else _without_capabilities)


def _with_capabilities(nodeids: Sequence[str]) -> Outputs:
    return read_outputs(remote_command(nodeids))


def _without_capabilities(nodeids: Sequence[str]) -> Outputs:
    command = remote_command(nodeids)
    return read_outputs([*WITHOUT_CAPABILITIES, *command] if os.geteuid() == 0 else command)
