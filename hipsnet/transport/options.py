# SPDX-License-Identifier: Apache-2.0
"""The options of all transports; each transport uses those that concern it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.xdp.options import NodePorts


@dataclass(frozen=True)
class Options:
    """`tcp_port`: the port of the handshake on every port address; `node`: the ports of this node, for xdp."""

    tcp_port: int
    congestion_control: str = "cubic"
    qp_attributes: QpAttributes = field(default_factory=QpAttributes)
    node: NodePorts | None = None
