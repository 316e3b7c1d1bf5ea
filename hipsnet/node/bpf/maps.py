# SPDX-License-Identifier: Apache-2.0
"""Maps: create, open by id, describe, read and write."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass

from hipsnet.node.bpf.call import NAME_BYTES, answer, describe, libbpf

# linux/bpf.h
MAP_OF_MAPS, RING = 12, 27
READ_ONLY_FOR_PROGRAMS = 1 << 7
MAPPABLE = 1 << 10


class _MapInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("name", ctypes.c_char * NAME_BYTES),
    )


class _MapOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("btf", ctypes.c_uint32 * 4),
        ("inner_map_fd", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("map_extra", ctypes.c_uint64),
        ("numa_node", ctypes.c_uint32),
        ("map_ifindex", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class MapInfo:
    """A map's attributes from the kernel; sizes in bytes."""

    type: int
    id: int
    name: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int


def create_map(
    name: str,
    kind: int,
    key_size: int,
    value_size: int,
    max_entries: int,
    flags: int = 0,
    inner: int | None = None,
) -> int:
    """Make a map and return its descriptor; in a map of maps all are like the one behind `inner`."""
    options = _MapOptions(sz=ctypes.sizeof(_MapOptions), map_flags=flags, inner_map_fd=inner or 0)
    fd = libbpf().bpf_map_create(
        kind, name.encode()[: NAME_BYTES - 1], key_size, value_size, max_entries, ctypes.byref(options)
    )
    return answer(fd, f"create the map {name}")


def open_map(map_id: int) -> int:
    """Open the map of an id."""
    return answer(libbpf().bpf_map_get_fd_by_id(map_id), f"open the map {map_id}")


def map_info(fd: int) -> MapInfo:
    """Describe the map behind a descriptor."""
    info = _MapInfo()
    describe(fd, info, "map")
    return MapInfo(
        info.type,
        info.id,
        info.name.decode(),
        info.key_size,
        info.value_size,
        info.max_entries,
        info.map_flags,
    )


def update(fd: int, key: bytes, value: bytes) -> None:
    """Set the value of a key. A devmap's ifindex is that of the calling thread's namespace."""
    answer(libbpf().bpf_map_update_elem(fd, key, value, ctypes.c_uint64(0)), "write an entry of a map")


def lookup(fd: int, key: bytes, size: int) -> bytes | None:
    """Return the `size` bytes under a key, None if there is no such key (in a per-CPU map: of every CPU)."""
    value = ctypes.create_string_buffer(size)
    result = libbpf().bpf_map_lookup_elem(fd, key, value)
    if result == -errno.ENOENT:
        return None
    answer(result, "read an entry of a map")
    return value.raw


class Lookup:
    """Reads up to `count` entries of a map by one call into memory at these addresses, as often as one likes.

    Linux 5.13 for an array with values per CPU.
    """

    def __init__(self, fd: int, keys: int, values: int, count: int) -> None:
        self._call, self._count, self._found = libbpf().bpf_map_lookup_batch, count, ctypes.c_uint32()
        places = (ctypes.c_void_p(keys), ctypes.c_void_p(values), ctypes.byref(self._found))
        self._last = ctypes.c_uint32()
        self._arguments = (ctypes.c_int(fd), None, ctypes.byref(self._last), *places, None)

    def __call__(self) -> int:
        """How many there were."""
        self._found.value = self._count
        result = self._call(*self._arguments)
        if result not in (0, -errno.ENOENT):  # that was the last of them
            answer(result, "read all entries of a map")
        return self._found.value


def delete(fd: int, key: bytes) -> None:
    """Remove a key; no error if it is not there."""
    result = libbpf().bpf_map_delete_elem(fd, key)
    if result != -errno.ENOENT:
        answer(result, "remove an entry of a map")


def keys(fd: int, size: int) -> list[bytes]:
    """Return the keys of a map, `size` bytes each."""
    found: list[bytes] = []
    following = ctypes.create_string_buffer(size)
    last: bytes | None = None
    while libbpf().bpf_map_get_next_key(fd, last, following) == 0:
        last = following.raw
        found.append(last)
    return found
