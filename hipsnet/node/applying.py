# SPDX-License-Identifier: Apache-2.0
"""Applying changes to one open node."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.errors import CapabilityError, HipsnetError, ProvisionError
from hipsnet.node.aspects import APPLY
from hipsnet.node.change import Change
from hipsnet.node.changes import changes
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig
from hipsnet.node.observe import read_actual, read_new

_ROUNDS = 3
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL)


def apply(context: Context, steps: Iterable[Change]) -> None:
    """Apply changes in order. Removing an object that no longer exists is no error.

    Raises ProvisionError naming the change that failed, CapabilityError for a missing privilege.
    """
    for change in steps:
        try:
            APPLY[change.aspect](context, change)
        except (NetlinkError, OSError) as error:
            code = error.code if isinstance(error, NetlinkError) else error.errno
            if change.action == "remove" and code in _GONE:
                continue
            raise _explained(change, error, code) from error


def settle(context: Context, config: NodeConfig, is_new: bool = False) -> None:
    """Bring an open node to its configuration, and verify it: a change that does not last is an error.

    It takes several rounds because one setting may reset others (ip_forward does). Of a new node only the links
    are read at first: it has nothing else.
    """
    if is_new:
        apply(context, changes(config, read_new(context, config)))
    for _ in range(_ROUNDS):
        steps = changes(config, read_actual(context, config))
        if not steps:
            return
        apply(context, steps)
    refuse_unsettled(config.name, changes(config, read_actual(context, config)))


def refuse_unsettled(node: str, steps: Sequence[Change]) -> None:
    """Raise ProvisionError if there is still something to change."""
    if steps:
        listed = "; ".join(str(step) for step in steps[:3])
        raise ProvisionError(
            f"{node}: {len(steps)} changes were undone: {listed}; another program sets them too, stop it"
        )


def _explained(change: Change, error: Exception, code: int | None) -> HipsnetError:
    if code in (errno.EPERM, errno.EACCES):
        return CapabilityError(f"{change.node}: {change.action} {change}: not permitted; run as root")
    return ProvisionError(f"{change.node}: {change.action} {change}: {error}; run `hipsnet provision` again")
