# SPDX-License-Identifier: Apache-2.0
"""Set faults on a cable of the lab (down, slow, delayed, lossy), each by itself, and reset them together."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from hipsnet.errors import InputError
from hipsnet.node.applying import apply
from hipsnet.node.change import Change
from hipsnet.node.changes import changes
from hipsnet.node.context import Context, opened
from hipsnet.node.derive import node_config
from hipsnet.node.desired import LinkConfig, NodeConfig, RouteConfig
from hipsnet.node.observe import read_actual
from hipsnet.topology import Fabric, Link, Port, Topology
from hipsnet.units import given, parse_delay, parse_rate
from orchestrator.lab import delay_line, soft_switch
from orchestrator.lab.locking import locked
from orchestrator.lab.namespaces import namespace_name, require
from orchestrator.provision.provisioning import await_carriers


@dataclass(frozen=True)
class Fault:
    """A change of a cable, in both directions. None leaves a property as it is; a `rate_bps` of 0 is unlimited."""

    up: bool | None = None
    rate_bps: int | None = None
    delay_us: int | None = None
    loss_ppm: int | None = None


def parse_fault(down: bool, up: bool, rate: str | None, delay: str | None, loss: str | None) -> Fault:
    """A fault from the options. Raises InputError for a value that cannot be parsed, or if no option is given."""
    if down and up:
        raise InputError("--down and --up exclude each other; give one of them")
    fault = Fault(
        up=True if up else False if down else None,
        rate_bps=None if rate is None else given("--rate", rate, parse_rate) or 0,
        delay_us=None if delay is None else given("--delay", delay, parse_delay),
        loss_ppm=None if loss is None else given("--loss", loss, _parse_loss),
    )
    if fault == Fault():
        raise InputError("no fault given; give --down, --up, --rate, --delay, --loss or --reset")
    return fault


def _parse_loss(text: str) -> int:
    """A share in percent as parts per million."""
    try:
        ppm = Decimal(text.removesuffix("%")) * 10_000
    except InvalidOperation:
        ppm = Decimal(-1)
    if not text.endswith("%") or not ppm.is_finite() or not 0 <= ppm <= 1_000_000 or ppm != int(ppm):
        raise ValueError("0% to 100%, in steps of 0.0001%")
    return int(ppm)


def find_link(fabric: Fabric, text: str) -> Link:
    """The cable called `text`: its name, with the ends in either order, or one of its ends (`s00.p1`).

    Raises InputError with the nearest names.
    """
    by_name = {}
    for link in fabric.links:
        a, b = link.name.split(":")
        by_name.update(dict.fromkeys((f"{a}:{b}", f"{b}:{a}", a, b), link))
    if text in by_name:
        return by_name[text]
    near = difflib.get_close_matches(text, by_name, 3, 0.4) or list(by_name)[:3]
    raise InputError(f"no cable {text!r} in {fabric.name}; similar names: {', '.join(near)}")


def impair(topology: Topology, fabric: Fabric, link: Link, fault: Fault) -> tuple[Change, ...]:
    """Set the given faults of a cable and leave the others; returns the changes.

    A cable is cut at its far end: the near end loses its carrier and keeps its routes, as with a pulled plug.
    """
    require(fabric.name, [link.a.node, link.b.node])
    if fault.delay_us:
        delay_line.program()
    with locked(fabric.name):
        done: list[Change] = []
        if fault.delay_us == 0:
            delay_line.stop(fabric.name)
        for port in (link.a, link.b):
            config = node_config(topology, fabric, port.node)
            with opened(port.node, namespace_name(fabric.name, port.node)) as context:
                done += _set(context, config, port, fault, cut_here=port == link.b)
        if fault.up:
            await_carriers(fabric.name, {port.node: [port.name] for port in (link.a, link.b)})
        if fault.rate_bps is not None:
            soft_switch.serve(topology, fabric)
        if fault.delay_us is not None:
            delay_line.serve(fabric)
    return tuple(done)


def reset(topology: Topology, fabric: Fabric, link: Link) -> tuple[Change, ...]:
    """Restore a cable to the state in the file."""
    speed = topology.link.rate_bps
    fault = Fault(up=True, rate_bps=speed or 0, delay_us=topology.link.delay_us, loss_ppm=0)
    return impair(topology, fabric, link, fault)


def _set(context: Context, config: NodeConfig, port: Port, fault: Fault, cut_here: bool) -> list[Change]:
    name = port.name
    aspects = {"rate": fault.rate_bps, "delay": fault.delay_us, "loss": fault.loss_ppm}
    selected = {aspect for aspect, value in aspects.items() if value is not None}
    done: list[Change] = []
    if fault.up is False and cut_here:
        done += _cut(context, name)
    if fault.up:
        selected |= {"state", "address", "neighbour", "route"}
    if fault.loss_ppm or fault.delay_us:
        selected.add("program")
    if fault.delay_us is not None:
        selected.add("offload")
    impaired = replace(
        config, links=tuple(_faulty(link, fault) if link.name == name else link for link in config.links)
    )
    found = changes(impaired, read_actual(context, impaired))
    steps = [step for step in found if step.aspect in selected and name in _links_of(step)]
    apply(context, steps)
    return done + steps


def _cut(context: Context, name: str) -> Iterator[Change]:
    (link,) = context.netlink.get_links(context.index(name))
    if link["state"] == "up":
        context.netlink.link("set", index=context.index(name), state="down")
        yield Change(context.node, "state", "change", name, "up", "down")


def _faulty(link: LinkConfig, fault: Fault) -> LinkConfig:
    changed = link
    if fault.rate_bps is not None:
        changed = replace(changed, rate_bps=fault.rate_bps or None)
    if fault.delay_us is not None:
        changed = replace(changed, delay_us=fault.delay_us)
    if fault.loss_ppm is not None:
        changed = replace(changed, loss_ppm=fault.loss_ppm)
    return changed


def _links_of(step: Change) -> set[str]:
    """The interfaces that a change concerns."""
    if isinstance(step.value, RouteConfig):
        return {link for link, _ in step.value.hops}
    if step.aspect == "neighbour":
        return {step.value.link}
    if step.aspect == "address":
        return {step.value[0]}
    if step.aspect == "program":
        return {link.name for link in step.value.ports}
    return {step.subject}
