# SPDX-License-Identifier: Apache-2.0
"""Registered memory: pinned once for each device, kept for as long as the array that owns it lives."""

from __future__ import annotations

import resource
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError

from hipsnet.errors import TransportError

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE


class Registration:
    """A range of memory with its MR on every device, by the device's name (none if the range is empty)."""

    def __init__(self, key: int, address: int, length: int, mrs: dict[str, Any]) -> None:
        self.key = key
        self.address = address
        self.length = length
        self.mrs = mrs
        self.uses = 0
        self.owner: weakref.ref[Any] | None = None

    def close(self) -> None:
        while self.mrs:
            with suppress(PyverbsRDMAError):  # a device that has gone took it along
                self.mrs.popitem()[1].close()


class Memory:
    """The registrations of one transport, by key and by place."""

    def __init__(self, domains: Mapping[str, PD]) -> None:
        """`domains`: the protection domain of every device, by its name."""
        self._domains = domains
        self._by_key: dict[int, Registration] = {}
        self._by_place: dict[tuple[int, int], Registration] = {}
        self._free_keys: list[int] = []

    def __getitem__(self, key: int) -> Registration:
        return self._by_key[key]

    def take(self, memory: NDArray[np.uint8]) -> tuple[Registration, bool]:
        """The registration of `memory`, and whether it is a new one. Pair each `take` with a `give_back`.

        What a GPU exports as a dma-buf would be registered here, too, by ibv_reg_dmabuf_mr.
        """
        address, length = int(memory.__array_interface__["data"][0]), memory.nbytes
        owner = _owner(memory)
        known = self._by_place.get((address, length))
        if known is not None and known.owner is not None and known.owner() is owner:
            known.uses += 1
            return known, False
        registration = Registration(self._next_key(), address, length, self._pin(address, length))
        registration.uses = 1
        self._by_key[registration.key] = registration
        self._keep(registration, owner)
        return registration, True

    def give_back(self, key: int) -> None:
        registration = self._by_key[key]
        registration.uses -= 1
        if not registration.uses and registration.owner is None:
            self._drop(registration)

    def close(self) -> None:
        for registration in list(self._by_key.values()):
            self._drop(registration)

    def _keep(self, registration: Registration, owner: Any) -> None:
        """Let the registration live as long as its owner, if that can be watched."""

        def died(_: object) -> None:
            self._drop(registration)

        try:
            registration.owner = weakref.ref(owner, died)
        except TypeError:
            return
        self._by_place[registration.address, registration.length] = registration

    def _drop(self, registration: Registration) -> None:
        if self._by_key.get(registration.key) is not registration:
            return
        del self._by_key[registration.key]
        place = registration.address, registration.length
        if self._by_place.get(place) is registration:
            del self._by_place[place]
        registration.close()
        self._free_keys.append(registration.key)

    def _next_key(self) -> int:
        """A key that is free: keys come again, so what a peer remembers of them stays bounded."""
        return self._free_keys.pop() if self._free_keys else len(self._by_key) + 1

    def _pin(self, address: int, length: int) -> dict[str, Any]:
        mrs: dict[str, Any] = {}
        try:
            for name, domain in self._domains.items() if length else ():
                mrs[name] = self._register(domain, address, length)
        except PyverbsRDMAError as error:
            for mr in mrs.values():
                mr.close()
            raise TransportError(_refused(length, len(self._domains), error)) from error
        return mrs

    def _register(self, domain: PD, address: int, length: int) -> Any:
        try:
            return MR(domain, length, ACCESS, address)
        except PyverbsRDMAError:
            # What is only kept for a later call may be in the way.
            idle = [r for r in list(self._by_key.values()) if not r.uses]
            if not idle:
                raise
            for registration in idle:
                self._drop(registration)
            return MR(domain, length, ACCESS, address)


def _owner(memory: NDArray[Any]) -> Any:
    """The object whose death frees the memory."""
    owner: Any = memory
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def _refused(length: int, devices: int, error: PyverbsRDMAError) -> str:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    allowed = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit} bytes"
    return (
        f"{length} bytes cannot be registered on {devices} RDMA devices: {error}; "
        f"RLIMIT_MEMLOCK is {allowed} for all that is registered: raise it (`ulimit -l unlimited`, "
        "LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container)"
    )
