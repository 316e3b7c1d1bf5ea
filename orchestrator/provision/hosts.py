# SPDX-License-Identifier: Apache-2.0
"""A server's part on the host that plays it: applied by the lab's code, undone to what was there before."""

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
    """What a network card (or the loopback) was like before it became a port."""

    mtu: int
    alias: str
    up: bool
    offloads: tuple[tuple[str, bool], ...]
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Before:
    """What a host was like before. `namespace` tells where: the inode of the network namespace."""

    namespace: int
    cards: Mapping[str, Card]
    sysctls: Mapping[str, str]


@dataclass(frozen=True)
class HostPlan:
    """What separates a host from its part of the file.

    `pending` are neighbours whose MAC nobody told yet; `lacking` says what cards cannot do of what is asked.
    """

    config: NodeConfig
    actual: Actual
    steps: tuple[Change, ...]
    pending: tuple[str, ...]
    lacking: tuple[str, ...] = ()


def host_config(topology: Topology, fabric: Fabric, node: str) -> NodeConfig:
    """The desired state of the server that this machine plays.

    Raises InputError if the file is for the lab, or has no such server; CapabilityError if it wants what the
    kernel does not have.
    """
    if topology.nodes == "lab":
        raise InputError(f"--node {node}: wanted a file whose `nodes` name hosts, found `nodes: lab`")
    if topology.roce.device == "rxe":
        rdma.require_rxe()
    return server_config(topology, fabric, find_server(fabric, node))


def plan_host(topology: Topology, fabric: Fabric, node: str) -> HostPlan:
    """Compare this machine with its part of the file. Changes nothing.

    Raises InputError for interfaces that are not there, ConflictError for what stands in the way.
    """
    config = host_config(topology, fabric, node)
    with opened(config.name, None) as context:
        plan = _plan(context, _with_remembered(fabric.name, config))
        return replace(plan, steps=(*plan.steps, *lost_record(fabric.name, config.name)))


def provision_host(topology: Topology, fabric: Fabric, node: str) -> HostPlan:
    """Make this machine match its part of the file; returns what was done and what is pending.

    What was there before is written down first, so that `restore` can bring it back.
    """
    wanted = host_config(topology, fabric, node)
    ensure_programs(("forward",))
    with locked(fabric.name), opened(wanted.name, None) as context:
        wanted = _with_remembered(fabric.name, wanted)
        plan = _plan(context, wanted)
        steps = [*plan.steps, *lost_record(fabric.name, wanted.name)]
        _remember(fabric.name, plan)
        apply(context, plan.steps)
        unknown = [(entry.link, entry.address) for entry in plan.config.neighbours if entry.mac is None]
        neighbours.resolve(context, unknown, RESOLVE_S)
        plan = _plan(context, wanted)
        apply(context, plan.steps)
        steps += plan.steps
        after = _plan(context, wanted)
    refuse_unsettled(wanted.name, after.steps)
    return replace(after, steps=tuple(steps))


def lost_record(fabric: str, node: str) -> tuple[Change, ...]:
    """The record of a server that is applied here without one, as when its folder was deleted.

    A new record can only hold the state of now: what the host was like before is lost.
    """
    if node not in pins.pinned_nodes(fabric) or _path(fabric, node).exists():
        return ()
    return (Change(node, "record", "add", str(_path(fabric, node)), "", "the host's earlier state is lost"),)


def restore(fabric: str, node: str | None = None) -> tuple[str, ...]:
    """Undo what was applied to this machine (one server, or all that it plays); returns the servers.

    Called with the fabric's lock held. Servers that were applied inside another network namespace are left.
    """
    done = []
    for name, before in _remembered(fabric).items():
        if node in (None, name) and before.namespace == _namespace():
            _undo(fabric, name, before, _others(fabric, name))
            _path(fabric, name).unlink()
            done.append(name)
    with contextlib.suppress(OSError):  # others are remembered there still, or there are none
        (state.folder(fabric) / _FOLDER).rmdir()
    return tuple(done)


def remembered(fabric: str) -> tuple[str, ...]:
    """Servers of a fabric of real machines that were applied to this one."""
    return tuple(_remembered(fabric))


