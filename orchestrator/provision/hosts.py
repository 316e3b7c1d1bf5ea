# SPDX-License-Identifier: Apache-2.0
"""Configure a real host as a server of a fabric, with the lab's code, and restore its earlier state."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipsnet.errors import InputError, ProvisionError
from hipsnet.node import links, neighbours, nic, pins, rdma, sysctls
from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.applying import apply, refuse_unsettled, settle
from hipsnet.node.attaching import detach
from hipsnet.node.change import Change
from hipsnet.node.changes import changes, refuse_conflicts
from hipsnet.node.context import Context, opened
from hipsnet.node.derive import server_config
from hipsnet.node.desired import LinkConfig, NodeConfig, Setting
from hipsnet.node.observe import read_actual
from hipsnet.node.programs import ensure_programs
from hipsnet.topology import Fabric, Topology, find_server
from orchestrator.lab import state
from orchestrator.lab.locking import locked

RESOLVE_S = 2.0
_FOLDER = "hosts"


@dataclass(frozen=True)
class Card:
    """The state of a network card (or the loopback) before it became a port."""

    mtu: int
    alias: str
    up: bool
    offloads: tuple[tuple[str, bool], ...]
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Before:
    """The state of a host before its provision. `namespace` is the inode of its network namespace."""

    namespace: int
    cards: Mapping[str, Card]
    sysctls: Mapping[str, str]


@dataclass(frozen=True)
class HostPlan:
    """The changes that bring a host to its desired state.

    `pending` are neighbours that have not answered ARP yet; `lacking` are settings that a card does not support.
    """

    config: NodeConfig
    actual: Actual
    steps: tuple[Change, ...]
    pending: tuple[str, ...]
    lacking: tuple[str, ...] = ()


def host_config(topology: Topology, fabric: Fabric, node: str) -> NodeConfig:
    """The desired state of the server `node`, on this machine.

    Raises InputError if the file is for the lab or has no such server, CapabilityError if the kernel lacks a
    feature that the file requires.
    """
    if topology.nodes == "lab":
        raise InputError(f"--node {node}: requires a file whose `nodes` name hosts, but it has `nodes: lab`")
    if topology.roce.device == "rxe":
        rdma.require_rxe()
    return server_config(topology, fabric, find_server(fabric, node))


def plan_host(topology: Topology, fabric: Fabric, node: str) -> HostPlan:
    """Compare this machine with its part of the file. Changes nothing.

    Raises InputError for missing interfaces, ConflictError if something that is not hipsnet's is in the way.
    """
    config = host_config(topology, fabric, node)
    with opened(config.name, None) as context:
        plan = _plan(context, _with_remembered(fabric.name, config))
        return replace(plan, steps=(*plan.steps, *lost_record(fabric.name, config.name)))


def provision_host(topology: Topology, fabric: Fabric, node: str) -> HostPlan:
    """Make this machine match its part of the file; returns the changes made and what is pending.

    The earlier state is recorded first, so that `restore` can restore it.
    """
    config = host_config(topology, fabric, node)
    ensure_programs(("forward",))
    with locked(fabric.name), opened(config.name, None) as context:
        config = _with_remembered(fabric.name, config)
        plan = _plan(context, config)
        steps = [*plan.steps, *lost_record(fabric.name, config.name)]
        _remember(fabric.name, plan)
        apply(context, plan.steps)
        unknown = [(entry.link, entry.address) for entry in plan.config.neighbours if entry.mac is None]
        neighbours.resolve(context, unknown, RESOLVE_S)
        plan = _plan(context, config)
        apply(context, plan.steps)
        steps += plan.steps
        after = _plan(context, config)
    refuse_unsettled(config.name, after.steps)
    return replace(after, steps=tuple(steps))


def lost_record(fabric: str, node: str) -> tuple[Change, ...]:
    """The change that writes a missing record of a server that is applied here, as when its folder was deleted.

    A new record can only hold the present state: the state before the provision is lost.
    """
    if node not in pins.pinned_nodes(fabric) or _path(fabric, node).exists():
        return ()
    return (Change(node, "record", "add", str(_path(fabric, node)), "", "the host's earlier state is lost"),)


def restore(fabric: str, node: str | None = None) -> tuple[str, ...]:
    """Undo what was applied to this machine, for one server or for all of its servers; returns the servers.

    Called with the fabric's lock held. Servers applied inside another network namespace are left unchanged.
    """
    done = []
    for name, before in _remembered(fabric).items():
        if node in (None, name) and before.namespace == _namespace():
            _undo(fabric, name, before, _others(fabric, name))
            _path(fabric, name).unlink()
            done.append(name)
    with contextlib.suppress(OSError):  # other servers are recorded there, or the folder does not exist
        (state.folder(fabric) / _FOLDER).rmdir()
    return tuple(done)


def remembered(fabric: str) -> tuple[str, ...]:
    """Servers of a fabric of real machines that were applied to this one."""
    return tuple(_remembered(fabric))


def remembered_elsewhere(fabric: str) -> tuple[str, ...]:
    """Servers of a fabric that were applied inside another network namespace than the caller's."""
    return tuple(name for name, before in _remembered(fabric).items() if before.namespace != _namespace())


