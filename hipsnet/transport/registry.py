# SPDX-License-Identifier: Apache-2.0
"""The registry of transports: a transport is one class with a class method `open`, and one line here.

A transport's module is imported when the transport is opened, so that a library that is not installed
matters only to the transport that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from hipsnet.errors import CapabilityError
from hipsnet.transport.greeting import Greeting
from hipsnet.transport.interface import Transport
from hipsnet.transport.options import Options


@dataclass(frozen=True)
class Entry:
    """A transport: its class, a summary, its requirements and how to install them."""

    module: str
    name: str
    summary: str
    requires: str
    install: str = ""

    def open(self, greeting: Greeting, options: Options) -> Transport:
        """Import the class and return a transport that is not connected yet."""
        transport = getattr(import_module(self.module), self.name)
        return cast(Transport, transport.open(greeting, options))


TRANSPORTS: dict[str, Entry] = {
    "tcp": Entry("hipsnet.transport.tcp.transport", "TcpTransport", "kernel sockets", "nothing else"),
    "verbs": Entry(
        "hipsnet.transport.verbs.transport",
        "VerbsTransport",
        "RDMA NIC",
        "pyverbs",
        "apt install python3-pyverbs (it serves the distribution's own python3; see docs/roce.md)",
    ),
    "xdp": Entry(
        "hipsnet.transport.xdp.transport", "XdpTransport", "RoCEv2 on AF_XDP", "libxdp, a C compiler, root"
    ),
}


def open_transport(name: str, greeting: Greeting, options: Options) -> Transport:
    """Return the transport of this name, not connected yet. Raises CapabilityError where its library is missing."""
    entry = TRANSPORTS[name]
    try:
        return entry.open(greeting, options)
    except ImportError as error:
        raise CapabilityError(
            f"transport {name} requires {entry.requires}, which cannot be imported ({error})"
            f"{f'; run: {entry.install}' if entry.install else ''}"
        ) from error
