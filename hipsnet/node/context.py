# SPDX-License-Identifier: Apache-2.0
"""What an aspect needs to read or change one node: its netlink socket and the interfaces' indexes."""

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
                raise ProvisionError(f"{self.node}: interface {link} wanted, not found")
            self.indexes[link] = found["index"]
        return self.indexes[link]


@contextmanager
def opened(node: str, namespace: str | None) -> Iterator[Context]:
    """Enter the node's namespace (None: where we are) with a netlink socket in it.

    What the kernel refuses inside is a ProvisionError, or a CapabilityError if it is for want of a privilege.
    """
    with inside(namespace), Netlink() as netlink:
        try:
            yield Context(node, netlink)
        except NetlinkError as error:
            if error.code in (errno.EPERM, errno.EACCES):
                raise CapabilityError(f"{node}: not permitted to change its network; run as root") from error
            raise ProvisionError(f"{node}: the kernel refused: {error}; run the command again") from error
