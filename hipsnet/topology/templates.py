# SPDX-License-Identifier: Apache-2.0
"""The commented topology file that `hipsnet init` writes, made from the kind's fields."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from hipsnet.errors import InputError
from hipsnet.topology import deadlock
from hipsnet.topology.addressing import server_name
from hipsnet.topology.building import build
from hipsnet.topology.document import NotReadable, Problem
from hipsnet.topology.kinds import FabricKind
from hipsnet.topology.loading import read

_TITLE = """\
# {title}
# `hipsnet schema` prints what is allowed here; the commented lines show what holds when they are left out.
"""
_HEAD = """\
version: 1
name: {name}

fabric:
{fabric}
link:
  rate: {rate}   # of every port, each way; or `unlimited`
  mtu: {mtu}
"""
_REST = """\
  # delay: 0us   # one way, added to every cable

# addresses:
#   ports: 10.0.0.0/8        # one /16 per {level}
#   identity: 10.255.0.0/16  # one /32 per server, on its loopback

# roce:
#   device: nic   # the NIC's own RDMA device; rxe: one in software on every server port
#   priority: 3
#   dscp: 26
#   ecn: {{enabled: true, kmin: 100KiB, kmax: 400KiB, pmax: 0.2}}

{pfc}
nodes: lab   # this machine; or real hosts:
# nodes:
#   {server}:
#     host: node1.cluster
#     ports:
{ports}
# lab:
#   switch: bridge      # or lossless: soft switches, which obey pfc
"""

_PFC = """\
# pfc:                  # lossless priorities; without this section all traffic is lossy
#   priorities: [3]
#   routes: neighbours  # what lossless traffic may use: neighbours | fixed | disjoint
#   watchdog: null      # or {detect_ms: 200, restore_ms: 200, action: drop}
"""


@dataclass(frozen=True)
class Option:
    """An option of `hipsnet init KIND`, made from a field of the kind; a list is given divided by commas."""

    field: str
    flag: str
    help: str
    is_list: bool
    is_required: bool
    default: Any


def options(kind: type[FabricKind]) -> tuple[Option, ...]:
    """Return the options of a kind, in order of its fields."""
    return tuple(
        Option(
            field=name,
            flag=f"--{kind.option_names.get(name, name.replace('_', '-'))}",
            help=f"{field.description or name}{', like 3,3' if _is_list(field.annotation) else ''}",
            is_list=_is_list(field.annotation),
            is_required=field.is_required(),
            default=None if field.is_required() else field.default,
        )
        for name, field in kind.model_fields.items()
        if name != "kind"
    )


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is tuple


def write(kind: type[FabricKind], parameters: Mapping[str, object], name: str, rate: str, mtu: int) -> str:
    """Return the topology file of a kind with these parameters, by field; None leaves a parameter out.

    Raises InputError that names the option when a value is not allowed.
    """
    known = options(kind)
    entries: list[tuple[str, str | None]] = [(f"  kind: {kind.kind_name()}", None)]
    for option in known:
        value = parameters.get(option.field)
        if value is not None:
            items = [part.strip() for part in str(value).split(",")] if option.is_list else value
            entries.append(
                (f"  {option.field}: {_scalar(items)}", kind.model_fields[option.field].description)
            )
    width = max(len(text) for text, _ in entries)
    lines = [f"{text:<{width}}  # {about}\n" if about else f"{text}\n" for text, about in entries]
    text = _HEAD.format(name=_scalar(name), fabric="".join(lines), rate=_scalar(rate), mtu=mtu)
    try:
        topology = read(text)
    except NotReadable as error:
        raise InputError("\n".join(_sentence(problem, known) for problem in error.problems)) from None
    shape = topology.fabric
    may_pause = deadlock.cycle(build(topology), "neighbours") is None
    interfaces = [
        f"#       - interface: eth{index + 1}\n" for index in range(min(shape.ports_per_server, 16))
    ]
    return (
        _TITLE.format(title=shape.title)
        + text
        + _REST.format(
            level=shape.level_noun,
            pfc=_PFC if may_pause else _no_pfc(shape),
            server=server_name((0,) * len(shape.radices), shape.radices),
            ports="".join(interfaces),
        )
    )


def _no_pfc(shape: FabricKind) -> str:
    """Say, instead of showing a pfc section, why all traffic has to be lossy."""
    note = f"No pfc section is allowed on this fabric: {shape.deadlock_note}."
    return "".join(f"# {line}\n" for line in textwrap.wrap(note, 100))


def _sentence(problem: Problem, known: Sequence[Option]) -> str:
    """Describe an error in terms of the options given, not of the file that they would make."""
    key = re.sub(r"\[\d+\]$", "", problem.key).rpartition(".")[2]
    flags = [option.flag for option in known if key in ("fabric", option.field)] or [f"--{key}"]
    return f"{', '.join(flags)}: found {problem.found}; allowed: {problem.allowed}"


def _scalar(value: object) -> str:
    """Write a value so that YAML reads it back as it is, whatever is in it."""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    text = str(value)
    return text if re.fullmatch(r"[A-Za-z0-9./-]+", text) else json.dumps(text)
