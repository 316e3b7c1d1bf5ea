# SPDX-License-Identifier: Apache-2.0
"""What a work completion's status means, and what to look at: the words of the verbs and of this project."""

from __future__ import annotations

SUCCESS, FLUSHED = 0, 5

_REMOTE_MEMORY = "the peer's memory is not what it has announced; both ends must run the same hipsnet"
_LOCAL = "this is a fault of hipsnet or of the device's driver; look into dmesg"

# ibv_wc_status (libibverbs/verbs.h): the library's text, and what to check.
_MEANINGS = {
    1: ("local length error", _LOCAL),
    2: (
        "local QP operation error",
        "the port may be down or without a route to the peer; look at `rdma link`",
    ),
    3: ("local EE context operation error", _LOCAL),
    4: ("local protection error", "the memory may have been freed or unmapped while it was in use"),
    5: ("Work Request Flushed Error", "the queue pair failed before; see the peer's error, and dmesg"),
    6: ("memory window bind error", _LOCAL),
    7: ("bad response error", "the peer's device answered against the protocol; look at both drivers"),
    8: ("local access error", "the peer wrote where it may not; both ends must run the same hipsnet"),
    9: ("remote invalid request error", _REMOTE_MEMORY),
    10: ("remote access error", _REMOTE_MEMORY),
    11: ("remote operation error", "the peer could not finish it; see the peer's error"),
    12: (
        "transport retry counter exceeded",
        "the peer or the path does not answer; check that its process lives, the cable, `rdma link` at both "
        "ends, and drops along the way (PFC, MTU); HIPSNET_ACK_TIMEOUT and HIPSNET_RETRIES set the retries",
    ),
    13: (
        "RNR retry counter exceeded",
        "the peer had no receive posted for it, which its credits should prevent; HIPSNET_RNR_RETRIES",
    ),
    19: ("fatal error", "the device has failed; look into dmesg"),
    20: ("response timeout error", "the peer's device took too long; look at `rdma link` at both ends"),
    21: ("general error", "look into dmesg"),
}


def explain(status: int, vendor_error: int, port: str, state: str) -> str:
    """Why a connection out of `port`, now in `state`, failed with this `ibv_wc_status`."""
    text, check = _MEANINGS.get(status, ("unknown status", "look into dmesg"))
    vendor = f", vendor error {vendor_error:#x}" if vendor_error else ""
    now = "" if state == "ACTIVE" else f"; {port} is {state} here"
    return f"{text} (verbs status {status}{vendor}){now}: {check}"
