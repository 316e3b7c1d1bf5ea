# SPDX-License-Identifier: Apache-2.0
"""The rate of a cable: a hierarchical token bucket on the sending side of each end, with a short queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hipsnet.node import queues
from hipsnet.node.actual import Actual, ActualLink
from hipsnet.node.change import Action, Change
from hipsnet.node.context import Context
from hipsnet.node.desired import LinkConfig, NodeConfig
from hipsnet.node.netlink import get_attrs
from hipsnet.topology.headroom import burst_bytes as burst_bytes
from hipsnet.units import format_rate

_ROOT = 0xFFFF_FFFF
_FIFO = "bfifo"
_QDISC, _CLASS, _LEAF = 0x48_0000, 0x48_0001, 0x49_0000
"""hipsnet's handles, 48:, 48:1 and 49: ('H'). A root qdisc with another handle is not hipsnet's."""


def read(context: Context, link: ActualLink) -> dict[str, Any]:
    """The fields of ActualLink that belong to this aspect, for a link with a token bucket."""
    if link.qdisc != "htb":
        return {}
    for message in context.netlink.get_classes(index=link.index):
        if message["handle"] == _CLASS:
            options = message.get("TCA_OPTIONS")
            bytes_per_s = options.get("TCA_HTB_RATE64") or options.get("TCA_HTB_PARMS")["rate"]
            return {"rate_bps": 8 * bytes_per_s, "queue_bytes": _queue_bytes(context, link.index)}
    return {}


def _queue_bytes(context: Context, index: int) -> int | None:
    """The limit of the class's queue, None if it counts frames."""
    leaf = context.netlink.get_leaf(index, _CLASS)
    kind, options = get_attrs(leaf, "TCA_KIND", "TCA_OPTIONS") if leaf else (None, None)
    return options["limit"] if kind == _FIFO else None


def differences(desired: NodeConfig, actual: Actual) -> Iterator[Change]:
    """Links whose rate has to be set, changed or removed, or whose queue has another limit."""
    for link in desired.links:
        if not link.shaped:
            continue
        now = actual.links.get(link.name)
        have = now.rate_bps if now else None
        value = link, now is not None and now.qdisc == "htb"
        if _bytes_per_s(link.rate_bps) != _bytes_per_s(have):
            action: Action = "add" if have is None else "remove" if link.rate_bps is None else "change"
            before, after = ("" if now is None else format_rate(have)), format_rate(link.rate_bps)
            yield Change(desired.name, "rate", action, link.name, before, after, value)
        elif now and link.rate_bps is not None and now.queue_bytes != _queue(link):
            before, after = (f"queue of {_text(size)}" for size in (now.queue_bytes, _queue(link)))
            yield Change(desired.name, "rate", "change", link.name, before, after, value)


def _bytes_per_s(rate_bps: int | None) -> int | None:
    return None if rate_bps is None else rate_bps // 8


def _queue(link: LinkConfig) -> int:
    return queues.port_bytes(link.rate_bps or 0, link.mtu or 1500)


def _text(queue_bytes: int | None) -> str:
    return "frames" if queue_bytes is None else f"{queue_bytes} bytes"


def apply(context: Context, change: Change) -> None:
    """Set, change (in place, without interrupting traffic) or remove one link's rate and the limit of its queue."""
    link: LinkConfig
    link, buckets = change.value
    index = context.index(link.name)
    if link.rate_bps is None:
        context.netlink.tc("del", index=index, handle=_QDISC, parent=_ROOT)
        return
    burst = burst_bytes(link.rate_bps, link.mtu or 1500)
    bucket = {
        "handle": _CLASS, "parent": _QDISC, "rate": link.rate_bps // 8, "ceil": link.rate_bps // 8,
        "burst": burst, "cburst": burst, "quantum": max(1514, min(burst, 200_000)),
    }  # fmt: skip
    if change.action == "add":
        # A killed run may have left the qdisc without its class. An htb cannot be replaced by another.
        qdiscs = context.netlink.get_qdiscs(index) if buckets else ()
        if not any(found["handle"] == _QDISC for found in qdiscs):
            context.netlink.tc("replace", "htb", index, handle=_QDISC, default=1)
        context.netlink.tc("add-class", "htb", index, **bucket)
    else:
        context.netlink.tc("change-class", "htb", index, **bucket)
    context.netlink.tc("replace", _FIFO, index, handle=_LEAF, parent=_CLASS, limit=_queue(link))
