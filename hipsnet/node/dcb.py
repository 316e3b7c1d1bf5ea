"""Data centre bridging of a NIC as named settings: PFC, ETS, DSCP to priority, port buffers.

| setting | value |
|---|---|
| `pfc priorities` | the lossless ones, "3,4", or "none" |
| `pfc delay` | what the driver is told: bit times; mlx5 takes metres of cable |
| `ets classes` | the traffic class of priorities 0 to 7, "0,0,0,1,0,0,0,0" |
| `ets bandwidth` | percent of traffic classes 0 to 7; 0: served strictly, before the others; or "cbs", "vendor" |
| `dscp 26` | the priority of packets with that DSCP, or "none". A driver that has an entry trusts DSCP |
| `buffer of` | the buffer of priorities 0 to 7 |
| `buffer sizes` | bytes of buffers 0 to 7 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hipsnet.node import dcbnl
from hipsnet.node.dcbnl import Answer, App

GROUPS = ("pfc", "ets", "dscp", "buffer")
LACKS = {
    "pfc": "its driver has no PFC (dcbnl ieee_getpfc)",
    "ets": "its driver has no ETS (dcbnl ieee_getets)",
    "dscp": "its driver has no DCB (dcbnl)",
    "buffer": "its driver has no port buffers to set (dcbnl getbuffer)",
}
NONE = "none"
_SERVED: dict[int, object] = {dcbnl.STRICT: 0, 1: "cbs", 255: "vendor"}
"""How a traffic class is served that has no share of the bandwidth (`IEEE_8021QAZ_TSA_*`)."""
_DSCPS = 64


def pfc_classes(ifname: str) -> int | None:
    """How many traffic classes of an interface here can be lossless (IEEE 802.1Qbb); None without DCB.

    Raises OSError if there is no such interface, or the kernel refuses for another reason than lack of DCB.
    """
    answer = dcbnl.read(ifname)
    return answer.pfc.classes if answer and answer.pfc else None


def read(link: str, group: str) -> dict[str, str]:
    """All settings of a group that the link's driver has."""
    answer = dcbnl.read(link)
    return {} if answer is None else settings_of(answer, group)


def settings_of(answer: Answer, group: str) -> dict[str, str]:
    """The settings of a group out of what a driver says of itself."""
    if group == "pfc" and answer.pfc:
        enabled = [priority for priority in range(8) if answer.pfc.enabled >> priority & 1]
        return {"pfc priorities": _listed(enabled) or NONE, "pfc delay": str(answer.pfc.delay)}
    if group == "ets" and answer.ets:
        served = zip(answer.ets.served, answer.ets.bandwidth, strict=True)
        shares = [share if how == dcbnl.ETS else _SERVED.get(how, how) for how, share in served]
        return {"ets classes": _listed(answer.ets.class_of), "ets bandwidth": _listed(shares)}
    if group == "dscp":
        found = {app.protocol: app.priority for app in answer.apps if app.selector == dcbnl.DSCP_SELECTOR}
        return {f"dscp {dscp}": str(found.get(dscp, NONE)) for dscp in range(_DSCPS)}
    if group == "buffer" and answer.buffer:
        return {"buffer of": _listed(answer.buffer.buffer_of), "buffer sizes": _listed(answer.buffer.sizes)}
    return {}


def write(link: str, group: str, values: Mapping[str, str]) -> None:
    """Set some settings of a group; what is not among them stays. Raises OSError as the driver answers."""
    answer = dcbnl.read(link)
    if answer is not None:
        for request in requests(link, answer, group, values):
            dcbnl.send(request)


def requests(link: str, answer: Answer, group: str, values: Mapping[str, str]) -> list[dcbnl.Message]:
    """The messages that bring a driver which says `answer` of itself to these values."""
    if group == "dscp":
        return _dscp_requests(link, answer, values)
    part: dcbnl.Pfc | dcbnl.Ets | dcbnl.Buffer | None = None
    if group == "pfc" and answer.pfc:
        part = _pfc(answer.pfc, values)
    elif group == "ets" and answer.ets:
        part = _ets(answer.ets, values)
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
    """New entries before old ones go: a driver that loses its last DSCP entry stops trusting DSCP."""
    wanted = {int(name.split()[1]): value for name, value in values.items()}
    there = [app for app in answer.apps if app.selector == dcbnl.DSCP_SELECTOR and app.protocol in wanted]
    right = [
        App(dcbnl.DSCP_SELECTOR, int(value), dscp) for dscp, value in sorted(wanted.items()) if value != NONE
    ]
    added = [app for app in right if app not in there]
    wrong = [app for app in there if app not in right]
    found = [dcbnl.app_request(link, added, add=True)] if added else []
    return found + ([dcbnl.app_request(link, wrong, add=False)] if wrong else [])


def _listed(numbers: object) -> str:
    return ",".join(map(str, numbers))  # type: ignore[call-overload]


def _numbers(listed: str) -> tuple[int, ...]:
    return () if listed == NONE else tuple(map(int, listed.split(",")))
