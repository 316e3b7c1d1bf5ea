# SPDX-License-Identifier: Apache-2.0
"""A node's program on its ports: attached natively, with its maps pinned."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hipsnet.errors import ConflictError, ProvisionError
from hipsnet.node import bpf, pins, programs
from hipsnet.node.programs import Program

_LEAST_NUMBERS = 256


class PortBinding(NamedTuple):
    """The interface that is a port of a node, by the port's index, with its MAC."""

    port: int
    ifname: str
    mac: str


@dataclass(frozen=True)
class ProgramState:
    """The state of a node's program: `differences` from the desired state, empty if there are none.

    `program_id` is the kernel's id of the pinned program, None if none is pinned.
    """

    program_id: int | None
    differences: tuple[str, ...]


@dataclass(frozen=True)
class _Opened:
    """Descriptors of a node's program and maps."""

    program: int
    maps: dict[str, int]


def attach_forwarding(fabric: str, node: str, ports: Iterable[tuple[int, str, str]]) -> tuple[str, ...]:
    """Run the forwarding program on the ports (index, interface, MAC) of a server.

    Works in the calling thread's namespace. A program that is correct already stays, with its table and counters.
    Returns the changed interfaces. Raises ConflictError, before anything is changed, if a port has a program of
    another owner; ProvisionError if there is no such interface or the kernel refuses the program.
    """
    return _attach("forward", fabric, node, ports)


def attach_cable(fabric: str, node: str, ports: Iterable[tuple[int, str, str]]) -> tuple[str, ...]:
    """Run the program of the switch ends of cables on the ports of a switch; otherwise as `attach_forwarding`."""
    return _attach("cable", fabric, node, ports)


def attach_switched(fabric: str, node: str, ports: Iterable[tuple[int, str, str]]) -> tuple[str, ...]:
    """Run the program that feeds a soft switch on its ports; otherwise as `attach_forwarding`."""
    return _attach("switched", fabric, node, ports)


def detach(fabric: str, node: str, ifnames: Iterable[str]) -> None:
    """Detach hipsnet's programs from interfaces of the calling thread's namespace, and remove the node's pins.

    Missing interfaces and programs of other owners are skipped.
    """
    for ifname in ifnames:
        ifindex = _ifindex(ifname)
        found = bpf.attached(ifindex) if ifindex else None
        if ifindex and found and _is_ours(found.program_id):
            with bpf.closing(bpf.open_program(found.program_id)) as program:
                bpf.unattach(ifindex, program)
    pins.remove_pins(fabric, node)


def read_program(fabric: str, node: str, name: str, ports: Iterable[tuple[int, str, str]]) -> ProgramState:
    """Compare a node with the result of `attach_<name>`, in the calling thread's namespace."""
    bindings = _bindings(ports)
    program = programs.program_of(name)
    folder = pins.node_folder(fabric, node)
    fd = bpf.open_pin(folder / pins.PROGRAM)
    if fd is None:
        return ProgramState(None, (f"no program pinned in {folder}",))
    with bpf.closing(fd):
        pinned = bpf.program_info(fd)
    with _open_whole(folder, program, bindings) as opened:
        if opened is None:
            return ProgramState(
                pinned.id, (f"{folder}: of another version, of another number of ports, or incomplete",)
            )
        differences = [_attachment_difference(binding, pinned.id) for binding in bindings]
        if _compare_ports(program, opened.maps, bindings).entries:
            differences.append("its table of ports lists other interfaces")
    return ProgramState(pinned.id, tuple(text for text in differences if text))


def _attach(name: str, fabric: str, node: str, ports: Iterable[tuple[int, str, str]]) -> tuple[str, ...]:
    bindings = _bindings(ports)
    program = programs.program_of(name)
    folder = pins.node_folder(fabric, node)
    indices = {binding: _present(node, binding) for binding in bindings}
    for binding, ifindex in indices.items():
        _refuse_foreign(node, binding, ifindex)
    pins.mount_bpffs()
    with ExitStack() as stack:
        opened = stack.enter_context(_open_whole(folder, program, bindings))
        if opened is None:
            opened = stack.enter_context(_made_new(folder, program, bindings))
        difference = _compare_ports(program, opened.maps, bindings)
        for name, key, value in difference.entries:
            bpf.update(opened.maps[name], key, value)
        changed = set(difference.ifnames)
        program_id = bpf.program_info(opened.program).id
        for binding, ifindex in indices.items():
            if _put(ifindex, opened.program, program_id):
                changed.add(binding.ifname)
    return tuple(binding.ifname for binding in bindings if binding.ifname in changed)


def _bindings(ports: Iterable[tuple[int, str, str]]) -> tuple[PortBinding, ...]:
    return tuple(PortBinding(*port) for port in ports)


def _ifindex(ifname: str) -> int | None:
    try:
        return socket.if_nametoindex(ifname)
    except OSError:
        return None


def _present(node: str, binding: PortBinding) -> int:
    ifindex = _ifindex(binding.ifname)
    if ifindex is None:
        raise ProvisionError(f"{node}: no interface {binding.ifname} for port {binding.port}")
    return ifindex


def _is_ours(program_id: int) -> bool:
    found = bpf.program_by_id(program_id)
    return found is not None and found.name.startswith(programs.OURS)


def _refuse_foreign(node: str, binding: PortBinding, ifindex: int) -> None:
    found = bpf.attached(ifindex)
    program = bpf.program_by_id(found.program_id) if found else None
    if program and not program.name.startswith(programs.OURS):
        raise ConflictError(
            f"{node}: {binding.ifname} has the XDP program {program.name!r} (id {program.id}), which hipsnet "
            f"did not attach; if it is not needed, run: ip link set {binding.ifname} xdp off"
        )


