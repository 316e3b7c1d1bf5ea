# SPDX-License-Identifier: Apache-2.0
"""Flows simulated by SimGrid, in a process of its own: its engine exists once per process.

Reads {"capacity_Bps": [...], "flows": [{"bytes": B, "links": [...]}, ...]} from stdin, and prints the end of each
flow in seconds as JSON. The model is CM02 without its corrections for TCP: max-min fair sharing, as in the fluid
simulator.
"""

from __future__ import annotations

import json
import sys

import simgrid

OPTIONS = (
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/TCP-gamma:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:0",
    "network/weight-S:0",
    "surf/precision:1e-12",
    "maxmin/precision:1e-9",
)


def main() -> None:
    given = json.load(sys.stdin)
    engine = simgrid.Engine(
        [sys.argv[0], "--log=root.thresh:critical", *(f"--cfg={option}" for option in OPTIONS)]
    )
    zone = simgrid.NetZone.create_full_zone("world")
    links = [zone.create_link(f"l{i}", capacity).seal() for i, capacity in enumerate(given["capacity_Bps"])]
    ends = [0.0] * len(given["flows"])
    hosts = []
    for i, flow in enumerate(given["flows"]):
        pair = [zone.create_host(f"{end}{i}", 1e9).seal() for end in "ab"]
        route = [simgrid.LinkInRoute(links[link]) for link in flow["links"]]
        zone.add_route(pair[0].netpoint, pair[1].netpoint, None, None, route, False)
        hosts.append(pair)
    zone.seal()

    def send(i: int) -> None:
        simgrid.Mailbox.by_name(str(i)).put("data", given["flows"][i]["bytes"])

    def receive(i: int) -> None:
        simgrid.Mailbox.by_name(str(i)).get()
        ends[i] = engine.clock

    for i, (source, target) in enumerate(hosts):
        simgrid.Actor.create("send", source, send, i)
        simgrid.Actor.create("receive", target, receive, i)
    engine.run()
    json.dump(ends, sys.stdout)


if __name__ == "__main__":
    main()
