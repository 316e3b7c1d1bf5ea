# SPDX-License-Identifier: Apache-2.0
"""Data centre bridging of a NIC as named settings: PFC, ETS, rates, DSCP to priority, trust, port buffers, DCBX.

| setting | value |
|---|---|
| `dcbx` | DCBX agent and version: "host,ieee", "firmware,cee", ...; "none": the driver's default |
| `pfc priorities` | the lossless priorities, "3,4", or "none" |
| `pfc delay` | allowance for cable and MAC delay in bit times; mlx5: cable length in metres |
| `ets classes` | the traffic class of priorities 0 to 7, "0,0,0,1,0,0,0,0" |
| `ets bandwidth` | percent for traffic classes 0 to 7; 0: strict priority; or "cbs", "vendor" |
| `maxrate kbit/s` | the maximum rate of traffic classes 0 to 7; 0: unlimited |
| `dscp 26` | the priority of packets with that DSCP, or "none"; "3+4": one entry for each |
| `trust order` | the fields that give a packet's priority, in this order: "dscp", "dscp,pcp", "pcp", "none" |
| `buffer of` | the buffer of priorities 0 to 7 |
| `buffer sizes` | bytes of buffers 0 to 7 |

Few drivers have `trust order` (Linux 6.2's apptrust); the others (mlx5) trust DSCP as soon as it has an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hipsnet.node import dcbnl
from hipsnet.node.dcbnl import Answer, App

GROUPS = ("dcbx", "pfc", "ets", "maxrate", "dscp", "trust", "buffer")
LACKS = {
    "dcbx": "its driver does not let the host select the DCBX agent (dcbnl getdcbx)",
    "pfc": "its driver has no PFC (dcbnl ieee_getpfc)",
    "ets": "its driver has no ETS (dcbnl ieee_getets)",
    "maxrate": "its driver has no maximum rates for traffic classes (dcbnl ieee_getmaxrate)",
    "dscp": "its driver has no DCB (dcbnl)",
    "trust": "its driver, or a kernel before 6.2, does not support setting the trust order (dcbnl getapptrust)",
    "buffer": "its driver does not support setting port buffers (dcbnl getbuffer)",
}
NONE = "none"
_SERVED: dict[int, object] = {dcbnl.STRICT: 0, 1: "cbs", 255: "vendor"}
"""Transmission selection of a traffic class without a share of the bandwidth (`IEEE_8021QAZ_TSA_*`)."""
_SELECTORS = {"ethertype": 1, "stream": 2, "dgram": 3, "any": 4, "dscp": 5, "pcp": 255}
_DCBX = {"host": 1, "firmware": 2, "cee": 4, "ieee": 8, "static": 16}
_DSCPS = 64


def pfc_classes(ifname: str) -> int | None:
    """Return the number of lossless traffic classes that an interface supports (IEEE 802.1Qbb); None without DCB.

    Raises OSError if the interface does not exist, or if the request fails for a reason other than lack of DCB.
    """
    answer = dcbnl.read(ifname)
    return answer.pfc.classes if answer and answer.pfc else None


def read(link: str, *groups: str) -> dict[str, str]:
    """All settings of these groups that the link's driver has, read with one request."""
    answer = dcbnl.read(link) if groups else None
    found: dict[str, str] = {}
    if answer is not None:
        for group in groups:
            found |= settings_of(answer, group)
    return found


def settings_of(answer: Answer, group: str) -> dict[str, str]:
    """Return the settings of a group from the driver's answer."""
    if group == "pfc" and answer.pfc:
        enabled = [priority for priority in range(8) if answer.pfc.enabled >> priority & 1]
        return {"pfc priorities": _listed(enabled) or NONE, "pfc delay": str(answer.pfc.delay)}
    if group == "ets" and answer.ets:
        served = zip(answer.ets.served, answer.ets.bandwidth, strict=True)
        shares = [share if how == dcbnl.ETS else _SERVED.get(how, how) for how, share in served]
        return {"ets classes": _listed(answer.ets.class_of), "ets bandwidth": _listed(shares)}
    if group == "dscp":
        return {f"dscp {dscp}": _priorities(answer, dscp) for dscp in range(_DSCPS)}
    if group == "buffer" and answer.buffer:
        return {"buffer of": _listed(answer.buffer.buffer_of), "buffer sizes": _listed(answer.buffer.sizes)}
    if group == "maxrate" and answer.max_rates:
        return {"maxrate kbit/s": _listed(answer.max_rates.kbit_s)}
    if group == "trust" and answer.trusted is not None:
        words = {selector: word for word, selector in _SELECTORS.items()}
        return {"trust order": _listed(words.get(selector, selector) for selector in answer.trusted) or NONE}
    if group == "dcbx" and answer.dcbx is not None:
        return {"dcbx": _listed(word for word, flag in _DCBX.items() if answer.dcbx & flag) or NONE}
    return {}


