# SPDX-License-Identifier: Apache-2.0
"""The commented topology file that a newcomer starts from."""

from __future__ import annotations

import json
import re

from hipsnet.errors import InputError
from hipsnet.topology.document import NotReadable, Problem
from hipsnet.topology.loading import read

Fabric = dict[str, tuple[object, str]]  # keys of the section, each with its value and what it means

_OPTIONS = {"n": "ports"}
"""Options of `hipsnet init` that are not called as their key in the file."""

_TEXT = """\
# {title}
# `hipsnet schema` prints what is allowed here; the commented lines show what holds when they are left out.
version: 1
name: {name}

fabric:
{fabric}
link:
  rate: {rate}   # of every port, each way; or `unlimited`
  mtu: {mtu}
  # delay: 0us   # one way, added to every cable

# addresses:
#   ports: 10.0.0.0/8        # one /16 per {level}
#   identity: 10.255.0.0/16  # one /32 per server, on its loopback

# roce:
#   device: nic   # the NIC's own RDMA device; rxe: one in software on every server port
#   priority: 3
#   dscp: 26
#   ecn: {{enabled: true, kmin: 100KiB, kmax: 400KiB, pmax: 0.2}}

# pfc:                  # lossless priorities; without this section all traffic is lossy
#   priorities: [3]
#   routes: neighbours  # what lossless traffic may use: neighbours | fixed | disjoint
#   watchdog: null      # or {{detect_ms: 200, restore_ms: 200, action: drop}}

nodes: lab   # this machine; or real hosts:
# nodes:
#   {server}:
#     host: node1.cluster
#     ports:
{ports}
# lab:
#   switch: bridge      # or lossless: soft switches, which obey pfc
"""


def bcube(n: int, levels: int, name: str, rate: str, mtu: int) -> str:
    """Return the file of BCube(n, levels); InputError that names the option when one is wrong."""
    fabric: Fabric = {
        "kind": ("bcube", ""),
        "n": (n, "ports of every switch"),
        "levels": (levels, "ports of every server; there are n^levels servers"),
    }
    return _write(f"BCube({n},{levels})", fabric, "level", "s" + "0" * levels, levels, name, rate, mtu)


def torus(dims: str, name: str, rate: str, mtu: int) -> str:
    """Return the file of a torus with dims like "3,3"; InputError that names the option when one is wrong."""
    lengths = [part.strip() for part in dims.split(",")]
    note = "servers along each dimension; along a side of 2 there is one cable"
    fabric: Fabric = {"kind": ("torus", ""), "dims": (lengths, note)}
    ports = sum(1 if side == "2" else 2 for side in lengths)
    title = f"Torus {'x'.join(lengths)}"
    return _write(title, fabric, "dimension", "s" + "0" * len(lengths), ports, name, rate, mtu)


def fattree(servers: int, nics: int, k: int | None, name: str, rate: str, mtu: int) -> str:
    """Return the file of a Fat-Tree, with the smallest k that fits unless given; InputError as above."""
    fabric: Fabric = {
        "kind": ("fattree", ""),
        "servers": (servers, ""),
        "nics": (nics, "ports of every server"),
    }
    if k is not None:
        fabric["k"] = (k, "ports of every switch")
    first = "s" + "0" * len(str(servers - 1))
    return _write(f"Fat-Tree of {servers} servers", fabric, "layer", first, nics, name, rate, mtu)


def _write(
    title: str,
    fabric: Fabric,
    level: str,
    server: str,
    ports: int,
    name: str,
    rate: str,
    mtu: int,
) -> str:
    lines = []
    for key, (value, note) in fabric.items():
        text = f"  {key}: {_scalar(value)}"
        lines.append(f"{text:<12}  # {note}\n" if note else f"{text}\n")
    interfaces = [f"#       - interface: eth{index + 1}\n" for index in range(min(max(ports, 1), 16))]
    text = _TEXT.format(
        title=title.replace("\n", " "),
        name=_scalar(name),
        fabric="".join(lines),
        rate=_scalar(rate),
        mtu=mtu,
        level=level,
        server=server,
        ports="".join(interfaces),
    )
    try:
        read(text)
    except NotReadable as error:
        raise InputError("\n".join(_sentence(problem, fabric) for problem in error.problems)) from None
    return text


def _sentence(problem: Problem, fabric: Fabric) -> str:
    """What is wrong, of the options that were typed and not of the file that they would make."""
    key = re.sub(r"\[\d+\]$", "", problem.key).rpartition(".")[2]
    keys = [name for name in fabric if name != "kind"] if key == "fabric" else [key]
    options = ", ".join(f"--{_OPTIONS.get(name, name)}" for name in keys)
    return f"{options}: found {problem.found}; allowed: {problem.allowed}"


def _scalar(value: object) -> str:
    """Write a value so that YAML reads it back as it is, whatever is in it."""
    if isinstance(value, list):
        return f"[{', '.join(_scalar(item) for item in value)}]"
    text = str(value)
    return text if re.fullmatch(r"[A-Za-z0-9./-]+", text) else json.dumps(text)