def remembered_elsewhere(fabric: str) -> tuple[str, ...]:
    """Servers of a fabric that were applied inside another network namespace than the caller's."""
    return tuple(name for name, before in _remembered(fabric).items() if before.namespace != _namespace())


def _plan(context: Context, wanted: NodeConfig) -> HostPlan:
    config = _with_cards(wanted, links.read(context))
    actual = read_actual(context, config)
    refuse_conflicts(config, actual)
    config = _resolved(config, actual)
    pending = tuple(f"{entry.address} on {entry.link}" for entry in config.neighbours if entry.mac is None)
    lacking = nic.lacking(config, actual)
    return HostPlan(config, actual, tuple(changes(config, actual)), pending, lacking)


def _with_remembered(fabric: str, wanted: NodeConfig) -> NodeConfig:
    """The configuration with the settings that were changed and are asked for no more: they get back."""
    known = _remembered(fabric).get(wanted.name)
    if known is None or known.namespace != _namespace():
        return wanted
    found = []
    for link in wanted.links:
        asked = {setting.name for setting in link.settings}
        card = known.cards.get(link.name)
        past = card.settings if card else ()
        restored = tuple(Setting(name, value, optional=True) for name, value in past if name not in asked)
        found.append(replace(link, settings=(*link.settings, *restored)))
    return replace(wanted, links=tuple(found))


def _with_cards(wanted: NodeConfig, there: Mapping[str, ActualLink]) -> NodeConfig:
    """The configuration with its cards' own MACs."""
    found = []
    for link in wanted.links:
        if link.kind != "card":
            found.append(link)
            continue
        card = there.get(link.name)
        if card is None:
            raise InputError(
                f"{wanted.name}: interface {link.name} wanted, found {', '.join(there)}; "
                f"correct nodes.{wanted.name}.ports or choose another --node"
            )
        if link.mac not in (None, card.mac):
            raise InputError(
                f"{wanted.name}: {link.name} with MAC {link.mac} wanted, found {card.mac}; "
                f"correct nodes.{wanted.name}.ports or choose another --node"
            )
        found.append(replace(link, mac=card.mac))
    return replace(wanted, links=tuple(found))


def _resolved(config: NodeConfig, actual: Actual) -> NodeConfig:
    """The configuration with the neighbours' MACs that ARP has found out."""
    macs = {}
    entries = []
    for entry in config.neighbours:
        mac = entry.mac or actual.resolved.get((entry.link, entry.address))
        macs[entry.address] = mac
        entries.append(replace(entry, mac=mac))
    table = tuple(replace(row, mac=row.mac or macs.get(row.via)) if row.via else row for row in config.table)
    return replace(config, neighbours=tuple(entries), table=table)


def _remember(fabric: str, plan: HostPlan) -> None:
    """Write down what was there, if it is not written down yet; give back cards that are no longer ports."""
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
    """The known cards, with what is asked for now and was not then."""
    settings = {name: dict(cards[name].settings) | dict(card.settings) for name, card in known.items()}
    return {name: replace(card, settings=tuple(settings[name].items())) for name, card in known.items()}


def _card(actual: Actual, name: str) -> Card:
    link = actual.links[name]
    return Card(link.mtu, link.alias or "", link.up, link.offloads, link.settings)


def _others(fabric: str, node: str) -> tuple[Before, ...]:
    """What was before the other servers of a fabric that are applied here: what they share is older there."""
    remembered = _remembered(fabric).items()
    return tuple(found for name, found in remembered if name != node and found.namespace == _namespace())


def _undo(fabric: str, node: str, before: Before, others: tuple[Before, ...]) -> None:
    """Bring back what was there, but for what `others` use too; cards that are gone meanwhile are passed over."""
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
                f"{path} is not a record that hipsnet has written ({error!r}), and was not used; correct it, or "
                "remove it: then the state of the host before its provision is lost"
            ) from None
    return found


def _as_before(content: dict[str, Any]) -> Before:
    """What was written down. Raises InputError for sysctls that hipsnet does not change."""
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
