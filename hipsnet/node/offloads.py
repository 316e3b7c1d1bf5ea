# SPDX-License-Identifier: Apache-2.0
"""Offloads of a port, switched by the ethtool ioctl."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace

from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import GRO, TX_CHECKSUM, NodeConfig
from hipsnet.node.ethtool_ioctl import ethtool_words

# By feature: the commands that get and set it, ETHTOOL_GTXCSUM .. in include/uapi/linux/ethtool.h.
_COMMANDS = {TX_CHECKSUM: (0x16, 0x17), GRO: (0x2B, 0x2C)}


def read(link: str, asked: tuple[tuple[str, bool], ...]) -> tuple[tuple[str, bool], ...]:
    """The state of the given features; those that the device does not have are left out."""
    found = ((name, _get(link, name)) for name, _ in asked)
    return tuple((name, on) for name, on in found if on is not None)


def _get(link: str, name: str) -> bool | None:
    try:
        return bool(ethtool_words(link, _COMMANDS[name][0], 0)[0])
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            return None
        raise


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Features to switch; those that a card does not have are skipped."""
    for link in desired.links:
        now = actual.links.get(link.name)
        if link.kind == "card" and now is not None and now.kind != "veth":
            continue  # a real card completes the checksum before the frame is on the wire
        have = dict(now.offloads) if now else {}
        for name, on in link.features:
            before = "" if now is None else _text(name, have[name]) if name in have else None
            after = _text(name, on)
            if before is None or before == after:
                continue
            step = Change(desired.name, "offload", "add", link.name, before, after, (name, on))
            yield replace(step, action="change") if before else step


def _text(name: str, on: bool) -> str:
    return f"{name} {'on' if on else 'off'}"


def apply(context: Context, change: Change) -> None:
    """Switch one feature of one port."""
    name, on = change.value
    ethtool_words(change.subject, _COMMANDS[name][1], int(on))