def _priorities(answer: Answer, dscp: int) -> str:
    found = (
        app.priority for app in answer.apps if (app.selector, app.protocol) == (dcbnl.DSCP_SELECTOR, dscp)
    )
    return "+".join(map(str, sorted(found))) or NONE


def write(link: str, group: str, values: Mapping[str, str]) -> None:
    """Set some settings of a group; the others stay. Raises OSError with the driver's error."""
    answer = dcbnl.read(link)
    if answer is not None:
        for request in requests(link, answer, group, values):
            dcbnl.send(request)


def requests(link: str, answer: Answer, group: str, values: Mapping[str, str]) -> list[dcbnl.Message]:
    """Return the messages that change a driver's settings from those in `answer` to `values`."""
    if group == "dscp":
        return _dscp_requests(link, answer, values)
    if group == "trust":
        return [dcbnl.trust_request(link, _of_words(values["trust order"], _SELECTORS))]
    if group == "dcbx":
        return [dcbnl.dcbx_request(link, sum(_of_words(values["dcbx"], _DCBX)))]
    part: dcbnl.Pfc | dcbnl.Ets | dcbnl.Buffer | dcbnl.MaxRates | None = None
    if group == "pfc" and answer.pfc:
        part = _pfc(answer.pfc, values)
    elif group == "ets" and answer.ets:
        part = _ets(answer.ets, values)
    elif group == "maxrate":
        part = dcbnl.MaxRates(_numbers(values["maxrate kbit/s"]))
    elif group == "buffer" and answer.buffer:
        buffer = answer.buffer
        part = replace(
            buffer,
            buffer_of=_numbers(values["buffer of"]) if "buffer of" in values else buffer.buffer_of,
            sizes=_numbers(values["buffer sizes"]) if "buffer sizes" in values else buffer.sizes,
        )
    return [] if part is None else [dcbnl.set_request(link, part)]


def _pfc(pfc: dcbnl.Pfc, values: Mapping[str, str]) -> dcbnl.Pfc:
    if (listed := values.get("pfc priorities")) is not None:
        pfc = replace(pfc, enabled=sum(1 << priority for priority in _numbers(listed)))
    return replace(pfc, delay=int(values.get("pfc delay", pfc.delay)))


def _ets(ets: dcbnl.Ets, values: Mapping[str, str]) -> dcbnl.Ets:
    if "ets classes" in values:
        ets = replace(ets, class_of=_numbers(values["ets classes"]))
    if "ets bandwidth" in values:
        shares = values["ets bandwidth"].split(",")
        served = {str(word): how for how, word in _SERVED.items()}
        ets = replace(
            ets,
            bandwidth=tuple(0 if share in served else int(share) for share in shares),
            served=tuple(served.get(share, dcbnl.ETS) for share in shares),
        )
    return ets


def _dscp_requests(link: str, answer: Answer, values: Mapping[str, str]) -> list[dcbnl.Message]:
    """Add new entries before removing old ones: a driver without DSCP entries stops trusting DSCP."""
    priorities = {int(name.split()[1]): value for name, value in values.items()}
    actual = [
        app for app in answer.apps if app.selector == dcbnl.DSCP_SELECTOR and app.protocol in priorities
    ]
    desired = [
        App(dcbnl.DSCP_SELECTOR, int(priority), dscp)
        for dscp, value in sorted(priorities.items())
        if value != NONE
        for priority in value.split("+")
    ]
    added = [app for app in desired if app not in actual]
    removed = [app for app in actual if app not in desired]
    messages = [dcbnl.app_request(link, added, add=True)] if added else []
    return messages + ([dcbnl.app_request(link, removed, add=False)] if removed else [])


def _listed(numbers: object) -> str:
    return ",".join(map(str, numbers))  # type: ignore[call-overload]


def _numbers(listed: str) -> tuple[int, ...]:
    return () if listed == NONE else tuple(map(int, listed.split(",")))


def _of_words(listed: str, words: Mapping[str, int]) -> list[int]:
    return [] if listed == NONE else [words.get(word) or int(word) for word in listed.split(",")]
