# SPDX-License-Identifier: Apache-2.0
"""The XDP part of a node: its program on every port, its forwarding table, and the injected loss of its ports."""

from __future__ import annotations

from collections.abc import Iterator

from hipsnet.errors import ConflictError, ProvisionError
from hipsnet.node import bpf, programs
from hipsnet.node.actual import Actual
from hipsnet.node.attaching import attach_cable, attach_forwarding, attach_switched, read_program
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import NodeConfig, TableEntry
from hipsnet.node.forwarding import (
    TableDifference,
    compare_table,
    fill_table,
    read_loss,
    read_table,
    set_loss,
)
from hipsnet.node.priorities import priority_differences, set_priorities
from hipsnet.node.storms import has_watchdog, set_watchdog


def program_of(desired: NodeConfig) -> str | None:
    """The program that a node's ports have to run; all ports of a node run the same one."""
    return next((link.runs for link in desired.ports if link.runs), None)


def bindings(desired: NodeConfig) -> tuple[tuple[int, str, str], ...]:
    """The node's ports as (index, interface, MAC)."""
    return tuple((link.port or 0, link.name, link.mac or "") for link in desired.ports)


def program_differences(desired: NodeConfig) -> tuple[str, ...]:
    """Differences of the program on the ports and of its settings; called in the node's namespace."""
    name = program_of(desired)
    if not name:
        return ()
    found = read_program(desired.fabric, desired.name, name, bindings(desired)).differences
    return found if found or name != "forward" else tuple(_setting_differences(desired))


def _setting_differences(desired: NodeConfig) -> Iterator[str]:
    """Differences in the settings of the forwarding program: the watchdog, and the priorities of DSCPs."""
    if not has_watchdog(desired.fabric, desired.name, desired.watchdog):
        yield f"its watchdog is not the file's ({desired.watchdog or 'none'})"
    if desired.priorities:
        wrong = tuple(priority_differences(desired.fabric, desired.name, desired.priorities))
        yield from wrong[:1]
        if wrong[1:]:
            yield f"{len(wrong) - 1} more entries of its DSCP map"


def table(desired: NodeConfig) -> frozenset[TableEntry] | None:
    """The actual forwarding table; None if there is none that this version can read."""
    try:
        return frozenset(read_table(desired.fabric, desired.name)) if desired.table else None
    except ProvisionError:
        return None


def losses(desired: NodeConfig) -> tuple[int, ...]:
    """The injected loss of the ports in ppm, by port index; empty if there is no program."""
    try:
        return read_loss(desired.fabric, desired.name) if desired.ports else ()
    except ProvisionError:
        return ()


def refuse_foreign(desired: NodeConfig, actual: Actual) -> None:
    """Raise ConflictError if a port has an XDP program that hipsnet did not attach."""
    for link in desired.ports:
        now = actual.links.get(link.name)
        found = bpf.program_by_id(now.program_id) if now and now.program_id else None
        if found and not found.name.startswith(programs.OURS):
            raise ConflictError(
                f"{desired.name}: {link.name} has the XDP program {found.name!r} (id {found.id}), which "
                f"hipsnet did not attach; if it is not needed, run: ip link set {link.name} xdp off"
            )


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """A program to attach."""
    name = program_of(desired)
    if name and (actual.program_differences is None or actual.program_differences):
        before = "; ".join(actual.program_differences or ())
        subject = f"{name} on {', '.join(link.name for link in desired.ports)}"
        yield Change(
            desired.name, "program", "change" if before else "add", subject, before, "attached", desired
        )
    if not name and _feeds_a_soft_switch(desired, actual):
        subject = f"cable on {', '.join(link.name for link in desired.ports)}"
        yield Change(desired.name, "program", "change", subject, "for a soft switch", "attached", desired)


def table_differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """A table to fill."""
    if desired.table:
        found = compare_table(actual.table or (), desired.table)
        if found:
            action = "add" if actual.table is None else "change"
            before = "" if actual.table is None else f"{len(actual.table)} entries"
            after = f"{len(desired.table)} entries{_counted(found) if before else ''}"
            yield Change(desired.name, "table", action, "of destinations", before, after, desired)  # type: ignore[arg-type]


def loss_differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Losses to set."""
    for link in desired.ports:
        now = actual.links.get(link.name)
        have = now.loss_ppm if now else 0
        if have != link.loss_ppm:
            before, after = f"{have} ppm", f"{link.loss_ppm} ppm"
            yield Change(desired.name, "loss", "change", link.name, before, after, (desired.fabric, link))


def apply(context: Context, change: Change) -> None:
    """Attach the program that a node's ports have to run."""
    desired: NodeConfig = change.value
    attach = {"forward": attach_forwarding, "cable": attach_cable, "switched": attach_switched}
    name = program_of(desired) or "cable"
    attach[name](desired.fabric, desired.name, bindings(desired))
    if name == "forward":
        set_watchdog(desired.fabric, desired.name, desired.watchdog)
        if desired.priorities:
            set_priorities(desired.fabric, desired.name, desired.priorities)


def fill(context: Context, change: Change) -> None:
    """Fill the forwarding table."""
    desired: NodeConfig = change.value
    fill_table(desired.fabric, desired.name, desired.table)


def apply_loss(context: Context, change: Change) -> None:
    """Set the loss of one port."""
    fabric, link = change.value
    set_loss(fabric, change.node, link.port, link.loss_ppm)


def _feeds_a_soft_switch(desired: NodeConfig, actual: Actual) -> bool:
    """Whether a port has the program that keeps every frame from the kernel."""
    attached = (actual.links[link.name].program_id for link in desired.ports if link.name in actual.links)
    found = (bpf.program_by_id(number) for number in attached if number)
    return any(program and program.name == f"{programs.OURS}switched" for program in found)


def _counted(found: TableDifference) -> str:
    parts = ((found.added, "added"), (found.changed, "changed"), (found.removed, "removed"))
    return f" ({', '.join(f'{len(entries)} {word}' for entries, word in parts if entries)})"