def _plan(context: Context, config: NodeConfig) -> HostPlan:
    config = _with_cards(config, links.read(context))
    actual = read_actual(context, config)
    refuse_conflicts(config, actual)
    config = _resolved(config, actual)
    pending = tuple(f"{entry.address} on {entry.link}" for entry in config.neighbours if entry.mac is None)
    lacking = nic.lacking(config, actual)
    return HostPlan(config, actual, tuple(changes(config, actual)), pending, lacking)


def _with_remembered(fabric: str, config: NodeConfig) -> NodeConfig:
    """The configuration, plus the earlier values of settings that the file no longer sets."""
    known = _remembered(fabric).get(config.name)
    if known is None or known.namespace != _namespace():
        return config
    found = []
    for link in config.links:
        asked = {setting.name for setting in link.settings}
        card = known.cards.get(link.name)
        past = card.settings if card else ()
        restored = tuple(Setting(name, value, optional=True) for name, value in past if name not in asked)
        found.append(replace(link, settings=(*link.settings, *restored)))
    return replace(config, links=tuple(found))


def _with_cards(config: NodeConfig, there: Mapping[str, ActualLink]) -> NodeConfig:
    """The configuration with its cards' own MACs."""
    found = []
    for link in config.links:
        if link.kind != "card":
            found.append(link)
            continue
        card = there.get(link.name)
        if card is None:
            raise InputError(
                f"{config.name}: this machine has no interface {link.name}, only {', '.join(there)}; "
                f"correct nodes.{config.name}.ports or choose another --node"
            )
        if link.mac not in (None, card.mac):
            raise InputError(
                f"{config.name}: {link.name} has the MAC {card.mac}, but the file says {link.mac}; "
                f"correct nodes.{config.name}.ports or choose another --node"
            )
        found.append(replace(link, mac=card.mac))
    return replace(config, links=tuple(found))


def _resolved(config: NodeConfig, actual: Actual) -> NodeConfig:
    """The configuration with the neighbours' MACs that ARP has resolved."""
    macs = {}
    entries = []
    for entry in config.neighbours:
        mac = entry.mac or actual.resolved.get((entry.link, entry.address))
        macs[entry.address] = mac
        entries.append(replace(entry, mac=mac))
    table = tuple(replace(row, mac=row.mac or macs.get(row.via)) if row.via else row for row in config.table)
    return replace(config, neighbours=tuple(entries), table=table)


