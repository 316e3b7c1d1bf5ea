# SPDX-License-Identifier: Apache-2.0
"""Flows simulated by SimGrid, in a process of its own: its engine exists once per process.

Reads {"capacity_Bps": [...], "flows": [{"source": S, "target": T, "bytes": B, "links": [...]}, ...]} from stdin,
and prints {"ends_s": [the end of each flow], "took_s": how long the simulation ran} as JSON. The model is CM02
without its corrections for TCP: max-min fair sharing, as in hipsnet's fluid simulator. It needs python3-simgrid.
The flows of a pair of servers all pass the same links.
"""

from __future__ import annotations

import json
import sys
import time

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
    import simgrid

    given = json.load(sys.stdin)
    flows = given["flows"]
    engine = simgrid.Engine(
        [sys.argv[0], "--log=root.thresh:critical", *(f"--cfg={option}" for option in OPTIONS)]
    )
    zone = simgrid.NetZone.create_full_zone("world")
    links = [zone.create_link(f"l{i}", capacity).seal() for i, capacity in enumerate(given["capacity_Bps"])]
    names = sorted({flow[end] for flow in flows for end in ("source", "target")})
    hosts = {name: zone.create_host(f"h{name}", 1e9).seal() for name in names}
    for (source, target), found in {
        (flow["source"], flow["target"]): flow["links"] for flow in flows
    }.items():
        route = [simgrid.LinkInRoute(links[link]) for link in found]
        zone.add_route(hosts[source].netpoint, hosts[target].netpoint, None, None, route, False)
    zone.seal()
    ends: list[float] = []

    def send() -> None:
        ways = ((hosts[flow["source"]], hosts[flow["target"]], flow["bytes"]) for flow in flows)
        comms = [simgrid.Comm.sendto_async(*way) for way in ways]
        simgrid.Comm.wait_all(comms)
        ends.extend(comm.finish_time for comm in comms)

    simgrid.Actor.create("send", hosts[names[0]], send)
    begin = time.perf_counter()
    engine.run()
    json.dump({"ends_s": ends, "took_s": time.perf_counter() - begin}, sys.stdout)


if __name__ == "__main__":
    main()
