# SPDX-License-Identifier: Apache-2.0
"""Settings of a NIC through ethtool: link pause, rings, channels, coalescing, and offloads that break XDP.

Rings are set by ethtool netlink, the others by ioctl: pyroute2 has both, except for link pause.

| setting | value |
|---|---|
| `pause` | of the whole link, IEEE 802.3x: "off", or which of "rx", "tx" and "auto" (negotiated), "rx,tx" |
| `ring rx`, `ring tx` | descriptors |
| `channels` | pairs of queues |
| `coalesce rx`, `coalesce tx` | microseconds before an interrupt |
| `coalesce adaptive` | the driver chooses those of rx: "on", "off" |
| `lro`, `gro-hw` | the NIC merges frames, which no XDP program can read: "on", "off" |
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyroute2.ethtool import Ethtool
from pyroute2.ethtool.ioctl import EthtoolError
from pyroute2.netlink.exceptions import NetlinkError

from hipsnet.node.ethtool_ioctl import ethtool_words

_GPAUSEPARAM, _SPAUSEPARAM = 0x12, 0x13  # include/uapi/linux/ethtool.h
_PAUSE = ("auto", "rx", "tx")
"""The fields of `struct ethtool_pauseparam`, in its order."""
_FEATURES = {"lro": "rx-lro", "gro-hw": "rx-gro-hw"}
_COALESCE = {
    "coalesce rx": "rx_coalesce_usecs",
    "coalesce tx": "tx_coalesce_usecs",
    "coalesce adaptive": "use_adaptive_rx_coalesce",
}
GROUPS = ("pause", "lro", "gro-hw", "channels", "ring", "coalesce")
LACKS = {group: f"its driver has no {group} (ethtool)" for group in GROUPS}
_ABSENT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV)


def read(link: str, *groups: str) -> dict[str, str]:
    """All settings of these groups that the link's driver has."""
    found: dict[str, str] = {}
    if "pause" in groups:
        with _lacking_left_out():
            found["pause"] = _pause(link)
    others = [group for group in groups if group != "pause"]
    if others:
        with (
            _lacking_left_out(),
            _opened() as tool,
        ):  # opened once: opening requests the kernel's netlink families
            for group in others:
                with _lacking_left_out():
                    found |= _READ[group](tool, link)
    return found


def write(link: str, group: str, values: Mapping[str, str]) -> None:
    """Set some settings of a group. Raises OSError as the driver answers."""
    if group == "pause":
        words = values["pause"].split(",")
        ethtool_words(link, _SPAUSEPARAM, *(int(word in words) for word in _PAUSE))
        return
    with _opened() as tool:
        try:
            _WRITE[group](tool, link, values)
        except EthtoolError:
            raise OSError(errno.EOPNOTSUPP, LACKS[group]) from None


@contextmanager
def _lacking_left_out() -> Iterator[None]:
    try:
        yield
    except (EthtoolError, NetlinkError):
        pass
    except OSError as error:
        if error.errno not in _ABSENT:
            raise


def _pause(link: str) -> str:
    switches = ethtool_words(link, _GPAUSEPARAM, 0, 0, 0)
    return ",".join(word for word, on in zip(_PAUSE, switches, strict=True) if on) or "off"


@contextmanager
def _opened() -> Iterator[Ethtool]:
    tool = Ethtool()
    try:
        yield tool
    finally:
        tool.close()


def _features(tool: Ethtool, link: str) -> dict[str, str]:
    found = tool.get_features(link).features
    return {
        ours: "on" if found[theirs].enable else "off" for ours, theirs in _FEATURES.items() if theirs in found
    }


def _set_features(tool: Ethtool, link: str, values: Mapping[str, str]) -> None:
    features = tool.get_features(link)
    for name, value in values.items():
        features.features[_FEATURES[name]].enable = value == "on"
    tool.set_features(link, features)


def _rings(tool: Ethtool, link: str) -> dict[str, str]:
    rings = tool.get_rings(link)
    return {
        f"ring {way}": str(count) for way, count in (("rx", rings.rx), ("tx", rings.tx)) if count is not None
    }


def _set_rings(tool: Ethtool, link: str, values: Mapping[str, str]) -> None:
    tool.set_rings(link, **{name.split()[1]: int(value) for name, value in values.items()})


def _channels(tool: Ethtool, link: str) -> dict[str, str]:
    found = tool.get_channels(link)
    return {"channels": str(found.combined_count)} if found.max_combined else {}


def _set_channels(tool: Ethtool, link: str, values: Mapping[str, str]) -> None:
    tool.set_channels(link, {"combined_count": int(values["channels"])})


def _coalesce(tool: Ethtool, link: str) -> dict[str, str]:
    found = tool.get_coalesce(link)
    numbers = {ours: found[theirs] for ours, theirs in _COALESCE.items()}
    return {
        ours: ("off", "on")[bool(n)] if ours == "coalesce adaptive" else str(n) for ours, n in numbers.items()
    }


def _set_coalesce(tool: Ethtool, link: str, values: Mapping[str, str]) -> None:
    numbers = {"on": 1, "off": 0}
    tool.set_coalesce(
        link,
        {
            _COALESCE[ours]: numbers.get(text) if text in numbers else int(text)
            for ours, text in values.items()
        },
    )


_READ: dict[str, Callable[[Any, str], dict[str, str]]] = {
    "lro": _features,
    "gro-hw": _features,
    "channels": _channels,
    "ring": _rings,
    "coalesce": _coalesce,
}
_WRITE: dict[str, Callable[[Any, str, Mapping[str, str]], None]] = {
    "lro": _set_features,
    "gro-hw": _set_features,
    "channels": _set_channels,
    "ring": _set_rings,
    "coalesce": _set_coalesce,
}