def _attachment_difference(binding: PortBinding, program_id: int) -> str | None:
    ifindex = _ifindex(binding.ifname)
    if ifindex is None:
        return f"{binding.ifname}: no such interface"
    found = bpf.attached(ifindex)
    if found is None:
        return f"{binding.ifname}: no program attached"
    if found.program_id != program_id:
        return f"{binding.ifname}: program {found.program_id} attached, not {program_id}"
    return None if found.native else f"{binding.ifname}: attached generically, not natively"


def _put(ifindex: int, program: int, program_id: int) -> bool:
    """Attach the program unless it is attached; return whether it was not."""
    found = bpf.attached(ifindex)
    if found is None:
        bpf.attach(ifindex, program)
    elif found.program_id == program_id:
        return False
    else:
        with bpf.closing(bpf.open_program(found.program_id)) as replaced:
            bpf.attach(ifindex, program, replaced)
    return True


def _sizes(ports: tuple[PortBinding, ...]) -> dict[str, int]:
    """The number of entries of a node's maps that differs from the source's."""
    count = 1 + max((binding.port for binding in ports), default=0)
    last = max((_ifindex(binding.ifname) or 0 for binding in ports), default=0)
    # Some spare entries: a new interface with a higher index then fits without new maps.
    numbers = max(_LEAST_NUMBERS, 1 << last.bit_length())
    return {
        "port_of": numbers,
        **dict.fromkeys(("ports", "counters", "transmit", "rings", "endpoints", "pauses"), count),
    }


def _has_room(info: bpf.MapInfo, sizes: dict[str, int]) -> bool:
    needed = sizes.get(info.name, info.max_entries)
    return info.max_entries >= needed if info.name == "port_of" else info.max_entries == needed


@dataclass(frozen=True)
class _PortsDifference:
    """Entries to write into the tables of ports as (map, key, value), and the interfaces that they are for."""

    entries: tuple[tuple[str, bytes, bytes], ...]
    ifnames: tuple[str, ...]


@contextmanager
def _open_whole(folder: Path, program: Program, ports: tuple[PortBinding, ...]) -> Iterator[_Opened | None]:
    """A node's pinned program and maps if they are of this version, complete and of the right sizes."""
    with ExitStack() as stack:

        def opened(name: str) -> int | None:
            fd = bpf.open_pin(folder / name)
            return None if fd is None else stack.enter_context(bpf.closing(fd))

        pinned = opened(pins.PROGRAM)
        info = None if pinned is None else bpf.program_info(pinned)
        maps = {name: fd for name in program.maps if (fd := opened(name)) is not None}
        infos = [bpf.map_info(fd) for fd in maps.values()]
        sizes = _sizes(ports)
        whole = (
            info is not None
            and info.tag in program.tags
            and len(maps) == len(program.maps)
            and {found.id for found in infos} == set(info.map_ids)
            and all(_has_room(found, sizes) for found in infos)
        )
        yield _Opened(pinned, maps) if whole and pinned is not None else None


@contextmanager
def _made_new(folder: Path, program: Program, ports: tuple[PortBinding, ...]) -> Iterator[_Opened]:
    """New maps and a new program, pinned; the program last, so that a folder with a program is complete."""
    sizes = _sizes(ports)
    with ExitStack() as stack:
        maps = {
            name: stack.enter_context(bpf.closing(programs.create_map(program, name, sizes.get(name))))
            for name in program.maps
        }
        loaded = stack.enter_context(bpf.closing(programs.load(program, maps)))
        pins.remove_pins(folder.parent.name, folder.name)
        folder.mkdir(mode=0o700, parents=True)
        for name, fd in maps.items():
            bpf.pin(fd, folder / name)
        bpf.pin(loaded, folder / pins.PROGRAM)
        yield _Opened(loaded, maps)


def _compare_ports(
    program: Program, maps: dict[str, int], ports: tuple[PortBinding, ...]
) -> _PortsDifference:
    """The entries that the tables of ports lack for these interfaces. The injected loss of a port is kept."""
    row_type = program.maps["ports"].value
    forgotten, entries, ifnames = [], [], []
    for binding in ports:
        index, ifindex = _u32(binding.port), _u32(_ifindex(binding.ifname) or 0)
        row = np.frombuffer(bpf.lookup(maps["ports"], index, row_type.itemsize) or b"", row_type)
        desired = _row(row, ifindex, binding.mac)
        lacking = [("ports", index, desired.tobytes())] if desired != row else []
        for name, key, value in (("port_of", ifindex, _u32(binding.port + 1)), ("transmit", index, ifindex)):
            if name in maps and bpf.lookup(maps[name], key, len(value)) != value:
                lacking.append((name, key, value))
        if row["ifindex"].tobytes() not in (ifindex, bytes(4)):
            forgotten.append(("port_of", row["ifindex"].tobytes(), bytes(4)))
        if lacking:
            entries += lacking
            ifnames.append(binding.ifname)
    # Removals first: two ports may have swapped their interfaces.
    return _PortsDifference((*forgotten, *entries), tuple(ifnames))


def _row(row: np.ndarray[Any, np.dtype[Any]], ifindex: bytes, mac: str) -> np.ndarray[Any, np.dtype[Any]]:
    desired = row.copy()
    desired["mac"] = list(mac_bytes(mac))
    if row["ifindex"].tobytes() != ifindex:
        desired["ifindex"], desired["mtu"] = int.from_bytes(ifindex, sys.byteorder), 0
    return desired


def _u32(value: int) -> bytes:
    return value.to_bytes(4, sys.byteorder)


def mac_bytes(mac: str) -> bytes:
    """The six bytes of a MAC written with colons."""
    return bytes.fromhex(mac.replace(":", ""))
