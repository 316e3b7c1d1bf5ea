# SPDX-License-Identifier: Apache-2.0
"""An opened RDMA device: its protection domain, one completion queue, and the descriptor of its events."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError

from hipsnet.errors import TransportError
from hipsnet.transport.verbs.layout import PROBES, RECEIVES, SENDS

LANDING_BYTES = 64
PORT_ACTIVE = 4  # ibv_port_state
_OPENING = Lock()
"""Held while a descriptor is opened that is found by comparing the descriptors before and after."""


class Device:
    """The objects of one device except queue pairs and memory, which must be closed first."""

    def __init__(self, name: str, connections: int) -> None:
        """`connections`: how many queue pairs share the completion queue, which can never overflow."""
        self.name = name
        self._open: list[Any] = []
        try:
            with _OPENING:
                self._context = self._own(Context(name=name))
                self.channel, self.descriptor = self._open_channel()
            self.domain = self._own(PD(self._context))
            self.landing = self._own_landing()
            entries = connections * (SENDS + PROBES + RECEIVES)
            self.completions = self._own(CQ(self._context, entries, None, self.channel, 0))
        except PyverbsError as error:
            self.close()
            raise TransportError(
                f"RDMA device {name} cannot be opened: {error}; "
                "are /dev/infiniband/uverbs* there and allowed to this user?"
            ) from error

    def active_mtu(self, port: int) -> int:
        """The port's MTU as ibv_mtu codes it; TransportError while the port is not active."""
        attributes = self._context.query_port(port)
        if attributes.state != PORT_ACTIVE:
            raise TransportError(
                f"port {port} of RDMA device {self.name} is not active (ibv_port_state {attributes.state}); "
                "look at `rdma link show`, the cable, and whether its netdev is up"
            )
        return int(attributes.active_mtu)

    def close(self) -> None:
        while self._open:
            with suppress(PyverbsError):  # a device that has gone took it along
                self._open.pop().close()

    def _own_landing(self) -> tuple[int, int]:
        """(remote key, address) of the memory that the probes of peers name: they write no bytes into it."""
        self._landing = np.zeros(LANDING_BYTES, np.uint8)
        address = int(self._landing.ctypes.data)
        access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE
        region = self._own(MR(self.domain, LANDING_BYTES, access, address))
        return int(region.rkey), address

    def _own(self, resource: Any) -> Any:
        self._open.append(resource)
        return resource

    def _open_channel(self) -> tuple[CompChannel, int]:
        """A channel and its descriptor, which pyverbs keeps to itself before rdma-core 57."""
        before = _event_descriptors()
        channel = self._own(CompChannel(self._context))
        (descriptor,) = _event_descriptors() - before
        return channel, descriptor


def _event_descriptors() -> set[int]:
    """The descriptors of this process that deliver verbs events (drivers/infiniband/core/rdma_core.c)."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists the folder
            if str(link.readlink()) == "anon_inode:[infinibandevent]":
                found.add(int(link.name))
    return found
