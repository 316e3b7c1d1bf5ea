# SPDX-License-Identifier: Apache-2.0
"""From the name of a transport to the transport; what a transport needs is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hipsnet.errors import CapabilityError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Transport
from hipsnet.transport.verbs.qp_attributes import QpAttributes
from hipsnet.transport.xdp.options import NodePorts


@dataclass(frozen=True)
class Options:
    """What the transports want to know; each takes what concerns it."""

    tcp_port: int
    congestion_control: str = "cubic"
    qp_attributes: QpAttributes = field(default_factory=QpAttributes)
    node: NodePorts | None = None


def open_transport(name: str, greeting: Greeting, options: Options) -> Transport:
    """The transport of this name, not yet connected. Raises CapabilityError where its library is missing."""
    return OPENERS[name](greeting, options)


def _open_tcp(greeting: Greeting, options: Options) -> Transport:
    from hipsnet.transport.tcp.transport import TcpTransport

    return TcpTransport(greeting, options.tcp_port, options.congestion_control)


def _open_verbs(greeting: Greeting, options: Options) -> Transport:
    try:
        from hipsnet.transport.verbs.transport import VerbsTransport
    except ImportError as error:
        raise CapabilityError(
            f"transport verbs needs pyverbs, which cannot be imported ({error}); run: "
            "apt install python3-pyverbs (it serves the distribution's own python3; see docs/roce.md)"
        ) from error
    return VerbsTransport(greeting, options.tcp_port, options.qp_attributes)


def _open_xdp(greeting: Greeting, options: Options) -> Transport:
    from hipsnet.transport.xdp.transport import XdpTransport

    assert options.node is not None, "what opens transports knows its node's ports"
    return XdpTransport(greeting, options.tcp_port, options.qp_attributes, options.node)


OPENERS: dict[str, Callable[[Greeting, Options], Transport]] = {
    "tcp": _open_tcp,
    "verbs": _open_verbs,
    "xdp": _open_xdp,
}
