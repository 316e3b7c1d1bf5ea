# SPDX-License-Identifier: Apache-2.0
"""How RoCE packets are marked, and how often queue pairs repeat them."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_RETRY_S = 5.0


@dataclass(frozen=True)
class QpAttributes:
    """`dscp` and `priority` are those that the topology has made lossless.

    `ack_timeout` is the exponent of the verbs: after 4.096 us x 2^n without an answer a packet is sent again,
    `retries` times. `rnr_retries` is the number of RNR NAKs tolerated; 7 is unlimited.
    """

    dscp: int = 26
    priority: int = 3
    ack_timeout: int = 16
    retries: int = 7
    rnr_retries: int = 6

    @property
    def longest_retry_s(self) -> float:
        """A device has failed what is not acknowledged by then: its time-out may be 4 times the one that is set.

        (InfiniBand specification, 9.7.6.1.3.) At least LEAST_RETRY_S, as processes may wait for a processor.
        """
        return max(LEAST_RETRY_S, 4 * 4.096e-6 * float(1 << self.ack_timeout) * (self.retries + 1))
