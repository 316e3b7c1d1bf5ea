# SPDX-License-Identifier: Apache-2.0
"""A run of pytest in a virtual machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hipsnet.engine.library import library
from hipsnet.engine.wire import verbs_library
from kernel import cache_folder
from tests.remote_pytest import Outputs, read_outputs, remote_command
from tests.vm.inside import dcb_module
from tools.virtual_machine.installed import find_kernel, require_programs

MODULES = ("veth", "ib_uverbs", "rdma_rxe")
MEMORY = "2G"
TIMEOUT_S = 1800


def in_machine(nodeids: Sequence[str]) -> Outputs:
    """The output of pytest in a virtual machine, which ends when the iterator is closed.

    Raises CapabilityError when the first piece is requested, if this host cannot run a machine.
    """
    require_programs()
    find_kernel()
    if any("test_dcb" in nodeid for nodeid in nodeids):
        dcb_module.prepare()
    # The compile cache is shared with the host: a compiler takes minutes on an emulated processor.
    if any("test_verbs" in nodeid for nodeid in nodeids):
        library()
        verbs_library.library()
    cache = cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    modules = [word for module in MODULES for word in ("--module", module)]
    options = [*modules, "--memory", MEMORY, "--timeout", str(TIMEOUT_S), "--writable", str(cache)]
    tool = [sys.executable, "-m", "tools.virtual_machine", *options]
    yield from read_outputs([*tool, "--", *remote_command(nodeids)])
