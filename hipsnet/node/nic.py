# SPDX-License-Identifier: Apache-2.0
"""Settings of a card: read by group, compared, and set if they differ.

A setting has a name whose first word is its group ("ring rx"), and a text as its value. Settings that a driver
lacks are reported before anything changes; a required setting that it lacks is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from hipsnet.errors import InputError
from hipsnet.node import dcb, ethtool, roce
from hipsnet.node.actual import Actual
from hipsnet.node.change import Change
from hipsnet.node.context import Context
from hipsnet.node.desired import LinkConfig, NodeConfig, Setting

_ORDER = (*ethtool.GROUPS, *dcb.GROUPS, *roce.GROUPS)
_WRITE: dict[str, Callable[[str, str, Mapping[str, str]], None]] = {
    **dict.fromkeys(ethtool.GROUPS, ethtool.write),
    **dict.fromkeys(dcb.GROUPS, dcb.write),
    **dict.fromkeys(roce.GROUPS, roce.write),
}
_LACKS = ethtool.LACKS | dcb.LACKS | roce.LACKS
_OFF = {"pause": "off", "pfc": dcb.NONE}
"""A card pauses the whole link or priorities, not both: one is switched off before the other is switched on."""


def read(link: str, asked: Iterable[Setting]) -> tuple[tuple[str, str], ...]:
    """Return the actual values of the given settings, without settings that the driver does not have."""
    names = [setting.name for setting in asked]
    groups = dict.fromkeys(map(_group, names))
    found = ethtool.read(link, *(group for group in groups if group in ethtool.GROUPS))
    found |= dcb.read(link, *(group for group in groups if group in dcb.GROUPS))
    for group in groups:
        if group in roce.GROUPS:
            found |= roce.read(link, group)
    return tuple((name, found[name]) for name in names if name in found)


def differences(desired: NodeConfig, actual: Actual) -> list[Change]:
    """Settings of cards to change, one change per group: the settings of a group are set together."""
    found = [change for link in desired.links for change in _of_link(desired.name, link, actual)]
    own = [change for change in found if change.value[1] not in roce.GROUPS]
    return sorted(own, key=lambda change: (not _stops(change), _ORDER.index(change.value[1])))


def rdma_differences(desired: NodeConfig, actual: Actual) -> list[Change]:
    """Settings of the cards' RDMA devices to change; the devices must exist."""
    found = [change for link in desired.links for change in _of_link(desired.name, link, actual)]
    return [change for change in found if change.value[1] in roce.GROUPS]


def _of_link(node: str, link: LinkConfig, actual: Actual) -> Iterator[Change]:
    now = actual.links.get(link.name)
    have = dict(now.settings) if now else {}
    wrong: dict[str, dict[str, str]] = {}
    for setting in link.settings:
        if have.get(setting.name, setting.value) != setting.value:
            wrong.setdefault(_group(setting.name), {})[setting.name] = setting.value
    for group, values in wrong.items():
        before = {name: have[name] for name in values}
        subject = f"{link.name} {group}"
        yield Change(
            node,
            "nic",
            "change",
            subject,
            _text(group, before),
            _text(group, values),
            (link.name, group, values),
        )


def _text(group: str, values: Mapping[str, str]) -> str:
    parts = ((name.removeprefix(group).strip(), value) for name, value in values.items())
    return ", ".join(f"{name} {value}".strip() for name, value in parts)


def _stops(change: Change) -> bool:
    _, group, values = change.value
    return group in _OFF and _OFF[group] in values.values()


def apply(context: Context, change: Change) -> None:
    """Set the settings of one group on one card."""
    link, group, values = change.value
    _WRITE[group](link, group, values)


def lacking(desired: NodeConfig, actual: Actual) -> tuple[str, ...]:
    """Return the requested settings that cards lack: one sentence for each group of a card."""
    return tuple(text for text, _ in _lacking(desired, actual))


def refuse_lacking(desired: NodeConfig, actual: Actual) -> None:
    """Raise InputError if a card lacks required settings, naming all of them."""
    missing = [text for text, required in _lacking(desired, actual) if required]
    if missing:
        raise InputError(
            f"{desired.name}: {'; '.join(missing)}. It is required: choose another card, or leave `required` out"
        )


def _lacking(desired: NodeConfig, actual: Actual) -> Iterator[tuple[str, bool]]:
    for link in desired.links:
        now = actual.links.get(link.name)
        if now is None:
            continue
        have = dict(now.settings)
        missing: dict[str, list[Setting]] = {}
        for setting in link.settings:
            group = _group(setting.name)
            # A software device that is still to be added has no settings yet.
            awaited = group == "roce" and link.rxe is not None and link.rxe not in actual.rxe
            if setting.name not in have and not setting.optional and not awaited:
                missing.setdefault(group, []).append(setting)
        for group, settings in missing.items():
            names = ", ".join(f"{setting.name} {setting.value}" for setting in settings)
            required = any(setting.required for setting in settings)
            yield f"{link.name}: {names} left out: {_LACKS[group]}", required


def _group(name: str) -> str:
    return name.split()[0]
