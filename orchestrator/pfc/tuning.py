# SPDX-License-Identifier: Apache-2.0
"""The thresholds of PFC and ECN to try on a fabric, and the choice of the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hipsnet.topology import Topology
from hipsnet.topology.headroom import thresholds
from hipsnet.units import parse_size

FULL = 0.97
"""A goodput of at least this share of the best counts as full: the rest is noise of the machine."""
IN_TIME = 1.25
"""A synchronization of at most this multiple of the fastest is in time: few are measured, on a shared machine."""
ALIKE = 1.05
"""A pause time of at most this multiple of the least is equal: the rest is chance."""
_KIB = 1024
_SHARES = (16, 8, 4)


@dataclass(frozen=True)
class Setting:
    """XOFF and XON in bytes (None: as the file derives them), and where marking begins and is certain.

    `kmax` None marks nothing.
    """

    xoff: int | None
    xon: int | None
    kmin: int | None
    kmax: int | None

    def sections(self) -> dict[str, dict[str, Any]]:
        """The keys of the topology file."""
        ecn: dict[str, Any] = {"enabled": False}
        if self.kmax is not None:
            ecn = {"kmin": size(self.kmin or 0), "kmax": size(self.kmax)}
        lengths = {"xoff": self.xoff, "xon": self.xon}
        pfc = {key: size(length) for key, length in lengths.items() if length is not None}
        return {"roce": {"ecn": ecn}, "pfc": pfc}

    def applied(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A topology file's content with this setting in it."""
        sections = self.sections()
        roce, pfc = dict(document.get("roce") or {}), dict(document["pfc"])
        for key in ("xoff", "xon"):
            pfc.pop(key, None)
        roce["ecn"] = {**(roce.get("ecn") or {}), "enabled": True, **sections["roce"]["ecn"]}
        return {**document, "roce": roce, "pfc": pfc | sections["pfc"]}


@dataclass(frozen=True)
class Trial:
    """The result of a setting.

    `goodput_bps` is the goodput of the incast's receiver, `probe_s` the median time of a synchronization; `lost` is
    the number of lossless frames lost in both. `incast_pause_s` and `probe_pause_s` are the seconds for which ports
    were paused, summed over both directions of all cables.
    """

    setting: Setting
    is_present: bool
    goodput_bps: float
    probe_s: float
    lost: int
    marks: int
    incast_pause_s: float
    probe_pause_s: float

    @property
    def pause_s(self) -> float:
        """The whole time that ports were paused."""
        return self.incast_pause_s + self.probe_pause_s


def present(topology: Topology) -> Setting:
    """The setting of the file."""
    pfc, ecn = topology.pfc, topology.roce.ecn
    xoff, xon = (parse_size(text) if text else None for text in (pfc and pfc.xoff, pfc and pfc.xon))
    if not ecn.enabled:
        return Setting(xoff, xon, None, None)
    return Setting(xoff, xon, parse_size(ecn.kmin), parse_size(ecn.kmax))


def grid(topology: Topology, xoffs: Sequence[int] = ()) -> tuple[Setting, ...]:
    """The file's own setting, then XOFF times XON times marking.

    XOFF is a 16th, an 8th and a quarter of the shared buffer unless `xoffs` are given; XON is half of it, or as
    near to it as may be; marking begins at a quarter of XOFF and is certain there, or there is none.
    """
    frame = topology.link.mtu + 14
    least = 4 * frame
    derived = [max(topology.lab.buffer_bytes // share, least) // _KIB * _KIB for share in _SHARES]
    found = [present(topology)]
    for xoff in xoffs or derived:
        for xon in sorted({xoff // 2 // _KIB * _KIB, max(xoff - 2 * frame, xoff // 2) // _KIB * _KIB}):
            for kmin, kmax in ((xoff // 4 // _KIB * _KIB, xoff), (None, None)):
                found.append(Setting(xoff, xon, kmin, kmax))
    return tuple(dict.fromkeys(found))


def flaw(trial: Trial, trials: Sequence[Trial]) -> str:
    """Why a setting is rejected; empty if it is good."""
    lossless = [other for other in trials if not other.lost]
    if trial.lost:
        return "loses"
    if trial.goodput_bps < FULL * max(other.goodput_bps for other in lossless):
        return "slow incast"
    return "slow sync" if trial.probe_s > IN_TIME * min(other.probe_s for other in lossless) else ""


def is_good(trial: Trial, trials: Sequence[Trial]) -> bool:
    """Whether nothing was lost, the goodput is full and the synchronization in time."""
    return not flaw(trial, trials)


def best(trials: Sequence[Trial]) -> Trial | None:
    """The good trial with the least pause time; None if no trial is good.

    Among equals the file's own setting is preferred, then one with ECN marks: without ECN there are only pauses.
    """
    good = [trial for trial in trials if is_good(trial, trials)]
    least = min((trial.pause_s for trial in good), default=0.0)
    alike = [trial for trial in good if trial.pause_s <= ALIKE * least]
    return min(
        alike,
        key=lambda trial: (not trial.is_present, trial.setting.kmax is None, trial.pause_s),
        default=None,
    )


def size(length: int) -> str:
    """A size in the notation of the topology file."""
    return f"{length // _KIB}KiB" if length % _KIB == 0 else f"{length}B"


def shown_xoff(topology: Topology, setting: Setting) -> str:
    """XOFF as text; a share of the free buffer if it has no fixed length."""
    lossless = next(found for found in thresholds(topology) if found.lossless)
    return size(setting.xoff) if setting.xoff else f"{lossless.alpha:g} x free"
