"""The bpf system call, by libbpf: maps, programs, pins and attachments as file descriptors and bytes."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hipsnet.errors import CapabilityError, ProvisionError

# linux/bpf.h and linux/if_link.h
PROG_TYPE_XDP = 6
ATTACH_XDP = 37
XDP_HAS_FRAGS = 1 << 5
MAP_OF_MAPS, RING = 12, 27
READ_ONLY_FOR_PROGRAMS = 1 << 7
MAPPABLE = 1 << 10
_UPDATE_IF_NOEXIST, _DRIVER_MODE, _REPLACE = 1 << 0, 1 << 2, 1 << 4
_NAME_BYTES = 16
_LOG_BYTES = 1 << 20


class _MapInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("name", ctypes.c_char * _NAME_BYTES),
    )


class _ProgramInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("lengths", ctypes.c_uint32 * 2),
        ("instructions", ctypes.c_uint64 * 2),
        ("load_time", ctypes.c_uint64),
        ("created_by_uid", ctypes.c_uint32),
        ("map_count", ctypes.c_uint32),
        ("map_ids", ctypes.c_uint64),
        ("name", ctypes.c_char * _NAME_BYTES),
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


class _LoadOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("attempts", ctypes.c_int),
        ("expected_attach_type", ctypes.c_uint32),
        ("prog_btf_fd", ctypes.c_uint32),
        ("prog_flags", ctypes.c_uint32),
        ("prog_ifindex", ctypes.c_uint32),
        ("kern_version", ctypes.c_uint32),
        ("attach", ctypes.c_uint32 * 3),
        ("fd_array", ctypes.c_void_p),
        ("func_info", ctypes.c_void_p),
        ("func_info_size", ctypes.c_uint32 * 2),
        ("line_info", ctypes.c_void_p),
        ("line_info_size", ctypes.c_uint32 * 2),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_char_p),
    )


class _AttachOptions(ctypes.Structure):
    _fields_ = (("sz", ctypes.c_size_t), ("old_prog_fd", ctypes.c_int))


class _QueryOptions(ctypes.Structure):
    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("prog_id", ctypes.c_uint32),
        ("drv_prog_id", ctypes.c_uint32),
        ("hw_prog_id", ctypes.c_uint32),
        ("skb_prog_id", ctypes.c_uint32),
        ("attach_mode", ctypes.c_uint8),
    )


@dataclass(frozen=True)
class MapInfo:
    """What the kernel says about a map; sizes in bytes."""

    type: int
    id: int
    name: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int


@dataclass(frozen=True)
class ProgramInfo:
    """What the kernel says about a program; `tag` is its digest, the same for the same instructions."""

    id: int
    name: str
    tag: str
    map_ids: tuple[int, ...]


@dataclass(frozen=True)
class Attachment:
    """The XDP program of an interface; `native` tells the driver's own hook from the generic one."""

    program_id: int
    native: bool


@cache
def libbpf() -> ctypes.CDLL:
    """The library. Raises CapabilityError if it is not installed."""
    try:
        return ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise CapabilityError("libbpf.so.1 wanted, not found; run: apt install libbpf1") from None


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close the descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def answer(result: int, wish: str) -> int:
    """Hand on what libbpf answered (-errno for a failure).

    Raises CapabilityError for want of privilege, else ProvisionError, with `wish` in the message.
    """
    if result >= 0:
        return result
    if -result in (errno.EPERM, errno.EACCES):
        raise CapabilityError(f"cannot {wish}: CAP_BPF and CAP_NET_ADMIN wanted, not found; run as root")
    error = ProvisionError(f"cannot {wish}: {os.strerror(-result)}")
    error.__cause__ = OSError(-result, os.strerror(-result))
    raise error


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
        kind, name.encode()[: _NAME_BYTES - 1], key_size, value_size, max_entries, ctypes.byref(options)
    )
    return answer(fd, f"create the map {name}")


def open_map(map_id: int) -> int:
    """Open the map of an id."""
    return answer(libbpf().bpf_map_get_fd_by_id(map_id), f"open the map {map_id}")


def map_info(fd: int) -> MapInfo:
    """Describe the map behind a descriptor."""
    info = _MapInfo()
    _info(fd, info, "map")
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