def _remember(fabric: str, plan: HostPlan) -> None:
    """Record the present state unless one is recorded; restore cards that are no longer ports."""
    node = plan.config.name
    known = _remembered(fabric).get(node)
    if known is not None and known.namespace != _namespace():
        raise ProvisionError(
            f"{node} of {fabric} was applied in another network namespace of this machine; "
            f"run `hipsnet destroy {fabric} --node {node}` there first"
        )
    names = {link.name for link in plan.config.links}
    others = _others(fabric, node)
    if known is not None and known.cards.keys() - names:
        _undo(fabric, node, known, others)
        known = None
    cards = {name: _card(plan.actual, name) for name in names}
    settings = dict(plan.actual.sysctls or {})
    for other in others:
        cards |= {name: card for name, card in other.cards.items() if name in names}
        settings |= {key: value for key, value in other.sysctls.items() if key in settings}
    if known is not None:
        cards, settings = cards | _older(cards, known.cards), settings | dict(known.sysctls)
    before = Before(_namespace(), cards, settings)
    if before != known:
        content = {
            "namespace": before.namespace,
            "cards": {name: vars(card) for name, card in before.cards.items()},
            "sysctls": dict(before.sysctls),
        }
        state.write_json(_path(fabric, node), content)


def _older(cards: Mapping[str, Card], known: Mapping[str, Card]) -> dict[str, Card]:
    """The recorded cards, plus the present values of settings that were not recorded."""
    settings = {name: dict(cards[name].settings) | dict(card.settings) for name, card in known.items()}
    return {name: replace(card, settings=tuple(settings[name].items())) for name, card in known.items()}


def _card(actual: Actual, name: str) -> Card:
    link = actual.links[name]
    return Card(link.mtu, link.alias or "", link.up, link.offloads, link.settings)


def _others(fabric: str, node: str) -> tuple[Before, ...]:
    """The records of the other servers applied here; for shared cards and sysctls theirs are the older ones."""
    remembered = _remembered(fabric).items()
    return tuple(found for name, found in remembered if name != node and found.namespace == _namespace())


def _undo(fabric: str, node: str, before: Before, others: tuple[Before, ...]) -> None:
    """Restore the recorded state except what `others` still use; cards that have disappeared are skipped."""
    before = Before(
        before.namespace,
        {
            name: card
            for name, card in before.cards.items()
            if not any(name in other.cards for other in others)
        },
        {key: value for key, value in before.sysctls.items() if not any(key in o.sysctls for o in others)},
    )
    with opened(node, None) as context:
        detach(fabric, node, before.cards)
        there = links.read(context)
        cards = tuple(
            LinkConfig(
                name,
                "loopback" if name == "lo" else "card",
                mtu=card.mtu,
                alias=card.alias,
                offloads=card.offloads,
                settings=tuple(Setting(setting, value) for setting, value in card.settings),
            )
            for name, card in before.cards.items()
            if name in there
        )
        config = NodeConfig(fabric, node, cards, sysctls=dict(before.sysctls))
        settle(context, config)
        for name, card in before.cards.items():
            if name in there and not card.up:
                context.netlink.link("set", index=context.index(name), state="down")
    pins.remove_pins(fabric, node)


def _remembered(fabric: str) -> dict[str, Before]:
    folder = state.folder(fabric) / _FOLDER
    state.check_folder(folder)
    found = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            found[path.stem] = _as_before(json.loads(path.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise ProvisionError(
                f"{path} is not a valid record of hipsnet ({error!r}) and was ignored; correct it or remove it "
                "(without it, the state of the host before its provision is lost)"
            ) from None
    return found


def _as_before(content: dict[str, Any]) -> Before:
    """The record's content. Raises InputError for sysctls that hipsnet does not change."""
    for key in content["sysctls"]:
        sysctls.require_key(key)
    cards = {name: _as_card(card) for name, card in content["cards"].items()}
    return Before(int(content["namespace"]), cards, dict(content["sysctls"]))


def _as_card(content: dict[str, Any]) -> Card:
    pairs = {
        key: tuple((name, value) for name, value in content.get(key, ())) for key in ("offloads", "settings")
    }
    return Card(**content | pairs)


def _path(fabric: str, node: str) -> Path:
    return state.folder(fabric) / _FOLDER / f"{node}.json"


def _namespace() -> int:
    return os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116
