# SPDX-License-Identifier: Apache-2.0
"""An open node, as an aspect reads and changes it: its netlink socket and the indexes of its interfaces."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.errors import CapabilityError, ProvisionError
from hipsnet.node.namespace import inside
from hipsnet.node.netlink import Netlink


@dataclass(frozen=True)
class Context:
    """An open node. The calling thread is inside the node's namespace for as long as it is open."""

    node: str
    netlink: Netlink
    indexes: dict[str, int] = field(default_factory=dict)

    def index(self, link: str) -> int:
        """The ifindex of an interface by name; ProvisionError if the node has none of that name."""
        if link not in self.indexes:
            found = self.netlink.get_link(link)
            if found is None:
                raise ProvisionError(f"{self.node} has no interface {link}")
            self.indexes[link] = found["index"]
        return self.indexes[link]


@contextmanager
def opened(node: str, namespace: str | None) -> Iterator[Context]:
    """Enter the node's namespace (None: stay in the current one) with a netlink socket in it.

    A netlink error inside becomes a ProvisionError, or a CapabilityError for a missing privilege.
    """
    with inside(namespace), Netlink() as netlink:
        try:
            yield Context(node, netlink)
        except NetlinkError as error:
            if error.code in (errno.EPERM, errno.EACCES):
                raise CapabilityError(f"{node}: not permitted to change its network; run as root") from error
            raise ProvisionError(f"{node}: the kernel refused: {error}; run the command again") from error
