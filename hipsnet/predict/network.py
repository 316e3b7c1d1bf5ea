# SPDX-License-Identifier: Apache-2.0
"""The directed cables of a fabric, and which of them a flow passes.

Cable 2i carries what link i's end `a` sends, cable 2i + 1 the opposite direction. A flow follows the route
tables of the fabric's own nodes; where a table has several next hops, a hash of the flow, the node and a seed
chooses one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipsnet.errors import InputError
from hipsnet.predict.bounds import ROUTED_FLOWS, ROUTED_NODES, require
from hipsnet.topology import Fabric, Port, Server, Switch, routes

_MOST_HOPS = 64
_MASK = (1 << 64) - 1

Rows = tuple[NDArray[np.int64], NDArray[np.int32]]
"""(start of each row, with one element more than rows; the concatenated rows)."""


@dataclass(frozen=True, eq=False)
class Network:
    """The cables of a fabric; `seed` selects among ways of equal cost."""

    fabric: Fabric
    seed: int = 0

    @cached_property
    def cables(self) -> int:
        """The number of directed cables."""
        return 2 * len(self.fabric.links)

    def cable_name(self, cable: int) -> str:
        """Return `<node>.<port> -> <node>.<port>`."""
        link = self.fabric.links[cable // 2]
        ends = (link.a, link.b)[:: -1 if cable % 2 else 1]
        return " -> ".join(f"{end.node}.{end.name}" for end in ends)

    @cached_property
    def _out(self) -> dict[tuple[str, int], int]:
        """By (node, port index): the cable that the port sends into; it receives from the cable `^ 1`."""
        ends = ((link.a, link.b) for link in self.fabric.links)
        return {
            (end.node, end.index): 2 * i + side
            for i, pair in enumerate(ends)
            for side, end in enumerate(pair)
        }

    def cable_at(self, name: str) -> int:
        """Return the cable that the port `<node>.p<index>` sends into; InputError if there is no such port."""
        node, _, port = name.rpartition(".p")
        cable = self._out.get((node, int(port))) if port.isdecimal() else None
        if cable is None:
            raise InputError(f"no cable at {name!r}; name a port like {self._example}")
        return cable

    @property
    def _example(self) -> str:
        port = self.fabric.servers[0].ports[0]
        return f"{port.node}.{port.name}"

    def out_of(self, port: Port) -> int:
        """Return the cable that a port sends into."""
        return self._out[port.node, port.index]

    def routes(self, src: NDArray[Any], level: NDArray[Any], dst: NDArray[Any]) -> Rows:
        """Return the cables of each flow from rank `src`, port `level`, to rank `dst`, by its far port.

        Raises TooLarge if too many routes would have to be followed.
        """
        near, mid, is_one_hop = self._one_hop(src, level, dst)
        lengths = np.where(mid >= 0, 2, 1)
        further = {}
        routed = np.flatnonzero(~is_one_hop)
        self.require_routes(len(routed))
        for i in routed.tolist():
            further[i] = self._way(int(src[i]), int(level[i]), int(dst[i]))
            lengths[i] = len(further[i])
        first = np.zeros(len(src) + 1, np.int64)
        np.cumsum(lengths, out=first[1:])
        cables = np.empty(int(first[-1]), np.int32)
        cables[first[:-1]] = near
        two = is_one_hop & (mid >= 0)
        cables[first[:-1][two] + 1] = mid[two]
        for i, way in further.items():
            cables[first[i] : first[i + 1]] = way
        return first, cables

    def require_routes(self, flows: int) -> None:
        """Raise TooLarge if the routes of so many flows are too many to follow."""
        if flows:
            title = self.fabric.shape.title
            require(flows, ROUTED_FLOWS, f"flows on {title} pass through other nodes")
            require(len(self.fabric.nodes), ROUTED_NODES, f"route tables of {title} would have to be read")

    def shares(self, src: int, level: int, dst: int) -> dict[int, float]:
        """Return the cables of a flow with the share of it that each carries if ways of equal cost share evenly."""
        target = self.fabric.servers[dst].ports[self._far[level]]
        found: dict[int, float] = {}
        at: dict[str, float] = {self.fabric.servers[src].name: 1.0}
        for _ in range(_MOST_HOPS):
            following: dict[str, float] = {}
            for node, share in at.items():
                ports = self._next(node, _address(target))
                for port, via in ports:
                    for cable in self._hop(node, port, via):
                        found[cable] = found.get(cable, 0.0) + share / len(ports)
                    there = self._owner[via].node
                    following[there] = following.get(there, 0.0) + share / len(ports)
            following.pop(target.node, None)
            if not following:
                return found
            at = following
        raise _lost(self.fabric.servers[src].name, target)

    def _way(self, src: int, level: int, dst: int) -> list[int]:
        """Return one way, chosen by hash."""
        target = self.fabric.servers[dst].ports[self._far[level]]
        node, way = self.fabric.servers[src].name, list[int]()
        key = _mix(self.seed, src << 40 | level << 32 | dst)
        for _ in range(_MOST_HOPS):
            ports = self._next(node, _address(target))
            port, via = ports[_mix(key, self._number[node]) % len(ports)] if len(ports) > 1 else ports[0]
            way += self._hop(node, port, via)
            node = self._owner[via].node
            if node == target.node:
                return way
        raise _lost(self.fabric.servers[src].name, target)

    def _hop(self, node: str, port: int, via: int) -> Iterator[int]:
        """Yield the cables from a node to its next hop: one, or two with a switch of layer 2 between them."""
        cable = self._out[node, port]
        yield cable
        arrival = self._out[self._owner[via].node, self._owner[via].index] ^ 1
        if arrival != cable:
            yield arrival

    @cached_property
    def _far(self) -> tuple[int, ...]:
        return self.fabric.shape.far_ports

    @cached_property
    def _owner(self) -> dict[int, Port]:
        """The port that has an address."""
        nodes = self.fabric.nodes.values()
        return {_address(port): port for node in nodes for port in node.ports if port.address}

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.fabric.nodes)}

    @cached_property
    def _next(self) -> Any:
        """By (node, address): the ports that lead there, each with the address of the next hop."""
        tables: dict[str, dict[int, dict[int, tuple[tuple[int, int], ...]]]] = {}

        @lru_cache(maxsize=1 << 18)
        def following(node: str, address: int) -> tuple[tuple[int, int], ...]:
            if node not in tables:
                tables[node] = _table(self.fabric, self.fabric.nodes[node])
            for length, entries in tables[node].items():
                if found := entries.get(address >> (32 - length)):
                    return found
                if length == 32 and (link := self._connected(node, address)) is not None:
                    return ((link, address),)
            raise InputError(f"{node} has no route to {self._owner[address].node}")

        return following

    def _connected(self, node: str, address: int) -> int | None:
        """Return the port of the node whose subnet has the address."""
        owner = self._owner[address].address
        assert owner is not None
        for port in self.fabric.nodes[node].ports:
            if port.address and port.address.network == owner.network:
                return port.index
        return None

    def _one_hop(self, src: Any, level: Any, dst: Any) -> tuple[Any, Any, NDArray[np.bool_]]:
        """For flows that end at the next server: the first cable, the second one or -1, and whether they do."""
        near = self._ports[0][src, level]
        far = np.array(self._far)[level]
        segment = self._ports[1]
        is_one_hop = segment[src, level] == segment[dst, far]
        arrival = self._ports[0][dst, far] ^ 1
        return near, np.where(arrival == near, -1, arrival), is_one_hop

    @cached_property
    def _ports(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The cable that each server's port sends into, and the number of its subnet: shape (ranks, ports)."""
        servers = self.fabric.servers
        shape = len(servers), len(servers[0].ports)
        out = np.array([self.out_of(port) for server in servers for port in server.ports], np.int32)
        networks = [_network(port) for server in servers for port in server.ports]
        return out.reshape(shape), np.array(networks, np.int64).reshape(shape)


def _table(fabric: Fabric, node: Server | Switch) -> dict[int, dict[int, tuple[tuple[int, int], ...]]]:
    """Return a route table: by length of the prefix, the longest first, and prefix, the next hops."""
    lengths: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {32: {}}
    for route in routes(fabric, node.name):
        hops = tuple((hop.port, int(hop.via)) for hop in route.hops)
        length = route.prefix.prefixlen
        lengths.setdefault(length, {})[int(route.prefix.network_address) >> (32 - length)] = hops
    return dict(sorted(lengths.items(), reverse=True))


def _address(port: Port) -> int:
    assert port.address is not None
    return int(port.address.ip)


def _network(port: Port) -> int:
    assert port.address is not None
    return int(port.address.network.network_address)


def _mix(seed: int, value: int) -> int:
    """Return 64 well mixed bits (Steele et al., SplittableRandom, OOPSLA 2014)."""
    z = (seed * 0x9E3779B97F4A7C15 + value + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK
    return z ^ z >> 31


def _lost(source: str, target: Port) -> InputError:
    return InputError(
        f"the routes from {source} to {target.node}.{target.name} do not end within {_MOST_HOPS} hops"
    )
