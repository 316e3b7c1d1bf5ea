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
    """Join the job described by the environment variables that `hipsnet run` sets; return its communicator.

    `settings` are fields of `hipsnet.settings.Settings` and take precedence over the environment:
    `hipsnet.init(algorithm="ring", timeout_s=30)`. Raises InputError for a missing or invalid setting,
    TransportError if a neighbour does not connect within `start_timeout_s`, CapabilityError if this machine
    lacks a requirement of the transport.
    """
    from hipsnet import failures
    from hipsnet.collective.communicator import Communicator
    from hipsnet.settings import Settings

    failures.install()
    return Communicator(Settings.from_environment(**settings))
