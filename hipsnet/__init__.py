# SPDX-License-Identifier: Apache-2.0
"""hipsnet: server-centric networks for distributed training.

import hipsnet

with hipsnet.init() as comm:
    comm.all_reduce(gradients)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipsnet.collective.communicator import Communicator

__version__ = "0.1.0"


def init(**settings: Any) -> Communicator:
    """Join the job that the environment describes, as `hipsnet run` sets it up; see `hipsnet.settings.Settings`.

    `settings` go before the environment: `hipsnet.init(algorithm="ring", timeout_s=30)`. Raises InputError for a
    setting that is missing or wrong, TransportError where a neighbour does not come.
    """
    from hipsnet import failures
    from hipsnet.collective.communicator import Communicator
    from hipsnet.settings import Settings

    failures.install()
    return Communicator(Settings.from_environment(**settings))
