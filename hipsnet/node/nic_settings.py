# SPDX-License-Identifier: Apache-2.0
"""Derives the settings of a host's cards from a topology: explicit settings and implied settings."""

from __future__ import annotations

from collections.abc import Iterator

from hipsnet import units
from hipsnet.node.desired import Setting
from hipsnet.topology.schema import Nic, Pfc, Roce, Topology

_ECN_CAPABLE = 2  # ECT(0), the low bits of TOS


def settings(topology: Topology) -> tuple[Setting, ...]:
    """The settings of every port of a host. The lab's cables have none."""
    found = [*_xdp(), *_nic(topology.nic, topology.pfc)]
    if topology.pfc is not None:
        found += _lossless(topology.pfc, topology.roce)
    if topology.pfc is not None or "roce" in topology.model_fields_set:
        found += _roce(topology.roce)
    return tuple(found)


def _xdp() -> Iterator[Setting]:
    """Disable the offloads that prevent attaching the forwarding program, or merge frames before it."""
    yield Setting("lro", "off", optional=True)
    yield Setting("gro-hw", "off", optional=True)


def _nic(nic: Nic, pfc: Pfc | None) -> Iterator[Setting]:
    pause = nic.pause or ("off" if pfc is not None else None)
    values = {
        "dcbx": "host,ieee" if nic.dcbx == "host" else None,
        "pause": {"on": "rx,tx"}.get(pause, pause) if pause else None,
        "channels": nic.channels,
        "ring rx": nic.rx_ring,
        "ring tx": nic.tx_ring,
        "coalesce adaptive": None if nic.adaptive is None else "on" if nic.adaptive else "off",
        "coalesce rx": nic.rx_usecs,
        "coalesce tx": nic.tx_usecs,
        **{f"dscp {entry.dscp}": entry.priority for entry in nic.dscp},
    }
    if nic.ets is not None:
        values |= {"ets classes": _listed(nic.ets.classes), "ets bandwidth": _listed(nic.ets.bandwidth)}
    if nic.buffers is not None:
        sizes = map(units.parse_size, nic.buffers.sizes)
        values |= {"buffer of": _listed(nic.buffers.of), "buffer sizes": _listed(sizes)}
    if nic.max_rates:
        rates = (units.parse_rate(rate) for rate in nic.max_rates)
        values["maxrate kbit/s"] = _listed((rate or 0) // 1000 for rate in rates)
    if nic.trust:
        values["trust order"] = ",".join(nic.trust)
    for name, value in values.items():
        if value is not None:
            # A card without link pause does not pause the link.
            yield Setting(name, str(value), nic.required, optional=name == "pause" and pause == "off")


def _lossless(pfc: Pfc, roce: Roce) -> Iterator[Setting]:
    yield Setting("pfc priorities", _listed(sorted(pfc.priorities)), pfc.required)
    if pfc.delay is not None:
        yield Setting("pfc delay", str(pfc.delay), pfc.required)
    yield Setting(f"dscp {roce.dscp}", str(roce.priority), pfc.required)


def _roce(roce: Roce) -> Iterator[Setting]:
    tos = roce.dscp << 2 | (_ECN_CAPABLE if roce.ecn.enabled else 0)
    yield Setting("roce mode", roce.mode, roce.required)
    yield Setting("roce tos", str(tos), roce.required)
    switch = str(int(roce.ecn.enabled))
    for role in ("np", "rp"):
        yield Setting(f"ecn {role} {roce.priority}", switch, optional=True)
    for entry in roce.dcqcn:
        yield Setting(f"dcqcn {entry.name}", str(entry.value), roce.required)


def _listed(numbers: object) -> str:
    return ",".join(map(str, numbers))  # type: ignore[call-overload]
