# SPDX-License-Identifier: Apache-2.0
"""How RoCE packets are marked, and how patient their queue pairs are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QpAttributes:
    """`dscp` and `priority` are those that the topology has made lossless.

    `ack_timeout` is the exponent of the verbs: after 4.096 us x 2^n without an answer a packet is sent again,
    `retries` times. `rnr_retries` is how often a peer may have no receive posted; 7 is for ever.
    """

    dscp: int = 26
    priority: int = 3
    ack_timeout: int = 16
    retries: int = 7
    rnr_retries: int = 6