def load_xdp(name: str, instructions: bytes) -> int:
    """Load an XDP program that takes frames in several buffers, and return its descriptor.

    Raises ProvisionError with the end of the verifier's log if the kernel refuses it.
    """

    def attempt(log: ctypes.Array[ctypes.c_char] | None) -> int:
        options = _LoadOptions(
            sz=ctypes.sizeof(_LoadOptions), expected_attach_type=ATTACH_XDP, prog_flags=XDP_HAS_FRAGS
        )
        if log is not None:
            options.log_level, options.log_size = 1, len(log)
            options.log_buf = ctypes.cast(log, ctypes.c_char_p)
        return int(
            libbpf().bpf_prog_load(
                PROG_TYPE_XDP,
                name.encode()[: _NAME_BYTES - 1],
                b"GPL",
                instructions,
                ctypes.c_size_t(len(instructions) // 8),
                ctypes.byref(options),
            )
        )

    fd = attempt(None)
    if fd >= 0 or -fd == errno.EPERM:
        return answer(fd, f"load the program {name}")
    log = ctypes.create_string_buffer(_LOG_BYTES)
    fd = attempt(log)
    if fd >= 0:
        return fd
    said = "\n  ".join(log.value.decode(errors="replace").strip().splitlines()[-12:])
    raise ProvisionError(
        f"the kernel refuses the program {name}: {os.strerror(-fd)}; the verifier says\n  {said}"
    )


def program_info(fd: int) -> ProgramInfo:
    """Describe the program behind a descriptor."""
    ids = (ctypes.c_uint32 * 64)()
    info = _ProgramInfo(map_count=len(ids), map_ids=ctypes.addressof(ids))
    _info(fd, info, "program")
    return ProgramInfo(info.id, info.name.decode(), bytes(info.tag).hex(), tuple(ids[: info.map_count]))


def open_program(program_id: int) -> int:
    """Open the program of an id."""
    return answer(libbpf().bpf_prog_get_fd_by_id(program_id), f"open the program {program_id}")


def program_by_id(program_id: int) -> ProgramInfo | None:
    """Describe the program of an id; None if it is gone."""
    fd = libbpf().bpf_prog_get_fd_by_id(program_id)
    if fd == -errno.ENOENT:
        return None
    with closing(answer(fd, f"open the program {program_id}")):
        return program_info(fd)


def pin(fd: int, path: Path) -> None:
    """Give a map or program a name in bpffs."""
    answer(libbpf().bpf_obj_pin(fd, os.fsencode(path)), f"pin {path}")


def open_pin(path: Path) -> int | None:
    """Open what is pinned at `path`; None if nothing is."""
    fd = libbpf().bpf_obj_get(os.fsencode(path))
    return None if fd == -errno.ENOENT else answer(fd, f"open {path}")


def attached(ifindex: int) -> Attachment | None:
    """Return the XDP program of an interface of this namespace; None if it has none."""
    options = _QueryOptions(sz=ctypes.sizeof(_QueryOptions))
    answer(
        libbpf().bpf_xdp_query(ifindex, 0, ctypes.byref(options)), f"ask interface {ifindex} for its program"
    )
    program_id = options.drv_prog_id or options.prog_id
    return Attachment(program_id, native=bool(options.drv_prog_id)) if program_id else None


def attach(ifindex: int, fd: int, replaced: int | None = None) -> None:
    """Attach a program natively, in place of the program behind `replaced`, or where there was none.

    The kernel refuses it (ProvisionError) if another program stands there by then.
    """
    options = _AttachOptions(
        sz=ctypes.sizeof(_AttachOptions), old_prog_fd=replaced if replaced is not None else -1
    )
    flags = _DRIVER_MODE | (_UPDATE_IF_NOEXIST if replaced is None else _REPLACE)
    given = None if replaced is None else ctypes.byref(options)
    answer(
        libbpf().bpf_xdp_attach(ifindex, fd, flags, given),
        f"attach an XDP program to interface {ifindex} natively",
    )


def unattach(ifindex: int, fd: int) -> None:
    """Take the program behind `fd` from an interface. Raises ProvisionError if another one stands there."""
    options = _AttachOptions(sz=ctypes.sizeof(_AttachOptions), old_prog_fd=fd)
    result = libbpf().bpf_xdp_detach(ifindex, _DRIVER_MODE | _REPLACE, ctypes.byref(options))
    answer(result, f"take the XDP program from interface {ifindex}")


def _info(fd: int, info: ctypes.Structure, what: str) -> None:
    size = ctypes.c_uint32(ctypes.sizeof(info))
    answer(libbpf().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size)), f"describe a {what}")
