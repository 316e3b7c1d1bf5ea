# SPDX-License-Identifier: Apache-2.0
"""A run of pytest in a virtual machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernel import cache_folder
from tests.remote_pytest import Outputs, outputs_of, running
from tools.virtual_machine.installed import find_kernel, require_programs

MODULES = ("veth", "ib_uverbs", "rdma_rxe")
MEMORY = "2G"
TIMEOUT_S = 1800


def in_machine(nodeids: Sequence[str]) -> Outputs:
    """What pytest says in a machine of its own, which lives as long as somebody listens.

    Raises CapabilityError, with the first piece, where none can be had.
    """
    require_programs()
    find_kernel()
    # What is compiled in there is kept out here: a compiler takes minutes on an emulated processor.
    kept = cache_folder()
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    modules = [word for module in MODULES for word in ("--module", module)]
    options = [*modules, "--memory", MEMORY, "--timeout", str(TIMEOUT_S), "--writable", str(kept)]
    tool = [sys.executable, "-m", "tools.virtual_machine", *options]
    yield from outputs_of([*tool, "--", *running(nodeids)])
