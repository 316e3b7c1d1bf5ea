"""Applying changes to one open node."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.errors import CapabilityError, HipsnetError, ProvisionError
from hipsnet.node import (
    addresses,
    datapath,
    links,
    neighbours,
    offloads,
    routes,
    shaping,
    sysctls,
)
from hipsnet.node.change import Change
from hipsnet.node.context import Context

_GONE = (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL)

_APPLY: dict[str, Callable[[Context, Change], None]] = {
    "address": addresses.apply,
    "link": links.apply,
    "neighbour": neighbours.apply,
    "offload": offloads.apply,
    "rate": shaping.apply,
    "route": routes.apply,
    "state": links.activate,
    "sysctl": sysctls.apply,
    **datapath.APPLY,
}


def apply(context: Context, changes: Iterable[Change]) -> None:
    """Apply changes in order. To remove what is gone already is no error.

    Raises ProvisionError with the change that failed, CapabilityError if the machine does not allow it.
    """
    for change in changes:
        try:
            _APPLY[change.aspect](context, change)
        except (NetlinkError, OSError) as error:
            code = error.code if isinstance(error, NetlinkError) else error.errno
            if change.action == "remove" and code in _GONE:
                continue
            raise _explained(change, error, code) from error


def _explained(change: Change, error: Exception, code: int | None) -> HipsnetError:
    if code in (errno.EPERM, errno.EACCES):
        return CapabilityError(f"{change.node}: {change.action} {change}: not permitted; run as root")
    return ProvisionError(f"{change.node}: {change.action} {change}: {error}; run `hipsnet provision` again")
