# SPDX-License-Identifier: Apache-2.0
"""Registered memory: pinned once for each device, kept for as long as the array that owns it lives."""

from __future__ import annotations

import resource
import weakref
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError

from hipsnet.errors import TransportError

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE


class Registration:
    """A range of memory with its MR on every device (no MRs if the range is empty)."""

    def __init__(self, key: int, address: int, length: int, mrs: list[Any]) -> None:
        self.key = key
        self.address = address
        self.length = length
        self.mrs = mrs
        self.owner: weakref.ref[Any] | None = None

    def close(self) -> None:
        while self.mrs:
            with suppress(PyverbsRDMAError):  # a device that has gone took it along
                self.mrs.pop().close()


class Users(Protocol):
    """Who uses registrations, by their keys."""

    def add(self, registration: Registration) -> None:
        """A registration is there."""

    def remove(self, key: int, later: bool) -> bool:
        """A registration is to go. False if it is in use; with `later`, `Memory.unpin` is called after that."""


class Memory:
    """The registrations of one rank, by key and by place. Any thread may call it."""

    def __init__(self, domains: Sequence[PD], users: Users, keys: int) -> None:
        """`domains`: the protection domain of every device; keys are below `keys`."""
        self._domains = domains
        self._users = users
        self._keys = keys
        self._lock = RLock()  # an owner may die in a thread that holds it
        self._by_key: dict[int, Registration] = {}
        self._by_place: dict[tuple[int, int], Registration] = {}
        self._free_keys: list[int] = []

    def keep(self, memory: NDArray[Any]) -> None:
        """Register memory, unless it is registered, until the array that owns it dies.

        Raises TransportError. What a GPU exports as a dma-buf would be registered here, too, by ibv_reg_dmabuf_mr.
        """
        place = int(memory.__array_interface__["data"][0]), memory.nbytes
        with self._lock:
            owner = _owner(memory)
            known = self._by_place.get(place)
            if known is not None and known.owner is not None and known.owner() is owner:
                return
            registration = self._add(*place)

            def died(_: object) -> None:
                self._drop(registration)

            registration.owner = weakref.ref(owner, died)
            self._by_place[place] = registration

    def pin(self, address: int, length: int) -> int:
        """Register memory until `unpin`; return its key. Raises TransportError."""
        with self._lock:
            return self._add(address, length).key

    def unpin(self, key: int) -> None:
        with self._lock:
            if registration := self._by_key.get(key):
                self._drop(registration)

    def close(self) -> None:
        """Drop all registrations, whether in use or not: nothing uses them any more."""
        with self._lock:
            for registration in self._by_key.values():
                registration.close()
            self._by_key.clear()
            self._by_place.clear()

    def _add(self, address: int, length: int) -> Registration:
        registration = Registration(self._next_key(), address, length, self._pin(address, length))
        self._by_key[registration.key] = registration
        self._users.add(registration)
        return registration

    def _drop(self, registration: Registration, later: bool = True) -> bool:
        """Deregister memory, unless it is in use: after that, if `later`."""
        with self._lock:
            if self._by_key.get(registration.key) is not registration:
                return True
            if not self._users.remove(registration.key, later):
                return False
            del self._by_key[registration.key]
            place = registration.address, registration.length
            if self._by_place.get(place) is registration:
                del self._by_place[place]
            registration.close()
            self._free_keys.append(registration.key)
            return True

    def _drop_idle(self) -> bool:
        """Drop what is only kept for a later call; whether there was any."""
        before = len(self._by_key)
        for registration in list(self._by_key.values()):
            self._drop(registration, later=False)
        return len(self._by_key) < before

    def _next_key(self) -> int:
        """A key that is free: keys come again, so what a peer remembers of them stays bounded."""
        if len(self._by_key) + 1 == self._keys and not self._drop_idle():
            raise TransportError(
                f"{len(self._by_key)} arrays are registered for RDMA at once; the limit is that"
            )
        return self._free_keys.pop() if self._free_keys else len(self._by_key) + 1

    def _pin(self, address: int, length: int) -> list[Any]:
        mrs: list[Any] = []
        try:
            for domain in self._domains if length else ():
                mrs.append(self._register(domain, address, length))
        except PyverbsRDMAError as error:
            for mr in mrs:
                mr.close()
            raise TransportError(_refused(length, len(self._domains), error)) from error
        return mrs

    def _register(self, domain: PD, address: int, length: int) -> Any:
        try:
            return MR(domain, length, ACCESS, address)
        except PyverbsRDMAError:
            if not self._drop_idle():
                raise
            return MR(domain, length, ACCESS, address)


def _owner(memory: NDArray[Any]) -> Any:
    """The object whose death frees the memory; or, where that cannot be watched, one that holds it."""
    owner: Any = memory
    watched: Any = memory
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
        if type(owner).__weakrefoffset__:
            watched = owner
    return watched


def _refused(length: int, devices: int, error: PyverbsRDMAError) -> str:
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    allowed = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit} bytes"
    return (
        f"{length} bytes cannot be registered on {devices} RDMA devices: {error}; "
        f"RLIMIT_MEMLOCK is {allowed} for all that is registered: raise it (`ulimit -l unlimited`, "
        "LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container)"
    )
