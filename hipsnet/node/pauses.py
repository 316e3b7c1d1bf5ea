# SPDX-License-Identifier: Apache-2.0
"""The PFC state of a node's ports: the counters of its endpoint, and the whole state in place."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hipsnet.node import bpf
from hipsnet.node.forwarding import opened_map, port_key

COUNTERS = (
    "rx_pause_frames",
    "rx_pause_transitions",
    "rx_pause_us",
    "tx_pause_frames",
    "tx_pause_transitions",
    "tx_pause_us",
)
"""In the order of hipsnet/stack/cable/pfc.h. rx: the other end pauses this port; tx: this port pauses it."""

PRIORITIES = 8
Rows = np.ndarray[Any, np.dtype[Any]]


@contextmanager
def mapped_pauses(fabric: str, node: str) -> Iterator[Rows]:
    """The PFC state of a server's ports (kernel/pauses.h) in place, shape (ports,).

    The program and the endpoint write there at the same time. Raises ProvisionError if the node has no program.
    """
    with opened_map(fabric, node, "forward", "pauses") as (fd, layout):
        ports = bpf.map_info(fd).max_entries
        memory = mmap.mmap(fd, ports * layout.value.itemsize)
        yield np.frombuffer(memory, layout.value, ports)


def read_pauses(fabric: str, node: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The counters of a server's ports since its program was attached, shape (ports, priorities).

    Fields: COUNTERS, in frames, transitions and microseconds. An endpoint on the node updates them.
    """
    fields = np.dtype([(name, np.uint64) for name in COUNTERS])
    with opened_map(fabric, node, "forward", "pauses") as (fd, layout):
        ports = bpf.map_info(fd).max_entries
        found = np.zeros((ports, PRIORITIES), fields)
        for port in range(ports):
            row = np.frombuffer(bpf.lookup(fd, port_key(port), layout.value.itemsize) or b"", layout.value)
            found[port] = row["counters"].reshape(PRIORITIES, len(COUNTERS)).copy().view(fields).reshape(-1)
    return found
